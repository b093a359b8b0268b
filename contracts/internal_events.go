package contracts

// Internal events: type, bus subject and data. They carry ids and hashes, never payloads (B6); who consumes one reads
// the rest from Postgres.
const (
	TypeIntentSubmitted = "holdpoint.intent.submitted.v1"
	TypeEffectRequested = "holdpoint.effect.requested.v1"

	SubjectIntentSubmitted = "holdpoint.internal.intent.submitted"
	SubjectEffectRequested = "holdpoint.internal.effect.requested"
)

// IntentSubmitted asks policy to decide the route of an intent.
type IntentSubmitted struct {
	TenantID       string
	RunID          string
	IntentRevision int    // from 1
	IntentHash     string // the hash that an authorization will be bound to (A11)
}

func (d *IntentSubmitted) Type() string       { return TypeIntentSubmitted }
func (d *IntentSubmitted) BusSubject() string { return SubjectIntentSubmitted }
func (d *IntentSubmitted) tenant() string     { return d.TenantID }
func (d *IntentSubmitted) about() string      { return d.RunID }

func (d *IntentSubmitted) fields() []field {
	return []field{
		{name: "tenant_id", into: &d.TenantID},
		{name: "run_id", into: &d.RunID},
		{name: "intent_revision", into: &d.IntentRevision},
		{name: "intent_hash", into: &d.IntentHash},
	}
}

// EffectRequested asks the dispatcher to lease an authorized effect (B3).
type EffectRequested struct {
	TenantID    string
	RunID       string
	OperationID string // D2
}

func (d *EffectRequested) Type() string       { return TypeEffectRequested }
func (d *EffectRequested) BusSubject() string { return SubjectEffectRequested }
func (d *EffectRequested) tenant() string     { return d.TenantID }
func (d *EffectRequested) about() string      { return d.RunID }

func (d *EffectRequested) fields() []field {
	return []field{
		{name: "tenant_id", into: &d.TenantID},
		{name: "run_id", into: &d.RunID},
		{name: "operation_id", into: &d.OperationID},
	}
}
