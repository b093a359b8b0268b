package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// attempt is one leased effect on its way to the provider.
type attempt struct {
	ledger.Leased

	target  *target
	taken   time.Time // by our own clock, when the lease was in our hands
	granted bool      // leave was granted: bytes may have left
	digest  *canonical.Digest
	call    *call // at an executor, nil elsewhere
	lot     lot   // of the connector's tap
	health  health
	wait    time.Duration // what the provider asked for
	// unfinished: the executor may still say what the attempt came to, so no outcome is stored that would keep it out.
	unfinished bool
}

// now is the database's clock, carried on by our own: it is at most a round trip behind.
func (a *attempt) now() time.Time { return a.Now.Add(time.Since(a.taken)) }

// send takes one leased effect to a recorded outcome.
func (d *Dispatcher) send(ctx context.Context, a *attempt) {
	defer func() {
		if d.slots.release(slotOf(&a.Leased)) {
			service.WakeUp(d.wake)
		}
	}()
	settlement := d.attempt(ctx, a)
	a.target.tap.report(time.Now(), a.lot, a.health, a.wait)
	settlement.EffectKey, settlement.Attempt, settlement.Owner = a.EffectKey, a.Attempt, a.Owner
	settlement.RunKey, settlement.CorrelationID, settlement.TraceParent = a.RunKey, a.CorrelationID, a.TraceParent
	d.attempts.Add(ctx, 1, metric.WithAttributes(attribute.String("class", settlement.Outcome.Class),
		attribute.String("tenant", a.TenantID), attribute.String("connector", a.Connector)))
	d.executors.close(a, d.record(ctx, a, a.storable(settlement)))
}

// storable leaves out an outcome that is not the last word: what was reported last could not be stored beside it.
func (a *attempt) storable(s ledger.Settlement) ledger.Settlement {
	if a.unfinished {
		s.Note, s.Outcome = s.Outcome.Detail, nil
	}
	return s
}

// attempt checks, asks leave and calls. Its settlement says what follows for the effect. A panic is an outcome too:
// without one, an effect that makes the code panic would take every process down that leases it.
func (d *Dispatcher) attempt(ctx context.Context, a *attempt) (s ledger.Settlement) {
	defer func() {
		if cause := recover(); cause != nil {
			s = d.panicked(a, cause)
		}
	}()
	snapshot, err := intent.ReadAction(a.Canonical, a.IntentHash, a.Ordinal)
	if err == nil {
		err = agrees(snapshot, &a.Leased)
	}
	if err != nil {
		return d.hold(a, err)
	}
	switch {
	case a.Recalled != "" && a.MaybeSent: // held, it would be looked for no more (D6)
		return d.follow(a, connector.Result{Class: outcome.NotSent,
			Detail: "its draft was recalled by " + a.Recalled + "; it may have been sent before, and is looked for"})
	case a.Recalled != "":
		return d.recalled(a)
	}
	declared, found := a.target.conn.Declared(a.Operation)
	if !found {
		return d.hold(a, fmt.Errorf("connector %s no longer declares the operation %s", a.Connector, a.Operation))
	}
	op := a.operation(snapshot)
	if a.MaybeSent {
		err = repeatable(a, declared)
		if err != nil {
			return d.follow(a, connector.Result{Class: outcome.NotSent, Detail: err.Error()})
		}
	} else if s, stop := d.recheck(ctx, a, snapshot, op); stop {
		return s
	}
	return d.call(ctx, a, snapshot, op)
}

// operation is what is asked of the connector.
func (a *attempt) operation(s *intent.Snapshot) connector.Operation {
	return connector.Operation{
		Name: a.Operation, Action: s.Action, OperationID: a.OperationID(), IdempotencyKey: a.OperationID(),
		TenantID: a.TenantID, CorrelationID: a.CorrelationID, FirstAttempt: a.FirstAttempt,
	}
}

// repeatable says why a call that was maybe sent may not be made again. Proven absence takes the mark away, so what
// still bears it relies on the provider: on its memory of the key, which may have ended while the effect waited here
// (D13, R3), or on its taking an update at one version of the target and no other.
func repeatable(a *attempt, op *config.Operation) error {
	switch {
	case outcome.SameKeyAllowed(op, a.FirstSentAt, a.now()):
		return nil
	case op.Kind == config.OperationUpdate && op.Conditional.Counts():
		return nil
	}
	return errors.New("it may have been sent before, and the provider is no longer sure to know its key; nothing was sent")
}

// call makes the one write.
func (d *Dispatcher) call(
	ctx context.Context, a *attempt, s *intent.Snapshot, op connector.Operation,
) ledger.Settlement {
	if a.OtherForm {
		return d.hold(a, errors.New("an attempt that never told what it sent may have sent another request under the same key; the "+
			"connector's declaration, or Holdpoint's release, has changed since"))
	}
	request, err := a.target.conn.Prepare(ctx, op)
	if err != nil {
		return d.hold(a, err)
	}
	if a.SentDigest != nil && !bytes.Equal(a.SentDigest, request.Digest[:]) {
		return d.hold(a, errors.New("the request would differ from the one that was sent under the same key; the "+
			"connector's declaration has changed since"))
	}
	a.digest = &request.Digest
	result := a.target.execute(ctx, a, request, func() error { return d.leave(ctx, a) })
	a.health, a.wait = healthOf(result), result.RetryAfter
	if result.Sent {
		sendSite.After(ctx, a.RunID.String())
	}
	if result.HTTPStatus > 0 {
		answerSite.Before(ctx, a.RunID.String())
	}
	return d.consequence(ctx, a, s, op, result)
}

// consequence is what follows of a result.
func (d *Dispatcher) consequence(
	ctx context.Context, a *attempt, s *intent.Snapshot, op connector.Operation, result connector.Result,
) ledger.Settlement {
	a.unfinished = result.Unfinished
	if result.Class == outcome.VersionConflict && !a.MaybeSent {
		return d.conflict(ctx, a, s, op, result)
	}
	return d.follow(a, result)
}

// leave is asked right before the first byte: the fence, the remaining lease and the kill switches, read under the lock
// that closing a switch takes (D9, D15), and the time to execute by.
func (d *Dispatcher) leave(ctx context.Context, a *attempt) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	leave, err := d.confirm.Do(ctx, ledger.Fence{EffectKey: a.EffectKey, Attempt: a.Attempt, Owner: a.Owner})
	if err != nil {
		return fmt.Errorf("the fence and the kill switches cannot be read, so nothing is sent: %w", err)
	}
	if !leave.Granted {
		return errors.New(leave.Reason)
	}
	sendSite.Before(ctx, a.RunID.String())
	if late := time.Since(leave.AskedAt); late > sendWithin {
		return fmt.Errorf("leave was granted %s ago; a first byte leaves within %s or not at all", late, sendWithin)
	}
	if !a.now().Before(a.ExecuteBy) {
		return errors.New("its execute-by has passed")
	}
	a.granted = true
	return nil
}

// panicked takes a panic for what it may have interrupted.
func (d *Dispatcher) panicked(a *attempt, cause any) ledger.Settlement {
	d.env.Log.Error("sending an effect panicked", "operation", a.OperationID(), "panic", cause,
		"stack", string(debug.Stack()))
	if !a.granted {
		return d.hold(a, fmt.Errorf("panic before anything was sent: %v", cause))
	}
	return d.follow(a, connector.Result{Class: outcome.Ambiguous, Sent: true, Detail: "panic after leave was granted"})
}
