package contracts

// States of a run.
const (
	StateProcessing      = "processing"
	StateAwaitingHuman   = "awaiting_human"
	StateApproved        = "approved"
	StateCompleted       = "completed"
	StateFailedRetryable = "failed_retryable"
	StateFailedTerminal  = "failed_terminal"
)

// Outcomes of a run. The first two end in StateCompleted, the others in StateFailedTerminal.
const (
	OutcomeExecuted = "executed"
	OutcomePartial  = "partial"
	OutcomeRejected = "rejected" // by a person
	OutcomeExpired  = "expired"
	OutcomeDenied   = "denied" // by policy
	OutcomeInvalid  = "invalid"
	OutcomeFailed   = "failed"
)

var (
	completedOutcomes = []string{OutcomeExecuted, OutcomePartial}
	endedOutcomes     = []string{OutcomeRejected, OutcomeExpired, OutcomeDenied, OutcomeInvalid, OutcomeFailed}
)
