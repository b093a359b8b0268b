package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// recordPause is how long an outcome waits in memory between two tries to store it.
const recordPause = 500 * time.Millisecond

// recorded is what became of one outcome.
type recorded struct {
	moved bool // the effect was still this attempt's, and has moved
	err   error
}

// record stores an outcome. While Postgres is away the outcome is kept and its slot with it: it is the only word on a
// write that may have happened. When the process ends before that, the lease ends and the reconciler finds out by
// reading. The error says that it was not stored.
func (d *Dispatcher) record(ctx context.Context, a *attempt, s ledger.Settlement) error {
	var told ledger.AttemptOutcome
	if s.Outcome != nil {
		told = *s.Outcome
	}
	for {
		stored, err := d.outcomes.Do(ctx, s)
		err = errors.Join(err, stored.err)
		switch {
		case err == nil:
			answerSite.After(ctx, a.RunID.String())
			if !stored.moved {
				d.env.Log.Warn("an outcome came after the effect had been taken from this attempt; it was recorded",
					"operation", a.OperationID(), "attempt", a.Attempt, "class", told.Class)
				d.contradicted(ctx, a.EffectKey, told)
			}
			return nil
		case !errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, ledger.ErrOverloaded), !d.waitToRecord():
			d.env.Log.Error("an outcome could not be recorded; the reconciler will find out by reading",
				"operation", a.OperationID(), "attempt", a.Attempt, "class", told.Class,
				"external_id", told.ExternalID, "error", err)
			return err
		}
	}
}

// contradicted tells of a write that is there although its effect has ended without: an operator gave it up, or its provider reported it
// as failed. Nothing moves what has ended, so nobody would hear of it otherwise.
func (d *Dispatcher) contradicted(ctx context.Context, key ledger.EffectKey, told ledger.AttemptOutcome) {
	if class := outcome.Class(told.Class); class != outcome.Succeeded && class != outcome.Accepted {
		return
	}
	open, err := d.env.Ledger.Open(ctx, []ledger.EffectKey{key})
	if err != nil || len(open) == 0 {
		d.env.Log.Error("whether a late outcome contradicts what is known could not be read", "operation", key.OperationID(),
			"attempt", told.Attempt, "class", told.Class, "external_id", told.ExternalID, "error", err)
		return
	}
	if state := open[0].State; state == ledger.EffectFailed || state == ledger.EffectCancelled {
		d.env.Log.Error("the provider has what was told as not done; an operator must look", "operation", key.OperationID(),
			"tenant", key.TenantID, "connector", open[0].Connector, "state", state, "attempt", told.Attempt, "class", told.Class,
			"external_id", told.ExternalID)
	}
}

// waitToRecord pauses, and is false when the stop no longer waits for anything.
func (d *Dispatcher) waitToRecord() bool {
	timer := time.NewTimer(recordPause)
	defer timer.Stop()
	select {
	case <-d.drained:
		return false
	case <-timer.C:
		return true
	}
}

// settle stores a batch of outcomes. Where some item's data spoils the batch, each is stored by itself.
func (d *Dispatcher) settle(ctx context.Context, items []ledger.Settlement) ([]recorded, error) {
	moved, err := d.env.Ledger.Settle(ctx, "record_outcomes", items)
	out := make([]recorded, len(items))
	switch {
	case err == nil:
		for i := range out {
			out[i].moved = moved[i]
		}
		return out, nil
	case errors.Is(err, ledger.ErrUnavailable):
		return nil, err
	}
	for i := range items {
		one, err := d.env.Ledger.Settle(ctx, "record_outcomes", items[i:i+1])
		out[i] = recorded{moved: err == nil && one[0], err: err}
	}
	return out, nil
}
