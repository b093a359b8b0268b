package contracts

import (
	"encoding/json"
	"time"
)

// Approval is one request for a decision, as lists give it (schemas/approval.v1.json).
type Approval struct {
	ApprovalID     string         `json:"approval_id"`
	TenantID       string         `json:"tenant_id"`
	RunID          string         `json:"run_id"`
	IdempotencyKey string         `json:"idempotency_key"`
	CorrelationID  string         `json:"correlation_id"`
	ActionType     string         `json:"action_type"`
	Target         ApprovalTarget `json:"target"`
	Audience       []string       `json:"audience"`               // roles of which one may decide
	Status         string         `json:"status"`                 // pending, approved, rejected, expired or superseded
	RequestedBy    string         `json:"requested_by,omitempty"` // as the event says it
	RequestedAt    time.Time      `json:"requested_at"`
	DecideBy       time.Time      `json:"decide_by"` // a decision counts before this, by the database's clock
	DecidedAt      *time.Time     `json:"decided_at,omitempty"`
	Approvals      int            `json:"approvals"` // votes to approve so far
}

// ApprovalList is the answer to a listing (schemas/approval_list.v1.json).
type ApprovalList struct {
	Approvals []Approval `json:"approvals"` // what waits first, the most urgent on top
}

// ApprovalTarget is what would be written to.
type ApprovalTarget struct {
	System   string `json:"system"`
	RecordID string `json:"record_id"`
}

// ApprovalCard is all about one request (schemas/approval_card.v1.json).
type ApprovalCard struct {
	Approval
	IntentHash      string          `json:"intent_hash"` // goes back with the decision (A7)
	IntentRevision  int             `json:"intent_revision"`
	Intent          json.RawMessage `json:"intent"` // the canonical snapshot that is approved, and nothing else (A11)
	Reasons         json.RawMessage `json:"reasons"`
	PolicyVersion   string          `json:"policy_version"`
	Quorum          int             `json:"quorum"`
	Stages          []ReviewStage   `json:"stages,omitempty"`
	TypedReason     bool            `json:"typed_reason"` // an approval needs a reason
	Decisions       []Decision      `json:"decisions"`
	ExecutionStatus string          `json:"execution_status"` // not_started, executing, executed, failed or unknown
	RunState        string          `json:"run_state"`
	RunOutcome      string          `json:"run_outcome,omitempty"`
	Effects         []Effect        `json:"effects,omitempty"`
	Corrects        *Corrected      `json:"corrects,omitempty"`    // where the event corrects an earlier one
	BreakGlass      *GlassReview    `json:"break_glass,omitempty"` // where somebody approved it alone
}

// Corrected is the run that a correction is about, as it stood when the correction came (K10).
type Corrected struct {
	IdempotencyKey string   `json:"idempotency_key"`
	RunID          string   `json:"run_id"`
	CorrectedBy    string   `json:"corrected_by"` // as the event says it
	Reason         string   `json:"reason"`
	Outcome        string   `json:"outcome"`
	Effects        []Effect `json:"effects,omitempty"`
}

// Decision is one recorded vote.
type Decision struct {
	Decision   string    `json:"decision"`               // DecisionApprove, DecisionReject, DecisionSendBack or DecisionBreakGlass
	ReviewerID string    `json:"reviewer_id"`            // "sam for nora" where sam decided for nora
	OnBehalfOf string    `json:"on_behalf_of,omitempty"` // the configured id of whoever was away, and whose vote it is (A16)
	Reason     string    `json:"reason"`
	DecidedAt  time.Time `json:"decided_at"`
}

// DecisionRequest is the body of a decision (schemas/decision_request.v1.json).
type DecisionRequest struct {
	Decision   string `json:"decision"`
	Reason     string `json:"reason,omitempty"`
	IntentHash string `json:"intent_hash"`     // of the intent that the person was shown
	Token      string `json:"token,omitempty"` // of the link that led here
}

// WithdrawalRequest is the body of a withdrawal (schemas/withdrawal_request.v1.json).
type WithdrawalRequest struct {
	Reason string `json:"reason"`
}

// DecisionAnswer says what a decision came to (schemas/decision_answer.v1.json). With a conflict its members stand beside
// those of a Problem in one object, and tell what stands (A8).
type DecisionAnswer struct {
	ApprovalID string `json:"approval_id"`
	// Result is approved, rejected, sent_back, counted, no_rounds, already_decided, already_voted, expired, changed, token_spent,
	// not_yet, not_needed or delegation_over.
	Result    string     `json:"decision_result"`
	Status    string     `json:"approval_status"` // of the approval now
	Approvals int        `json:"approvals"`
	Quorum    int        `json:"quorum"`
	Decisions []Decision `json:"decisions"`
	// Stages are as in the card; left out with a withdrawal, which needs none.
	Stages []ReviewStage `json:"stages,omitempty"`
}

// States of a stage.
const (
	StageSatisfied = "satisfied"
	StageOpen      = "open"
	StageWaiting   = "waiting" // for the stages before it
)

// ReviewStage is one step of a review: all its groups must be satisfied before the next one opens (A16).
type ReviewStage struct {
	State  string        `json:"state"` // StageSatisfied, StageOpen or StageWaiting
	Groups []ReviewGroup `json:"groups"`
}

// ReviewGroup is how many people must approve who hold a role, and who has.
type ReviewGroup struct {
	Role       string   `json:"role,omitempty"` // "" is any role of the audience
	Approvals  int      `json:"approvals"`      // different people who must approve
	Missing    int      `json:"missing"`
	ApprovedBy []string `json:"approved_by"` // reviewer ids, in the order of their votes
}
