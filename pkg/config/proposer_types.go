package config

import "time"

// Proposer asks a model endpoint for the proposals of a source (M1).
type Proposer struct {
	Draft

	BaseURL       string   // of an OpenAI-compatible API, such as https://models.example.com/v1
	AllowedHosts  []string // host or host:port that may be dialled; checked at connect time (D12)
	APIKeyEnv     string   // environment variable that holds the API key; it and APIKeyFile are "" for servers without one
	APIKeyFile    string
	ProviderClass string // recorded as it stands, such as openai_compatible (M5)
	Model         string
	Revision      string // recorded in place of what the endpoint calls its own; "" records that
	Prompt        Prompt

	Timeout         time.Duration // of one call
	TotalTime       time.Duration // of all calls for one run, and the waits between them
	Repair          int           // calls that may follow an invalid answer (M3)
	MaxOutputTokens int           // of one call
	MaxInputBytes   int           // of one call's whole request
	MaxTokens       int           // of all calls for one run
	Concurrency     int           // runs at a time
	Strict          bool          // asks the endpoint to hold the answer to the schema; not every schema is taken then
	OutputLimit     string        // name by which the endpoint is told MaxOutputTokens
}

// Agent hands the drafting of a source's proposals to an agent runtime: one signed webhook for a run, whose answer is
// the draft. An agent calls tools, so it is never asked again once it may have begun (M4).
type Agent struct {
	Draft

	Webhook       *Webhook
	ProviderClass string // this and the next two are recorded as they stand (M5)
	Model         string
	Revision      string // "" records none
	Timeout       time.Duration
	TotalTime     time.Duration // of all calls that certainly did not reach the agent, the last one, and the waits between
	MaxInputBytes int
	Concurrency   int
}

// Draft is what a source's proposals are made of. What is not declared here does not leave the process, and what is
// declared here the drafter cannot choose: it fills in the change, its assumptions and its uncertainty.
type Draft struct {
	ActionTypes     []string // that may be proposed
	WorkflowVersion string
	Records         []RecordRule // all that is shown of an event
	Evidence        []CitationRule
	Target          TargetRule
	CurrentVersion  string // JSON pointer to the target's version in the event; "" names none
	Fixed           []FixedRule
}

// RecordRule is a part of the event that the drafter is shown.
type RecordRule struct {
	Name     string
	Pointer  string // JSON pointer into the event
	Optional bool   // it is asked also where the event has no such part
}

// CitationRule is one item of a proposal's evidence, taken from the event. Exactly one of Version and Record is set.
type CitationRule struct {
	Source     string
	Version    string // JSON pointer to the version that was read
	Record     string // name of the record whose hash is the version
	ObservedAt string // JSON pointer to an RFC 3339 time
	URL        string // JSON pointer; "" cites none
}

// TargetRule says which record would change, so that no drafter can choose another.
type TargetRule struct {
	System   string
	RecordID string // JSON pointer into the event
}

// FixedRule takes a member of the proposed change from the event; the drafter is not asked for it.
type FixedRule struct {
	Member  string
	Pointer string
}

// Prompt is a text/template over {{.Records}}.
type Prompt struct {
	Name string // of its file, without .tmpl
	Text string
}
