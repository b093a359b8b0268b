package contracts

// DecisionBatch is many decisions of one person in one request (schemas/decision_batch.v1.json).
type DecisionBatch struct {
	Decisions []BatchedDecision `json:"decisions"`
}

// BatchedDecision is one decision of a batch, with the request that it is about.
type BatchedDecision struct {
	ApprovalID string `json:"approval_id"`
	CommandID  string `json:"command_id,omitempty"` // a UUID; the same decision under it again is the same vote
	DecisionRequest
}

// DecisionResults are what the decisions of a batch came to, in their order (schemas/decision_results.v1.json).
type DecisionResults struct {
	Results []DecisionResult `json:"results"`
}

// DecisionResult is what one decision of a batch would have been answered alone. With a conflict it has both: the problem, and the
// answer that tells what stands (A8).
type DecisionResult struct {
	ApprovalID string          `json:"approval_id"` // as it was sent
	Status     int             `json:"status"`      // the HTTP status that it would have had
	Answer     *DecisionAnswer `json:"answer,omitempty"`
	Problem    *Problem        `json:"problem,omitempty"`
}
