package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

// send takes one leased effect to a recorded outcome.
func (d *Dispatcher) send(ctx context.Context, e ledger.Leased) {
	name := e.TenantID + "/" + e.Connector
	defer d.inFlight.Done()
	defer func() {
		d.slots.release(name)
		select {
		case d.wake <- struct{}{}: // a slot is free; something may be waiting for it
		default:
		}
	}()
	t := d.targets[name]
	settlement := d.attempt(ctx, e, t)
	settlement.EffectKey, settlement.Attempt, settlement.Owner = e.EffectKey, e.Attempt, e.Owner
	settlement.RunKey, settlement.CorrelationID, settlement.TraceParent = e.RunKey, e.CorrelationID, e.TraceParent
	d.attempts.Add(ctx, 1, metric.WithAttributes(attribute.String("class", settlement.Outcome.Class), attribute.String("connector", e.Connector)))
	if _, err := d.outcomes.Do(ctx, settlement); err != nil {
		// The lease ends and the reconciler finds out by reading; the log keeps what would help.
		d.env.Log.Error("an outcome could not be recorded", "operation", e.OperationID(), "class", settlement.Outcome.Class,
			"external_id", settlement.Outcome.ExternalID, "error", err)
	}
}

// attempt checks, asks leave and calls. Its settlement says what follows for the effect.
func (d *Dispatcher) attempt(ctx context.Context, e ledger.Leased, t *target) ledger.Settlement {
	snapshot, err := intent.Read(e.Canonical, e.IntentHash)
	if err != nil {
		return d.hold(e, ledger.HoldIncident, err.Error())
	}
	action, _ := snapshot.Tree.Pointer("/actions/0")
	op := connector.Operation{Name: e.Operation, Action: action, OperationID: e.OperationID(), IdempotencyKey: e.OperationID(),
		TenantID: e.TenantID, CorrelationID: e.CorrelationID}
	if !e.MaybeSent {
		changed, failed := d.recheck(ctx, e, t, snapshot, op)
		switch {
		case failed != nil:
			return d.follow(e, t, connector.Result{Class: outcome.NotSent, Detail: failed.Error()}, nil)
		case len(changed) > 0:
			return d.review(e, snapshot, changed)
		}
	}
	request, err := t.conn.Prepare(ctx, op)
	if err != nil {
		return d.follow(e, t, connector.Result{Class: outcome.Refused, Detail: err.Error()}, nil)
	}
	result := t.conn.Execute(ctx, request, func() error { return d.leave(ctx, e) })
	answerSite.Before(ctx, e.RunID.String())
	if result.Class == outcome.VersionConflict && !e.MaybeSent {
		return d.conflict(e, snapshot, result)
	}
	return d.follow(e, t, result, &request.Digest)
}

// leave is asked right before the first byte: the fence, the remaining lease and the kill switches, read under the lock that
// closing a switch takes (D9, D15).
func (d *Dispatcher) leave(ctx context.Context, e ledger.Leased) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	leave, err := d.confirm.Do(ctx, ledger.Fence{EffectKey: e.EffectKey, Attempt: e.Attempt, Owner: e.Owner})
	if err != nil {
		return fmt.Errorf("the fence and the kill switches cannot be read, so nothing is sent: %w", err)
	}
	if !leave.Granted {
		return errors.New(leave.Reason)
	}
	sendSite.Before(ctx, e.RunID.String())
	if late := time.Since(leave.AskedAt); late > sendWithin {
		return fmt.Errorf("leave was granted %s ago; a first byte leaves within %s or not at all", late, sendWithin)
	}
	return nil
}

// recheck says what has changed since the effect was authorized (D4). An error means that it could not be found out.
func (d *Dispatcher) recheck(ctx context.Context, e ledger.Leased, t *target, s *intent.Snapshot, op connector.Operation) ([]policy.Reason, error) {
	tenant := d.tenants[e.TenantID]
	decision := tenant.engine.Decide(s.Input(e.Now))
	allowed := config.RouteAuto
	if e.PolicyVersion == "" {
		allowed = config.RouteHumanReview // a person authorized what policy sends to people
	}
	if policy.Stricter(decision.Route, allowed) {
		return decision.Reasons, nil
	}
	version, found, err := t.conn.ReadTarget(ctx, op)
	switch {
	case errors.Is(err, connector.ErrNotDeclared):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the target before the write: %w", err)
	case !found:
		return []policy.Reason{{Code: "target_gone", Message: "The target no longer exists."}}, nil
	case s.CurrentVersion != "" && version != s.CurrentVersion:
		return []policy.Reason{{Code: "target_changed", Message: fmt.Sprintf("The target is at version %s; the proposal was made from version %s.", version, s.CurrentVersion)}}, nil
	}
	return nil, nil
}

