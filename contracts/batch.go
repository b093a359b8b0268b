package contracts

import "encoding/json"

// Batch is many events of one source in one request (schemas/batch.v1.json).
type Batch struct {
	Events []BatchEvent `json:"events"`
}

// BatchEvent is one event of a batch, with the headers that it would have alone.
type BatchEvent struct {
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body"`
}

// BatchResults are the answers to a batch, in the order of its events (schemas/batch_results.v1.json).
type BatchResults struct {
	Results []BatchResult `json:"results"`
}

// BatchResult is what one event of a batch would have been answered alone: an answer or a problem.
type BatchResult struct {
	Status  int      `json:"status"` // the HTTP status that it would have had
	Answer  *Answer  `json:"answer,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Result is the result of the answer, or the code of the problem.
func (r *BatchResult) Result() string {
	switch {
	case r.Answer != nil:
		return r.Answer.Result
	case r.Problem != nil:
		return r.Problem.Code
	}
	return ""
}
