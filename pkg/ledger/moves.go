package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// Record is a kind of row that has a state.
type Record string

// The records whose states move.
const (
	RunRecord      Record = "run"
	ApprovalRecord Record = "approval"
	EffectRecord   Record = "effect"
)

// States of a run.
const (
	RunProcessing      = "processing"
	RunAwaitingHuman   = "awaiting_human"
	RunApproved        = "approved"
	RunCompleted       = "completed"
	RunFailedRetryable = "failed_retryable"
	RunFailedTerminal  = "failed_terminal"
)

// Outcomes of a run that has ended: the first two end in completed, the others in failed_terminal.
const (
	OutcomeExecuted = "executed"
	OutcomePartial  = "partial"
	OutcomeRejected = "rejected"
	OutcomeExpired  = "expired"
	OutcomeDenied   = "denied"
	OutcomeInvalid  = "invalid"
	OutcomeFailed   = "failed"
)

// States of an approval.
const (
	ApprovalPending    = "pending"
	ApprovalApproved   = "approved"
	ApprovalRejected   = "rejected"
	ApprovalExpired    = "expired"
	ApprovalSuperseded = "superseded" // nobody needs it any more: the request was withdrawn, or sent back to whoever proposed it
)

// States of an effect.
const (
	EffectPending   = "pending"
	EffectSending   = "sending"
	EffectAccepted  = "accepted"
	EffectCompleted = "completed"
	EffectUnknown   = "unknown"
	EffectHeld      = "held"
	EffectFailed    = "failed"
	EffectCancelled = "cancelled"
)

// Reasons for which an effect is held.
const (
	HoldExhausted    = "exhausted"    // its attempts or its time ran out without a certain send
	HoldUnauthorized = "unauthorized" // the provider refused our credential
	HoldIncident     = "incident"     // several matches, or a key used with other parameters
	HoldDisputed     = "disputed"     // an operator says that the provider is wrong
	HoldRecalled     = "recalled"     // an operator took back what was unsent
	HoldMismatch     = "mismatch"     // the provider says that it is done, and its target does not hold it (R7)
	HoldReview       = "review"       // something changed since it was authorized; a person decides again
)

// Services that make moves.
const (
	Intake     = "intake"
	Policy     = "policy"
	Approval   = "approval"
	Dispatcher = "dispatcher"
	Reconciler = "reconciler"
	Relay      = "relay"
	Operator   = "operator"
)

// Move is one thing that can happen to a record: from which states, to which state, and who may do it. An empty From means
// that the move makes the record.
type Move struct {
	Name   string
	Record Record
	From   []string
	To     string
	By     []string
}

