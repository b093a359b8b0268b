package contracts

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
}

// RunQuery asks over request/reply where a run stands, by one of the two (schemas/run_query.v1.json).
type RunQuery struct {
	RunID string `json:"run_id,omitempty"`
	Key   string `json:"key,omitempty"`
}
