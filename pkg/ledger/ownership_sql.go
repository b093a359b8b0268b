package ledger

import (
	"errors"

	"github.com/google/uuid"
)

// ErrNoSuchRun means that the tenant has no run with this id.
var ErrNoSuchRun = errors.New("no such run")

func ownedKeys(batch []*owned) []string {
	return column(batch, func(o *owned) string { return o.RunID.String() })
}

func ownArgs(batch []*owned) []any {
	return []any{
		column(batch, func(o *owned) string { return o.TenantID }),
		column(batch, func(o *owned) uuid.UUID { return o.RunID }),
		column(batch, func(o *owned) uuid.UUID { return o.Owner }),
		column(batch, func(o *owned) int64 { return o.Version }),
		column(batch, func(o *owned) string { return o.move.Name }),
		column(batch, func(o *owned) string { return o.move.From[0] }),
		column(batch, func(o *owned) string { return o.move.To }),
		column(batch, func(o *owned) string { return o.outcome }),
		column(batch, func(o *owned) string { return o.reason }),
		column(batch, func(o *owned) float64 { return o.Renew.Seconds() }),
		column(batch, func(o *owned) int32 { return int32(o.intent().Revision) }),
		column(batch, func(o *owned) []byte { return o.hash() }),
		column(batch, func(o *owned) []byte { return o.intent().Canonical }),
		column(batch, func(o *owned) string { return o.intent().ActionType }),
		column(batch, func(o *owned) string { return modelJSON(o.intent().Model) }),
		column(batch, func(o *owned) *uuid.UUID { return o.eventID() }),
		column(batch, func(o *owned) string { return o.out().stream }),
		column(batch, func(o *owned) string { return o.out().subject }),
		column(batch, func(o *owned) []byte { return o.out().payload }),
		sweepAfter.Seconds(), Intake,
		column(batch, func(o *owned) []byte { return o.intent().NearHash }),
		column(batch, func(o *owned) string { return o.failure().Class }),
		column(batch, func(o *owned) float64 { return o.failure().RetryAfter.Seconds() }),
	}
}

func (o *owned) failure() Failure {
	if o.Fail == nil {
		return Failure{}
	}
	return *o.Fail
}

func (o *owned) intent() Intent {
	if o.Submit == nil {
		return Intent{}
	}
	return *o.Submit
}

func (o *owned) hash() []byte {
	if o.Submit == nil {
		return nil
	}
	return o.Submit.Hash[:]
}

func (o *owned) out() outgoing {
	if o.event == nil {
		return outgoing{}
	}
	return *o.event
}

func (o *owned) eventID() *uuid.UUID {
	if o.event == nil {
		return nil
	}
	return &o.event.id
}