// Moves is the whole table. A state that no move leaves is final.
var Moves = []Move{
	{Name: "claim", Record: RunRecord, To: RunProcessing, By: []string{Intake}},
	{Name: "reclaim", Record: RunRecord, From: []string{RunProcessing, RunFailedRetryable}, To: RunProcessing, By: []string{Intake}},
	{Name: "renew", Record: RunRecord, From: []string{RunProcessing}, To: RunProcessing, By: []string{Intake}},
	{Name: "submit", Record: RunRecord, From: []string{RunProcessing}, To: RunProcessing, By: []string{Intake}},
	{Name: "fail_retryable", Record: RunRecord, From: []string{RunProcessing}, To: RunFailedRetryable, By: []string{Intake}},
	{Name: "fail_terminal", Record: RunRecord, From: []string{RunProcessing}, To: RunFailedTerminal, By: []string{Intake}},
	{Name: "take", Record: RunRecord, From: []string{RunProcessing, RunFailedRetryable}, To: RunProcessing, By: []string{Intake}},
	{Name: "exhaust", Record: RunRecord, From: []string{RunProcessing, RunFailedRetryable}, To: RunFailedTerminal,
		By: []string{Intake}},
	{Name: "authorize", Record: RunRecord, From: []string{RunProcessing}, To: RunApproved, By: []string{Policy}},
	{Name: "ask_human", Record: RunRecord, From: []string{RunProcessing}, To: RunAwaitingHuman, By: []string{Policy}},
	{Name: "deny", Record: RunRecord, From: []string{RunProcessing}, To: RunFailedTerminal, By: []string{Policy}},
	{Name: "repair", Record: RunRecord, From: []string{RunProcessing}, To: RunProcessing, By: []string{Policy}},
	{Name: "put_back", Record: RunRecord, From: []string{RunProcessing}, To: RunProcessing, By: []string{Intake}},
	{Name: "lapse", Record: RunRecord, From: []string{RunProcessing}, To: RunFailedTerminal, By: []string{Approval}},
	{Name: "send_back", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunProcessing, By: []string{Approval}},
	{Name: "approve", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunApproved, By: []string{Approval}},
	{Name: "reject", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunFailedTerminal, By: []string{Approval}},
	{Name: "expire", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunFailedTerminal, By: []string{Approval}},
	{Name: "withdraw", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunFailedTerminal, By: []string{Approval}},
	{Name: "take_back", Record: RunRecord, From: []string{RunApproved}, To: RunFailedTerminal, By: []string{Approval}},
	{Name: "complete", Record: RunRecord, From: []string{RunApproved}, To: RunCompleted,
		By: []string{Dispatcher, Reconciler, Operator}},
	{Name: "fail", Record: RunRecord, From: []string{RunApproved}, To: RunFailedTerminal,
		By: []string{Dispatcher, Reconciler, Operator}},
	{Name: "resume", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunApproved, By: []string{Approval}},
	{Name: "end_partly", Record: RunRecord, From: []string{RunAwaitingHuman}, To: RunCompleted, By: []string{Approval}},
	{Name: "return_to_review", Record: RunRecord, From: []string{RunApproved}, To: RunAwaitingHuman,
		By: []string{Dispatcher, Reconciler}},

	{Name: "ask", Record: ApprovalRecord, To: ApprovalPending, By: []string{Policy, Dispatcher, Reconciler}},
	{Name: "approve", Record: ApprovalRecord, From: []string{ApprovalPending}, To: ApprovalApproved, By: []string{Approval}},
	{Name: "reject", Record: ApprovalRecord, From: []string{ApprovalPending}, To: ApprovalRejected, By: []string{Approval}},
	{Name: "expire", Record: ApprovalRecord, From: []string{ApprovalPending}, To: ApprovalExpired, By: []string{Approval}},
	{Name: "send_back", Record: ApprovalRecord, From: []string{ApprovalPending}, To: ApprovalSuperseded, By: []string{Approval}},
	{Name: "withdraw", Record: ApprovalRecord, From: []string{ApprovalPending}, To: ApprovalSuperseded, By: []string{Approval}},

	{Name: "request", Record: EffectRecord, To: EffectPending, By: []string{Policy, Approval}},
	{Name: "reauthorize", Record: EffectRecord, From: []string{EffectHeld}, To: EffectPending, By: []string{Approval}},
	{Name: "cancel", Record: EffectRecord, From: []string{EffectHeld}, To: EffectCancelled, By: []string{Approval}},
	{Name: "drop", Record: EffectRecord, From: []string{EffectPending, EffectHeld}, To: EffectCancelled,
		By: []string{Approval, Dispatcher, Reconciler, Operator}},
	{Name: "take_back", Record: EffectRecord, From: []string{EffectPending}, To: EffectCancelled, By: []string{Approval}},
	{Name: "lease", Record: EffectRecord, From: []string{EffectPending}, To: EffectSending, By: []string{Dispatcher}},
	{Name: "succeed", Record: EffectRecord, From: []string{EffectSending}, To: EffectCompleted, By: []string{Dispatcher}},
	{Name: "verify", Record: EffectRecord, From: []string{EffectSending}, To: EffectAccepted, By: []string{Dispatcher}},
	{Name: "accept", Record: EffectRecord, From: []string{EffectSending}, To: EffectAccepted, By: []string{Dispatcher}},
	{Name: "retry", Record: EffectRecord, From: []string{EffectSending}, To: EffectPending, By: []string{Dispatcher}},
	{Name: "lose", Record: EffectRecord, From: []string{EffectSending}, To: EffectUnknown, By: []string{Dispatcher}},
	{Name: "hold", Record: EffectRecord, From: []string{EffectSending}, To: EffectHeld, By: []string{Dispatcher}},
	{Name: "refuse", Record: EffectRecord, From: []string{EffectSending}, To: EffectFailed, By: []string{Dispatcher}},
	{Name: "review", Record: EffectRecord, From: []string{EffectSending}, To: EffectHeld, By: []string{Dispatcher}},
	{Name: "expire", Record: EffectRecord, From: []string{EffectPending}, To: EffectHeld, By: []string{Reconciler}},
	{Name: "expire_lease", Record: EffectRecord, From: []string{EffectSending}, To: EffectUnknown, By: []string{Reconciler}},
	{Name: "find", Record: EffectRecord, From: []string{EffectUnknown, EffectAccepted}, To: EffectCompleted, By: []string{Reconciler}},
	{Name: "late_success", Record: EffectRecord, From: []string{EffectPending, EffectUnknown, EffectAccepted, EffectHeld}, To: EffectCompleted,
		By: []string{Reconciler}},
	{Name: "verify_found", Record: EffectRecord, From: []string{EffectPending, EffectUnknown, EffectAccepted, EffectHeld},
		To: EffectAccepted, By: []string{Reconciler}},
	{Name: "verify_again", Record: EffectRecord, From: []string{EffectAccepted}, To: EffectAccepted, By: []string{Reconciler}},
	{Name: "confirm", Record: EffectRecord, From: []string{EffectAccepted}, To: EffectCompleted, By: []string{Reconciler}},
	{Name: "mismatch", Record: EffectRecord, From: []string{EffectAccepted}, To: EffectHeld, By: []string{Reconciler}},
	{Name: "doubt", Record: EffectRecord, From: []string{EffectPending}, To: EffectUnknown, By: []string{Dispatcher, Reconciler}},
	{Name: "look", Record: EffectRecord, From: []string{EffectUnknown}, To: EffectUnknown, By: []string{Reconciler}},
	{Name: "retry_same_key", Record: EffectRecord, From: []string{EffectUnknown}, To: EffectPending, By: []string{Reconciler}},
	{Name: "prove_absent", Record: EffectRecord, From: []string{EffectUnknown}, To: EffectPending, By: []string{Reconciler}},
	{Name: "exhaust", Record: EffectRecord, From: []string{EffectUnknown}, To: EffectHeld, By: []string{Reconciler}},
	{Name: "overdue", Record: EffectRecord, From: []string{EffectAccepted}, To: EffectUnknown, By: []string{Reconciler}},
	{Name: "incident", Record: EffectRecord, From: []string{EffectUnknown, EffectAccepted}, To: EffectHeld, By: []string{Reconciler}},
	{Name: "report_success", Record: EffectRecord, From: []string{EffectPending, EffectUnknown, EffectAccepted, EffectHeld},
		To: EffectCompleted, By: []string{Reconciler}},
	{Name: "suspect", Record: EffectRecord, From: []string{EffectPending}, To: EffectHeld, By: []string{Reconciler}},
	{Name: "report_failure", Record: EffectRecord, From: []string{EffectAccepted}, To: EffectFailed, By: []string{Reconciler}},
	{Name: "confirm_done", Record: EffectRecord, From: []string{EffectUnknown, EffectAccepted, EffectHeld}, To: EffectCompleted,
		By: []string{Operator}},
	{Name: "confirm_not_done", Record: EffectRecord, From: []string{EffectUnknown, EffectHeld}, To: EffectPending, By: []string{Operator}},
	{Name: "dispute", Record: EffectRecord, From: []string{EffectUnknown, EffectAccepted, EffectHeld}, To: EffectHeld,
		By: []string{Operator}},
	{Name: "recall", Record: EffectRecord, From: []string{EffectPending}, To: EffectHeld, By: []string{Operator}},
	{Name: "release", Record: EffectRecord, From: []string{EffectHeld}, To: EffectPending, By: []string{Operator}},
	{Name: "give_up", Record: EffectRecord, From: []string{EffectPending, EffectUnknown, EffectHeld}, To: EffectFailed,
		By: []string{Operator}},
}

