package contracts

import "time"

// RunList is what a search found, the newest run first (schemas/run_list.v1.json).
type RunList struct {
	Runs []RunSummary `json:"runs"`
	Next string       `json:"next,omitempty"` // where the next page goes on; empty on the last
}

// RunSummary is where one run stands, and where it came from.
type RunSummary struct {
	Answer
	Source        string    `json:"source"`
	CorrelationID string    `json:"correlation_id"`
	CreatedAt     time.Time `json:"created_at"`
}
