package contracts

// Types of the events that integrators subscribe to.
const (
	TypeRunAccepted      = "holdpoint.run.accepted.v1"
	TypeRunAwaitingHuman = "holdpoint.run.awaiting_human.v1"
	TypeRunSentBack      = "holdpoint.run.sent_back.v1"
	TypeRunCompleted     = "holdpoint.run.completed.v1"
	TypeRunEnded         = "holdpoint.run.ended.v1"
	TypeRunConflict      = "holdpoint.run.conflict.v1"
	TypeRunRefused       = "holdpoint.run.refused.v1"
)

// EventsPrefix comes before the tenant in the bus subject of every tenant event.
const EventsPrefix = "holdpoint.events."

// RunRef names the run that an event is about, by our id and by the integrator's own.
type RunRef struct {
	TenantID       string
	RunID          string
	IdempotencyKey string
	CorrelationID  string // K12
}

func (r *RunRef) tenant() string { return r.TenantID }
func (r *RunRef) about() string  { return r.RunID }

// with puts the members of the reference before those of the event itself.
func (r *RunRef) with(own ...field) []field {
	return append([]field{
		{name: "tenant_id", into: &r.TenantID},
		{name: "run_id", into: &r.RunID},
		{name: "idempotency_key", into: &r.IdempotencyKey},
		{name: "correlation_id", into: &r.CorrelationID},
	}, own...)
}

// RunAccepted says that an event is stored and queued, not that anything was done (K11).
type RunAccepted struct {
	RunRef
	Source      string // the source's id
	PayloadHash string // K5
}

func (d *RunAccepted) Type() string       { return TypeRunAccepted }
func (d *RunAccepted) BusSubject() string { return EventsPrefix + d.TenantID + ".run.accepted" }

func (d *RunAccepted) fields() []field {
	return d.with(
		field{name: "source", into: &d.Source},
		field{name: "payload_hash", into: &d.PayloadHash},
	)
}

// RunAwaitingHuman says that a person has to decide before anything is sent.
type RunAwaitingHuman struct {
	RunRef
	IntentRevision int
	IntentHash     string
	Reasons        []string // codes of the policy's reasons (P2)
}

func (d *RunAwaitingHuman) Type() string { return TypeRunAwaitingHuman }
func (d *RunAwaitingHuman) BusSubject() string {
	return EventsPrefix + d.TenantID + ".run.awaiting_human"
}

func (d *RunAwaitingHuman) fields() []field {
	return d.with(
		field{name: "intent_revision", into: &d.IntentRevision},
		field{name: "intent_hash", into: &d.IntentHash},
		field{name: "reasons", into: &d.Reasons},
	)
}

// RunSentBack says that a proposal was sent back to whoever made it. A better one is awaited: workers of the source are given the run
// again, with why. RunEnded follows where none comes in time.
type RunSentBack struct {
	RunRef
	IntentRevision int // of the intent that was sent back
	IntentHash     string
	SentBy         string   // policy, or the id of the reviewer
	Reasons        []string // codes, as of RunAwaitingHuman
	Reason         string   // for people
}

func (d *RunSentBack) Type() string       { return TypeRunSentBack }
func (d *RunSentBack) BusSubject() string { return EventsPrefix + d.TenantID + ".run.sent_back" }

func (d *RunSentBack) fields() []field {
	return d.with(
		field{name: "intent_revision", into: &d.IntentRevision},
		field{name: "intent_hash", into: &d.IntentHash},
		field{name: "sent_by", into: &d.SentBy},
		field{name: "reasons", into: &d.Reasons},
		field{name: "reason", into: &d.Reason, optional: true},
	)
}

// RunCompleted says that the effects took place, all of them or, with outcome partial, some (D10).
type RunCompleted struct {
	RunRef
	Outcome       string // executed or partial
	OperationID   string
	TargetReceipt string // the provider's id of what was done; "" where it gives none
	// Postcondition is what the target was found to hold after the write: PostconditionMatched, PostconditionMovedOn or
	// PostconditionUnread; "" where the connector cannot read it.
	Postcondition string
	RecordVersion string // of the target when it was read; "" where it was not
}

// What a target was found to hold after a write that its provider says was done.
const (
	PostconditionMatched = "matched"  // what was written
	PostconditionMovedOn = "moved_on" // a later version, which somebody else wrote
	PostconditionUnread  = "unread"   // nobody knows: it could not be read in time
)

var postconditions = []string{PostconditionMatched, PostconditionMovedOn, PostconditionUnread}

func (d *RunCompleted) Type() string       { return TypeRunCompleted }
func (d *RunCompleted) BusSubject() string { return EventsPrefix + d.TenantID + ".run.completed" }

func (d *RunCompleted) fields() []field {
	return d.with(
		field{name: "outcome", into: &d.Outcome, allowed: completedOutcomes},
		field{name: "operation_id", into: &d.OperationID},
		field{name: "target_receipt", into: &d.TargetReceipt, optional: true},
		field{name: "postcondition", into: &d.Postcondition, optional: true, allowed: postconditions},
		field{name: "record_version", into: &d.RecordVersion, optional: true},
	)
}

// RunEnded says that the run is over and its intent was not executed.
type RunEnded struct {
	RunRef
	Outcome     string // rejected, expired, denied, invalid or failed
	Reason      string // for a person to read
	OperationID string // the effect that failed, where one was made
}

func (d *RunEnded) Type() string       { return TypeRunEnded }
func (d *RunEnded) BusSubject() string { return EventsPrefix + d.TenantID + ".run.ended" }

func (d *RunEnded) fields() []field {
	return d.with(
		field{name: "outcome", into: &d.Outcome, allowed: endedOutcomes},
		field{name: "reason", into: &d.Reason},
		field{name: "operation_id", into: &d.OperationID, optional: true},
	)
}

// RunConflict says that a key came again with another payload; nothing ran and nothing was overwritten (K4).
type RunConflict struct {
	RunRef
	Source       string
	StoredHash   string // of the payload that owns the key
	ReceivedHash string // of the payload that was refused
}

func (d *RunConflict) Type() string       { return TypeRunConflict }
func (d *RunConflict) BusSubject() string { return EventsPrefix + d.TenantID + ".run.conflict" }

func (d *RunConflict) fields() []field {
	return d.with(
		field{name: "source", into: &d.Source},
		field{name: "stored_hash", into: &d.StoredHash},
		field{name: "received_hash", into: &d.ReceivedHash},
	)
}

// RunRefused says that a message on the ingress stream became no run; it is parked for an operator (B5).
type RunRefused struct {
	TenantID  string
	Source    string
	Reason    string // a problem code, such as key_missing
	MessageID string // what the publisher can find its message by: its Nats-Msg-Id, else stream and sequence
	Detail    string // for a person to read
	// IdempotencyKey is the header of that name, "" where there is none, or more than one.
	IdempotencyKey string
}

func (d *RunRefused) Type() string       { return TypeRunRefused }
func (d *RunRefused) BusSubject() string { return EventsPrefix + d.TenantID + ".run.refused" }
func (d *RunRefused) tenant() string     { return d.TenantID }
func (d *RunRefused) about() string      { return d.Source }

func (d *RunRefused) fields() []field {
	return []field{
		{name: "tenant_id", into: &d.TenantID},
		{name: "source", into: &d.Source},
		{name: "reason", into: &d.Reason},
		{name: "message_id", into: &d.MessageID},
		{name: "detail", into: &d.Detail, optional: true},
		{name: "idempotency_key", into: &d.IdempotencyKey, optional: true},
	}
}
