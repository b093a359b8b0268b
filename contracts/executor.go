package contracts

import (
	"encoding/json"
	"time"
)

// TypeEffectCommand is the type of a command to those of a tenant's programs that carry its effects out (B6).
const TypeEffectCommand = "holdpoint.effect.command.v1"

// CommandsPrefix comes before the tenant and the connector in the bus subject of every command.
const CommandsPrefix = "holdpoint.exec."

// EffectCommand offers an authorized effect to whoever executes for a connector. It allows nothing: who takes it asks
// leave, and writes only if leave is granted (D9).
type EffectCommand struct {
	TenantID      string
	RunID         string
	OperationID   string // D2; the same on every attempt
	Connector     string
	Operation     string
	CorrelationID string          // K12
	Action        json.RawMessage // as it was approved, byte for byte
	Attempt       int             // from 1
	Token         string          // opaque; goes into the request for leave
	LeaveBy       time.Time       // when the command ends, unless leave was given
	LeaveWithinMS int             // the same, from when it was sent: clocks differ
}

func (d *EffectCommand) Type() string       { return TypeEffectCommand }
func (d *EffectCommand) BusSubject() string { return CommandsPrefix + d.TenantID + "." + d.Connector }
func (d *EffectCommand) tenant() string     { return d.TenantID }
func (d *EffectCommand) about() string      { return d.RunID }

func (d *EffectCommand) fields() []field {
	return []field{
		{name: "tenant_id", into: &d.TenantID},
		{name: "run_id", into: &d.RunID},
		{name: "operation_id", into: &d.OperationID},
		{name: "connector", into: &d.Connector},
		{name: "operation", into: &d.Operation},
		{name: "correlation_id", into: &d.CorrelationID},
		{name: "action", into: &d.Action},
		{name: "attempt", into: &d.Attempt},
		{name: "token", into: &d.Token},
		{name: "leave_by", into: &d.LeaveBy},
		{name: "leave_within_ms", into: &d.LeaveWithinMS},
	}
}

// LeaveRequest asks leave to write, right before the write (schemas/leave_request.v1.json).
type LeaveRequest struct {
	Token string `json:"token"` // of the command
}

// Leave is the answer: granted at most once for every attempt (schemas/leave.v1.json).
type Leave struct {
	Granted bool   `json:"granted"`
	Reason  string `json:"reason,omitempty"` // why not, for people; nothing may be written
	Token   string `json:"token,omitempty"`  // where it is granted: goes into the receipt
	// BeginWithinMS is how long after it was asked for leave lasts. A write that has not begun by then must not.
	BeginWithinMS int `json:"begin_within_ms,omitempty"`
	// ReportWithinMS is how long a receipt is waited for; then what became of the write is unknown.
	ReportWithinMS int `json:"report_within_ms,omitempty"`
}

// Receipt says what an attempt came to (schemas/receipt.v1.json).
type Receipt struct {
	Token             string `json:"token"` // that leave was granted with; the command's, where nobody asked leave
	Status            string `json:"status"`
	ExternalID        string `json:"external_id,omitempty"`    // the id of what was written
	RecordVersion     string `json:"record_version,omitempty"` // the target's version after the write
	Detail            string `json:"detail,omitempty"`         // one line for operators
	RetryAfterSeconds int    `json:"retry_after_seconds,omitempty"`
}

// Recorded is the answer to a receipt, given after the commit (schemas/recorded.v1.json).
type Recorded struct {
	Recorded bool `json:"recorded"` // true; what cannot be recorded is a problem
}
