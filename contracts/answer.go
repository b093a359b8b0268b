package contracts

import "time"

// Results of handing in an event or of a worker's call. Unknown is never reported as failure or success (K14).
const (
	ResultAccepted            = "accepted"              // stored and queued, not done (K11)
	ResultDuplicate           = "duplicate"             // known key and payload; State says where the run is
	ResultDuplicateWithResult = "duplicate_with_result" // the run has ended; Outcome and Effects say how
	ResultPayloadMismatch     = "payload_mismatch"      // known key, other payload; nothing ran (K4)
	ResultOwnershipLost       = "ownership_lost"        // the lease is another's or has ended (K8)
	ResultOutcomeUnknown      = "outcome_unknown"       // an effect may or may not have taken place; it is being found out
)

// Answer is the body of every answer about one run (schemas/answer.v1.json).
type Answer struct {
	Result         string   `json:"result"`
	RunID          string   `json:"run_id"`
	IdempotencyKey string   `json:"idempotency_key"`
	State          string   `json:"state"`
	Outcome        string   `json:"outcome,omitempty"`
	Reason         string   `json:"reason,omitempty"` // why it ended so, for a person to read
	Lease          *Lease   `json:"lease,omitempty"`  // only for its owner
	Effects        []Effect `json:"effects,omitempty"`
	StatusURL      string   `json:"status_url"`
}

// Lease is time-bounded ownership of a run (K7). Owner and Version go back with every call made under it.
type Lease struct {
	Owner     string    `json:"owner"` // a random UUID per execution
	Version   int64     `json:"version"`
	ExpiresAt time.Time `json:"expires_at"`
	// RemainingMS is how much of it was left when the answer was written, by the database's clock, so that nobody has to
	// compare two clocks: count it from before the call was made (STO-06).
	RemainingMS int64 `json:"remaining_ms,omitempty"`
}

// Effect is one external write of the run.
type Effect struct {
	OperationID string `json:"operation_id"`
	// State is pending, sending, accepted, completed, unknown, held, failed or cancelled.
	State      string `json:"state"`
	ExternalID string `json:"external_id,omitempty"` // the provider's id
}
