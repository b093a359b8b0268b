package contracts

import "encoding/json"

// Bodies of a worker's calls. Over request/reply they name the run; over HTTP its path does, and RunID stays empty.

// Renewal lengthens a lease, up to its cap (K7; schemas/renewal.v1.json).
type Renewal struct {
	RunID   string `json:"run_id,omitempty"`
	Owner   string `json:"owner"`   // of the lease, as it was given
	Version int64  `json:"version"` // of the lease, as it was given last
}

// Submission hands in the proposal of a run and ends the lease (K6; schemas/submission.v1.json).
type Submission struct {
	RunID    string   `json:"run_id,omitempty"`
	Owner    string   `json:"owner"`
	Version  int64    `json:"version"`
	Proposal Proposal `json:"proposal"`
}

// Failure gives a leased run back, or ends it (K9; schemas/failure.v1.json).
type Failure struct {
	RunID     string `json:"run_id,omitempty"`
	Owner     string `json:"owner"`
	Version   int64  `json:"version"`
	Retryable bool   `json:"retryable"` // others may claim the run; else it ends
	Reason    string `json:"reason"`    // 1 to 2000 bytes
	Invalid   bool   `json:"invalid,omitempty"`
	Class     string `json:"class,omitempty"` // one of the Failed… constants
	// RetryAfterSeconds is how long at least the run waits before another worker gets it; at most an hour.
	RetryAfterSeconds int `json:"retry_after_seconds,omitempty"`
}

// Classes of a worker's failure (M4). They are recorded, and change nothing by themselves.
const (
	FailedNotSent       = "not_sent"       // the model was not reached
	FailedBusy          = "busy"           // it asked to come back later: 429, 503
	FailedTimeout       = "timeout"        // it was asked and did not answer in time
	FailedInvalidOutput = "invalid_output" // what it answered was no valid proposal, also after repair
	FailedRefused       = "refused"        // it refused the request: 400, 401, 403, or too much context
	FailedInternal      = "internal"       // the worker itself failed
)

// WorkRequest asks for runs of a source that wait for a worker (schemas/work_request.v1.json).
type WorkRequest struct {
	// Owner of the leases, a random UUID for every execution; a repeated request with it gets the leases that it has.
	Owner       string `json:"owner,omitempty"`
	Max         int    `json:"max,omitempty"`          // 1 to 100; 0 is 1
	WaitSeconds int    `json:"wait_seconds,omitempty"` // how long to wait for the first one, at most 30
}

// Work is what a worker was given: nothing where nothing waits (schemas/work.v1.json).
type Work struct {
	Work []WorkItem `json:"work"`
}

// WorkItem is one run under a lease, with the event that it is about.
type WorkItem struct {
	Run     Answer    `json:"run"`
	Attempt int       `json:"attempt"` // from 1: how often the run was given to a worker
	Event   WorkEvent `json:"event"`
	// SentBack is set where a proposal was made already and was sent back: a better one is awaited (P2, A18).
	SentBack *SentBack `json:"sent_back,omitempty"`
}

// SentBack is why a proposal was sent back, and what it was.
type SentBack struct {
	Revision int             `json:"revision"` // of the intent that was sent back
	SentBy   string          `json:"sent_by"`  // policy, or the id of the reviewer
	Reasons  json.RawMessage `json:"reasons"`  // each with a code and a message
	Intent   json.RawMessage `json:"intent"`   // the canonical snapshot that was sent back
}

// WorkEvent is an event as it was received (K12). Headers that hold secrets are left out.
type WorkEvent struct {
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers,omitempty"` // names in lower case
	Body        json.RawMessage   `json:"body"`
}

// RunQuery asks over request/reply where a run stands, by one of the two (schemas/run_query.v1.json).
type RunQuery struct {
	RunID string `json:"run_id,omitempty"`
	Key   string `json:"key,omitempty"`
}
