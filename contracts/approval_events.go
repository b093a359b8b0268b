package contracts

import "time"

// Types of the events about requests for a decision.
const (
	TypeApprovalRequested = "holdpoint.approval.requested.v1"
	TypeApprovalDecided   = "holdpoint.approval.decided.v1"
)

// Why an ApprovalRequested is told.
const (
	RequestNew        = "requested"  // a decision waits from now on
	RequestReminder   = "reminder"   // nobody has decided yet, and the time runs out
	RequestEscalation = "escalation" // more people may decide from now on
)

var requestKinds = []string{RequestNew, RequestReminder, RequestEscalation}

// ApprovalRequested says that a decision waits for a person. Each kind is told at most once for a request, also where the tenant has
// no channel; it is stored with what it tells of and after the request itself (A1, B1). Like a message of a channel it carries no
// authority, and nothing of what would be done but the type of the action (A18).
type ApprovalRequested struct {
	RunRef
	ApprovalID string
	ActionType string
	Audience   []string  // roles of which one may decide
	DecideBy   time.Time // the database's clock, in microseconds
	Kind       string    // RequestNew, RequestReminder or RequestEscalation
}

func (d *ApprovalRequested) Type() string { return TypeApprovalRequested }
func (d *ApprovalRequested) BusSubject() string {
	return EventsPrefix + d.TenantID + ".approval.requested"
}

func (d *ApprovalRequested) fields() []field {
	return d.with(
		field{name: "approval_id", into: &d.ApprovalID},
		field{name: "action_type", into: &d.ActionType},
		field{name: "audience", into: &d.Audience, optional: true},
		field{name: "decide_by", into: &d.DecideBy},
		field{name: "kind", into: &d.Kind, allowed: requestKinds},
	)
}

// What a reviewer can decide.
const (
	DecisionApprove  = "approve"
	DecisionReject   = "reject"
	DecisionSendBack = "send_back" // to whoever proposed it, who may bring a better proposal
	// DecisionBreakGlass approves alone in an emergency, whatever the quorum or the stages; others look at it afterwards (A16).
	DecisionBreakGlass = "break_glass"
)

var decisions = []string{DecisionApprove, DecisionReject, DecisionSendBack, DecisionBreakGlass}

// ApprovalDecided says that a reviewer's vote was recorded. Each vote is told once; whether the intent was executed is
// told by RunCompleted or RunEnded.
type ApprovalDecided struct {
	RunRef
	ApprovalID string
	Decision   string // DecisionApprove, DecisionReject, DecisionSendBack or DecisionBreakGlass
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
