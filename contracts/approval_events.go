package contracts

import "time"

// TypeApprovalDecided is the type of ApprovalDecided.
const TypeApprovalDecided = "holdpoint.approval.decided.v1"

// What a reviewer can decide.
const (
	DecisionApprove  = "approve"
	DecisionReject   = "reject"
	DecisionSendBack = "send_back" // to whoever proposed it, who may bring a better proposal
)

var decisions = []string{DecisionApprove, DecisionReject, DecisionSendBack}

// ApprovalDecided says that a reviewer's vote was recorded. Each vote is told once; whether the intent was executed is
// told by RunCompleted or RunEnded.
type ApprovalDecided struct {
	RunRef
	ApprovalID string
	Decision   string // DecisionApprove, DecisionReject or DecisionSendBack
	Final      bool   // false while the quorum is short (A5, A7)
	// ReviewerID is the configured id of the person, or issuer#subject of the sign-in where there is none (A4); followed by " for "
	// and the id of whoever was away where the decision is for them (A16).
	ReviewerID     string
	Reason         string    // in the reviewer's words; "" where none was given
	DecidedAt      time.Time // the database's clock, in microseconds
	IntentRevision int
	IntentHash     string // of the intent that the reviewer was shown (A11)
}

func (d *ApprovalDecided) Type() string { return TypeApprovalDecided }
func (d *ApprovalDecided) BusSubject() string {
	return EventsPrefix + d.TenantID + ".approval.decided"
}

func (d *ApprovalDecided) fields() []field {
	return d.with(
		field{name: "approval_id", into: &d.ApprovalID},
		field{name: "decision", into: &d.Decision, allowed: decisions},
		field{name: "final", into: &d.Final},
		field{name: "reviewer_id", into: &d.ReviewerID},
		field{name: "reason", into: &d.Reason, optional: true},
		field{name: "decided_at", into: &d.DecidedAt},
		field{name: "intent_revision", into: &d.IntentRevision},
		field{name: "intent_hash", into: &d.IntentHash},
	)
}
