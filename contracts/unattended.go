package contracts

import (
	"encoding/json"
	"time"
)

// UnattendedList is what rules let act with no person asked, as far as the caller may see it (schemas/unattended_list.v1.json).
type UnattendedList struct {
	HeldBack []Unattended `json:"held_back"` // not sent yet and can be taken back, the next one first
	Samples  []Unattended `json:"samples"`   // wait for a verdict of the caller, the most urgent first
	// BreakGlass is what people approved alone and waits for a verdict of the caller, the most urgent first.
	BreakGlass []BrokenGlass `json:"break_glass,omitempty"`
}

// Unattended is one case that a rule let act (P4).
type Unattended struct {
	RunID          string          `json:"run_id"`
	TenantID       string          `json:"tenant_id"`
	IdempotencyKey string          `json:"idempotency_key"`
	CorrelationID  string          `json:"correlation_id"`
	ActionType     string          `json:"action_type"`
	Target         ApprovalTarget  `json:"target"`
	RequestedBy    string          `json:"requested_by,omitempty"` // as the event says it
	IntentHash     string          `json:"intent_hash"`
	Intent         json.RawMessage `json:"intent"` // the canonical snapshot that is sent, and nothing else (A11)
	Reasons        json.RawMessage `json:"reasons"`
	PolicyVersion  string          `json:"policy_version"`
	AuthorizedAt   time.Time       `json:"authorized_at"`
	CancelUntil    *time.Time      `json:"cancel_until,omitempty"` // left out where the rule holds nothing (D14)
	RunState       string          `json:"run_state"`
	Effect         Effect          `json:"effect"`
	Samples        []Sample        `json:"samples,omitempty"`
}

// Verdicts about a sample.
const (
	VerdictRight = "right"
	VerdictWrong = "wrong"
)

// Sample is one case that people look at afterwards.
type Sample struct {
	SampleID   string    `json:"sample_id"`
	RuleID     string    `json:"rule_id"`
	Evaluation string    `json:"evaluation"`
	Audience   []string  `json:"audience"` // roles of which one may judge
	ReviewBy   time.Time `json:"review_by"`
	Verdict    string    `json:"verdict,omitempty"` // VerdictRight or VerdictWrong; left out while it waits
	ReviewerID string    `json:"reviewer_id,omitempty"`
	Reason     string    `json:"reason,omitempty"`
}

// TakeBackAnswer says what became of the wish that a case is not sent (schemas/take_back_answer.v1.json). With a conflict its members
// stand beside those of a Problem in one object, and say what is known of what was sent.
type TakeBackAnswer struct {
	RunID       string     `json:"run_id"`
	TakenBack   bool       `json:"taken_back"`
	RunState    string     `json:"run_state"`
	Effect      *Effect    `json:"effect,omitempty"`
	Attempts    int        `json:"attempts"`
	FirstSentAt *time.Time `json:"first_sent_at,omitempty"` // when the first request may have left
}

// JudgementRequest is the body of a verdict (schemas/judgement_request.v1.json).
type JudgementRequest struct {
	SampleID string `json:"sample_id"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason,omitempty"` // needed for VerdictWrong
}

// JudgementAnswer says what stands (schemas/judgement_answer.v1.json). With a conflict its members stand beside those of a Problem.
type JudgementAnswer struct {
	SampleID   string    `json:"sample_id"`
	Verdict    string    `json:"verdict"`
	ReviewerID string    `json:"reviewer_id"`
	JudgedAt   time.Time `json:"judged_at"`
	RuleID     string    `json:"rule_id"`
	Stopped    bool      `json:"stopped"` // the rule lets nothing act on the strength of its evaluation any more
}
