package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// lateReceipt records what no call waits for any more: because it gave up, or because its dispatcher is gone. The outcome is
// appended whoever has the effect by now (D7), and the reconciler completes what an executor says is done. While the lease of
// a dispatcher that is gone still holds, the receipt moves the effect as that one would have moved it.
func lateReceipt(ctx context.Context, d *Dispatcher, w *words) (any, *contracts.Problem) {
	if err := d.storeLate(ctx, w); err != nil {
		d.env.Log.Warn("a late receipt was not recorded", "operation", w.token.operation, "attempt", w.token.attempt,
			"status", w.receipt.Status, "error", err)
		return nil, problemOf(err)
	}
	return contracts.Recorded{Recorded: true}, nil
}

// errNoLeave: whether leave was given to another, who may have written, was known to the call alone.
var errNoLeave error = contracts.NewProblem(contracts.CodeForbidden, "The command is over, and this is not the token of who was "+
	"given leave for it. Forget it.")

var errForeign error = foreignToken()

func (d *Dispatcher) storeLate(ctx context.Context, w *words) error {
	e, err := d.openEffect(ctx, w)
	if err != nil {
		return err
	}
	last := e.Attempt == w.token.attempt
	switch {
	case e.Attempt < w.token.attempt:
		return errForeign
	case last && e.LastClass == string(w.receipt.Status) && (e.ExternalID == "" || e.ExternalID == w.receipt.ExternalID):
		return nil // again
	case last && e.LastClass != "":
		return otherOutcome(e.LastClass)
	case w.token.leave == "":
		return errNoLeave
	}
	settlement, wanted, err := d.settleLate(ctx, e, w)
	if err != nil || !wanted {
		return err
	}
	stored, err := d.outcomes.Do(ctx, settlement)
	if err = errors.Join(err, stored.err); err == nil && !stored.moved && settlement.Outcome != nil {
		d.contradicted(ctx, settlement.EffectKey, *settlement.Outcome)
	}
	if err != nil || !last || settlement.Outcome == nil {
		return err
	}
	// A token that was made up names no attempt, and nothing was stored.
	if e, err = d.openEffect(ctx, w); err == nil && e.Attempt == w.token.attempt && e.LastClass != string(w.receipt.Status) {
		return errForeign
	}
	return err
}

// openEffect reads the effect that a token is about, of the tenant and connector that the subject names.
func (d *Dispatcher) openEffect(ctx context.Context, w *words) (*ledger.Open, error) {
	open, err := d.env.Ledger.Open(ctx, []ledger.EffectKey{w.token.key(w.tenant)})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the effect of a receipt: %w", err)
	case len(open) == 0 || open[0].Connector != w.connector:
		return nil, errForeign
	}
	return &open[0], nil
}

// settleLate is what is stored of a receipt. What says neither that it was written nor that it was not adds nothing to what
// an unknown effect is, and would keep out the receipt that does.
func (d *Dispatcher) settleLate(ctx context.Context, e *ledger.Open, w *words) (s ledger.Settlement, wanted bool, err error) {
	snapshot, err := intent.ReadAction(e.Canonical, e.IntentHash, e.Ordinal)
	if err != nil {
		return s, false, err
	}
	a := &attempt{Leased: e.Leased, target: d.targets[slotOf(&e.Leased)], taken: time.Now()}
	current := e.State == ledger.EffectSending && a.Attempt == w.token.attempt && a.Owner == w.token.owner
	a.Attempt, a.Owner = w.token.attempt, w.token.owner
	op := a.operation(snapshot)
	if request, err := a.target.conn.Prepare(ctx, op); err == nil {
		a.digest = &request.Digest
	}
	result := w.receipt.Result(true)
	switch {
	case current:
		s = a.storable(d.consequence(ctx, a, snapshot, op, result))
	case result.Unfinished:
		return s, false, nil
	default:
		s = d.lateOutcome(a, result)
	}
	s.EffectKey, s.Attempt, s.Owner = a.EffectKey, a.Attempt, a.Owner
	s.RunKey, s.CorrelationID, s.TraceParent = a.RunKey, a.CorrelationID, a.TraceParent
	return s, true, nil
}

// lateOutcome appends an outcome. Its move is one that an effect of another owner does not make.
func (d *Dispatcher) lateOutcome(a *attempt, result connector.Result) ledger.Settlement {
	return ledger.Settlement{Move: "lose", MaybeSent: result.Class != outcome.NotSent, NextCheck: time.Second, Outcome: a.report(result)}
}