// follow is what the matrix says of a result.
func (d *Dispatcher) follow(e ledger.Leased, t *target, result connector.Result, digest *canonical.Digest) ledger.Settlement {
	consequence := result.Class.Consequence(e.MaybeSent)
	s := ledger.Settlement{MaybeSent: consequence.MaybeSent, ExternalID: result.ExternalID, RecordVersion: result.RecordVersion,
		Outcome: report(e, result, digest), NextCheck: ledger.Never}
	if consequence.Alert {
		d.env.Log.Error("a provider's answer needs an operator", "operation", e.OperationID(), "class", result.Class, "detail", result.Detail)
	}
	switch consequence.Move {
	case outcome.Completed:
		s.Move = "succeed"
	case outcome.AwaitWebhook:
		s.Move, s.NextCheck = "accept", acceptedDeadline
	case outcome.Unknown:
		s.Move, s.NextCheck = "lose", d.firstLookup(e, t)
	case outcome.Failed:
		s.Move, s.Reason = "refuse", "The provider refused it: "+result.Detail
	case outcome.Held:
		s.Move, s.HoldReason = "hold", holdReason(consequence.Hold)
	default:
		d.retry(&s, e, t, result)
	}
	return s
}

// acceptedDeadline is how long a provider may take to finish what it has accepted before it is asked (R5).
const acceptedDeadline = 5 * time.Minute

// firstLookup waits out the provider's index lag, so that the first look can already be an answer (R8).
func (d *Dispatcher) firstLookup(e ledger.Leased, t *target) time.Duration {
	op, ok := t.conn.Declared(e.Operation)
	if !ok || op.Lookup == nil {
		return time.Second
	}
	return max(op.Lookup.IndexLag, 200*time.Millisecond)
}

func holdReason(h outcome.Hold) string {
	if h == outcome.HoldUnauthorized {
		return ledger.HoldUnauthorized
	}
	return ledger.HoldIncident
}

func (d *Dispatcher) retry(s *ledger.Settlement, e ledger.Leased, t *target, result connector.Result) {
	wait, ok := t.backoff.Next(e.Attempt, e.Now.Sub(e.FirstAttempt), result.RetryAfter)
	if !ok {
		s.Move, s.HoldReason = "hold", ledger.HoldExhausted
		d.env.Log.Error("an effect was never sent and its attempts are used up; an operator must decide", "operation", e.OperationID(), "detail", result.Detail)
		return
	}
	s.Move, s.NextCheck = "retry", wait
}

func (d *Dispatcher) hold(e ledger.Leased, reason, detail string) ledger.Settlement {
	d.env.Log.Error("an effect cannot be sent as it is stored; an operator must look", "operation", e.OperationID(), "detail", detail)
	return ledger.Settlement{Move: "hold", HoldReason: reason, NextCheck: ledger.Never, Note: detail,
		Outcome: report(e, connector.Result{Class: outcome.NotSent, Detail: detail}, nil)}
}

// conflict takes a version conflict of a first, certain attempt back to people (D5).
func (d *Dispatcher) conflict(e ledger.Leased, s *intent.Snapshot, result connector.Result) ledger.Settlement {
	settlement := d.review(e, s, []policy.Reason{{Code: "target_changed", Message: "The target changed between the last look and the write. " + result.Detail}})
	settlement.Outcome = report(e, result, nil)
	return settlement
}

// review sends nothing and asks people again, with what changed.
func (d *Dispatcher) review(e ledger.Leased, s *intent.Snapshot, reasons []policy.Reason) ledger.Settlement {
	d.reviews.Add(context.Background(), 1)
	text, _ := json.Marshal(reasons) // structs of strings always marshal
	review := &ledger.Review{Reasons: text, ReasonCodes: policy.Decision{Reasons: reasons}.Codes(), DecideWithin: 24 * time.Hour,
		ExecuteWithin: time.Hour, IntentHash: e.IntentHash.String(), Revision: s.Revision}
	if a := d.tenants[e.TenantID].actions[e.ActionType]; a != nil {
		review.Audience, review.DecideWithin, review.ExecuteWithin = a.Audience, a.DecideWithin, a.ExecuteWithin
	}
	return ledger.Settlement{Move: "review", HoldReason: ledger.HoldReview, NextCheck: ledger.Never, Review: review,
		Outcome: report(e, connector.Result{Class: outcome.NotSent, Detail: "returned to review: " + reasons[0].Message}, nil)}
}

func report(e ledger.Leased, r connector.Result, digest *canonical.Digest) *ledger.AttemptOutcome {
	o := &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: string(r.Class), Sent: r.Sent, HTTPStatus: r.HTTPStatus,
		ExternalID: r.ExternalID, ProviderRequestID: r.ProviderRequestID, Duration: r.Duration, Detail: r.Detail}
	if digest != nil {
		o.RequestDigest = digest[:]
	}
	return o
}