var moveByName = func() map[Record]map[string]Move {
	byName := map[Record]map[string]Move{RunRecord: {}, ApprovalRecord: {}, EffectRecord: {}}
	for _, m := range Moves {
		byName[m.Record][m.Name] = m
	}
	return byName
}()

// runMove and its like look a move up by its name; a name that is not in the table is a fault of this package.
func runMove(name string) Move      { return lookUp(RunRecord, name) }
func approvalMove(name string) Move { return lookUp(ApprovalRecord, name) }
func effectMove(name string) Move   { return lookUp(EffectRecord, name) }

func lookUp(record Record, name string) Move {
	m, ok := moveByName[record][name]
	if !ok {
		panic(fmt.Sprintf("ledger: no move %q of a %s", name, record))
	}
	return m
}

// Allowed reports whether a record in a state may make the move.
func (m Move) Allowed(from string) bool { return slices.Contains(m.From, from) }

// may reports whether a service may make the move.
func (m Move) may(service string) bool { return slices.Contains(m.By, service) }

// States lists every state of a record that a move leads to, sorted.
func States(record Record) []string {
	var states []string
	for _, m := range Moves {
		if m.Record == record && !slices.Contains(states, m.To) {
			states = append(states, m.To)
		}
	}
	slices.Sort(states)
	return states
}

// Diagram draws the moves of a record as a Mermaid state diagram.
func Diagram(record Record) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, m := range Moves {
		if m.Record != record {
			continue
		}
		if len(m.From) == 0 {
			fmt.Fprintf(&b, "  [*] --> %s: %s\n", m.To, m.Name)
		}
		for _, from := range m.From {
			fmt.Fprintf(&b, "  %s --> %s: %s\n", from, m.To, m.Name)
		}
	}
	return b.String()
}
