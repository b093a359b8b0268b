package dispatcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

// Clocks of a review for an action type that is not registered any more.
const (
	defaultDecideWithin  = 24 * time.Hour
	defaultExecuteWithin = time.Hour
)

// follow is what the matrix says of a result.
func (d *Dispatcher) follow(a *attempt, result connector.Result) ledger.Settlement {
	consequence := result.Class.Consequence(a.MaybeSent)
	if outcome.RefreshAllowed(result.Class, result.CredentialDropped, a.Unauthorized, a.MaybeSent) {
		consequence = outcome.Consequence{Move: outcome.Pending}
	}
	s := ledger.Settlement{
		MaybeSent: consequence.MaybeSent, ExternalID: result.ExternalID, RecordVersion: result.RecordVersion,
		Outcome: a.report(result), NextCheck: ledger.Never,
	}
	if consequence.Alert {
		d.env.Log.Error("a provider's answer needs an operator", "operation", a.OperationID(), "tenant", a.TenantID,
			"connector", a.Connector, "class", result.Class, "detail", result.Detail)
	}
	switch consequence.Move {
	case outcome.Completed:
		s.Move = "succeed"
		if op, ok := a.target.conn.Declared(a.Operation); ok && op.Verifies() {
			s.Move, s.NextCheck = "verify", 0 // the reconciler reads the target before it counts (R7)
		}
	case outcome.AwaitWebhook:
		s.Move, s.NextCheck = "accept", outcome.AcceptedDeadline
	case outcome.Failed:
		s.Move, s.Reason = "refuse", "The provider refused it: "+result.Detail
	case outcome.Held:
		s.Move, s.HoldReason = "hold", holdReason(consequence.Hold)
	case outcome.Pending:
		d.retry(&s, a, result)
	default: // Unknown; a Review of an effect that was never maybe sent is made by conflict
		s.Move, s.NextCheck, s.MaybeSent = "lose", firstLookup(a), true
	}
	return s
}

// firstLookup waits out the provider's index lag, so that the first look can already be an answer (R8).
func firstLookup(a *attempt) time.Duration {
	op, ok := a.target.conn.Declared(a.Operation)
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

// retry waits for another attempt under the same key, until the connector's patience ends.
func (d *Dispatcher) retry(s *ledger.Settlement, a *attempt, result connector.Result) {
	wait, ok := a.target.backoff.Next(a.Attempt, a.now().Sub(a.FirstAttempt), result.RetryAfter)
	if ok {
		s.Move, s.NextCheck = "retry", wait
		return
	}
	s.Move, s.HoldReason = "hold", ledger.HoldExhausted
	d.env.Log.Error("an effect was never sent and its attempts are used up; an operator must decide",
		"operation", a.OperationID(), "tenant", a.TenantID, "connector", a.Connector,
		"attempts", a.Attempt, "detail", result.Detail)
}

// hold keeps an effect that cannot be sent as it is stored and declared. Nothing was sent in this attempt.
func (d *Dispatcher) hold(a *attempt, why error) ledger.Settlement {
	d.env.Log.Error("an effect cannot be sent; an operator must look", "operation", a.OperationID(), "tenant", a.TenantID,
		"connector", a.Connector, "error", why)
	return ledger.Settlement{
		Move: "hold", HoldReason: ledger.HoldIncident, NextCheck: ledger.Never, Note: why.Error(),
		Outcome: a.report(connector.Result{Class: outcome.NotSent, Detail: "held: " + why.Error()}),
	}
}

// recalled keeps an effect whose draft somebody has recalled, until the recall is lifted (D16). Nothing was sent in this attempt.
func (d *Dispatcher) recalled(a *attempt) ledger.Settlement {
	d.env.Log.Info("an effect is held: its draft was recalled", "operation", a.OperationID(), "tenant", a.TenantID, "by", a.Recalled)
	return ledger.Settlement{
		Move: "hold", HoldReason: ledger.HoldRecalled, NextCheck: ledger.Never, Note: "Its draft was recalled by " + a.Recalled,
		Outcome: a.report(connector.Result{Class: outcome.NotSent, Detail: "held: its draft was recalled by " + a.Recalled}),
	}
}

// conflict takes a version conflict of a first, certain attempt back to people, with both versions (D5).
func (d *Dispatcher) conflict(
	ctx context.Context, a *attempt, s *intent.Snapshot, op connector.Operation, result connector.Result,
) ledger.Settlement {
	reason := policy.Reason{Code: "target_changed", Message: fmt.Sprintf(
		"The target is no longer at version %s, which the proposal was made from; its version now could not be read. %s",
		cmp.Or(s.CurrentVersion, "(none named)"), result.Detail)}
	if version, found, err := a.target.conn.ReadTarget(ctx, op); err == nil && found {
		reason = targetChanged(s, version)
	}
	settlement := d.review(a, s, []policy.Reason{reason})
	settlement.Outcome = a.report(result)
	return settlement
}

// review sends nothing and asks people again, with what changed.
func (d *Dispatcher) review(a *attempt, s *intent.Snapshot, reasons []policy.Reason) ledger.Settlement {
	d.reviews.Add(context.Background(), 1)
	text, _ := json.Marshal(reasons) // structs of strings always marshal
	review := &ledger.Review{
		Reasons: text, ReasonCodes: policy.Decision{Reasons: reasons}.Codes(), DecideWithin: defaultDecideWithin,
		ExecuteWithin: defaultExecuteWithin, IntentHash: a.IntentHash.String(), Revision: s.Revision,
	}
	if action := d.action(a); action != nil {
		review.Audience = action.Audience
		review.DecideWithin, review.ExecuteWithin = action.DecideWithin, action.ExecuteWithin
	}
	return ledger.Settlement{
		Move: "review", HoldReason: ledger.HoldReview, NextCheck: ledger.Never, Review: review,
		Outcome: a.report(connector.Result{Class: outcome.NotSent, Detail: "returned to review: " + reasons[0].Message}),
	}
}

// action is the declaration of the intent's action types in the active policy, or nil.
func (d *Dispatcher) action(a *attempt) *config.Action {
	t, err := d.policies.Of(a.TenantID)
	if err != nil {
		return nil
	}
	return config.ActionOf(a.Kind, func(name string) *config.Action { return t.actions[name] })
}

// report is the attempt's outcome as it is kept.
func (a *attempt) report(r connector.Result) *ledger.AttemptOutcome {
	o := &ledger.AttemptOutcome{
		Attempt: a.Attempt, Owner: a.Owner, Class: string(r.Class), Sent: r.Sent, HTTPStatus: r.HTTPStatus,
		ExternalID: r.ExternalID, ProviderRequestID: r.ProviderRequestID, Duration: r.Duration, Detail: r.Detail,
	}
	if a.digest != nil {
		o.RequestDigest = a.digest[:]
	}
	return o
}
