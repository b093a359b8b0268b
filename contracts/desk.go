package contracts

import (
	"encoding/json"
	"time"
)

// DeskList is what waits for an operator, as far as the caller may settle it (schemas/desk_list.v1.json).
type DeskList struct {
	Sums  []DeskSum  `json:"sums"`
	Items []DeskItem `json:"items"`
	Next  string     `json:"next,omitempty"` // goes back as after; left out on the last page
}

// DeskSum is how much waits of one kind, action type, connector and currency of a tenant (R9).
type DeskSum struct {
	TenantID   string    `json:"tenant_id"`
	Kind       string    `json:"kind"`
	ActionType string    `json:"action_type"`
	Connector  string    `json:"connector"`
	Owner      string    `json:"owner,omitempty"`
	Count      int       `json:"count"`
	Oldest     time.Time `json:"oldest"`
	Amount     string    `json:"amount,omitempty"` // a plain decimal; left out with the currency where there is none
	Currency   string    `json:"currency,omitempty"`
}

// DeskItem is one effect that a person has to settle.
type DeskItem struct {
	OperationID    string         `json:"operation_id"`
	TenantID       string         `json:"tenant_id"`
	RunID          string         `json:"run_id"`
	IdempotencyKey string         `json:"idempotency_key"`
	CorrelationID  string         `json:"correlation_id"`
	ActionType     string         `json:"action_type"`
	Connector      string         `json:"connector"`
	Operation      string         `json:"operation"`
	Target         ApprovalTarget `json:"target"`
	Owner          string         `json:"owner,omitempty"`
	Kind           string         `json:"kind"`
	State          string         `json:"state"`
	HoldReason     string         `json:"hold_reason,omitempty"`
	Seen           string         `json:"seen"` // goes back with a resolution
	Since          time.Time      `json:"since"`
	ExecuteBy      time.Time      `json:"execute_by"`
	Attempts       int            `json:"attempts"`
	Lookups        int            `json:"lookups"`
	LastClass      string         `json:"last_class,omitempty"`
	LastDetail     string         `json:"last_detail,omitempty"`
	LastVerdict    string         `json:"last_verdict,omitempty"`
	ExternalID     string         `json:"external_id,omitempty"`
	MaybeSent      bool           `json:"maybe_sent"`
	FirstSentAt    *time.Time     `json:"first_sent_at,omitempty"`
	Amount         string         `json:"amount,omitempty"`
	Currency       string         `json:"currency,omitempty"`
}

// DeskCase is all that is known about one effect (schemas/desk_case.v1.json).
type DeskCase struct {
	DeskItem
	RequestedBy     string           `json:"requested_by,omitempty"` // as the event says it
	IntentHash      string           `json:"intent_hash"`
	Intent          json.RawMessage  `json:"intent"` // the canonical snapshot that is sent, and nothing else (A11)
	RunState        string           `json:"run_state"`
	SecondPerson    bool             `json:"second_person"` // that it was not done takes another person's word
	AttemptsMade    []DeskAttempt    `json:"attempts_made"`
	LookupsMade     []DeskLookup     `json:"lookups_made"`
	ResolutionsMade []DeskResolution `json:"resolutions"` // the latest first, proposals among them
	// ProviderEvents are what the provider has told by itself about it, in the order in which it came (R4).
	ProviderEvents []DeskEvent `json:"provider_events,omitempty"`
}

// DeskEvent is one event of a provider's.
type DeskEvent struct {
	EventID       string    `json:"event_id"`
	ReceivedAt    time.Time `json:"received_at"`
	Status        string    `json:"status,omitempty"`
	Verdict       string    `json:"verdict"`
	State         string    `json:"state"`
	ExternalID    string    `json:"external_id,omitempty"`
	RecordVersion string    `json:"record_version,omitempty"`
	Detail        string    `json:"detail,omitempty"`
}

// DeskAttempt is one attempt; what is not known of it is left out.
type DeskAttempt struct {
	Attempt           int        `json:"attempt"`
	StartedAt         time.Time  `json:"started_at"`
	FinishedAt        *time.Time `json:"finished_at,omitempty"`
	Class             string     `json:"class,omitempty"`
	Sent              bool       `json:"sent"`
	HTTPStatus        int        `json:"http_status,omitempty"`
	ExternalID        string     `json:"external_id,omitempty"`
	ProviderRequestID string     `json:"provider_request_id,omitempty"`
	RequestDigest     string     `json:"request_digest,omitempty"`
	Detail            string     `json:"detail,omitempty"`
}

// DeskLookup is one read of the provider.
type DeskLookup struct {
	Lookup     int       `json:"lookup"`
	LookedAt   time.Time `json:"looked_at"`
	Verdict    string    `json:"verdict"`
	Conclusive bool      `json:"conclusive"`
	ExternalID string    `json:"external_id,omitempty"`
	Evidence   string    `json:"evidence"`
}

// Moves of a resolution.
const (
	ResolveDone     = "confirm_done"
	ResolveNotDone  = "confirm_not_done"
	ResolveDispute  = "dispute"
	ResolveGiveUp   = "give_up"
	ResolveWithdraw = "withdraw" // of a proposal
)

// DeskResolution is one resolution, made or proposed.
type DeskResolution struct {
	ResolutionID string     `json:"resolution_id"`
	Move         string     `json:"move"`
	By           string     `json:"by"` // as ReviewerID of a Decision
	Reason       string     `json:"reason"`
	ExternalID   string     `json:"external_id,omitempty"`
	Evidence     string     `json:"evidence,omitempty"`
	Channel      string     `json:"channel"`
	ProposedAt   time.Time  `json:"proposed_at"`
	LapsesAt     *time.Time `json:"lapses_at,omitempty"` // left out where nobody else was needed
	WithdrawnAt  *time.Time `json:"withdrawn_at,omitempty"`
	WithdrawnBy  string     `json:"withdrawn_by,omitempty"`
	SecondPerson string     `json:"second_person,omitempty"`
	SecondReason string     `json:"second_reason,omitempty"`
	MadeAt       *time.Time `json:"made_at,omitempty"`
}

// ResolutionRequest is the body of a resolution (schemas/resolution_request.v1.json).
type ResolutionRequest struct {
	Move       string `json:"move"`
	Reason     string `json:"reason,omitempty"`      // needed for all but ResolveWithdraw
	Seen       string `json:"seen"`                  // as the case said it
	ExternalID string `json:"external_id,omitempty"` // the provider's; needed for ResolveDone
	Evidence   string `json:"evidence,omitempty"`
	ProposalID string `json:"proposal_id,omitempty"` // that is confirmed or withdrawn
}

// ResolutionAnswer says what a resolution came to, and what stands (schemas/resolution_answer.v1.json). With a conflict its members
// stand beside those of a Problem.
type ResolutionAnswer struct {
	OperationID string          `json:"operation_id"`
	Resolution  string          `json:"resolution_result"`
	State       string          `json:"state"`
	HoldReason  string          `json:"hold_reason,omitempty"`
	ExternalID  string          `json:"external_id,omitempty"`
	Stands      *DeskResolution `json:"stands,omitempty"` // made last, or proposed
}
