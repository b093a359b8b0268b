package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Clocks of a review for an action type that is not registered any more.
const (
	defaultDecideWithin  = 24 * time.Hour
	defaultExecuteWithin = time.Hour
)

// work settles a batch. Unread outcomes that say nothing new are only marked as read.
func (r *Reconciler) work(ctx context.Context, due []ledger.Open) error {
	settlements := make([]*ledger.Settlement, len(due))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range due {
		group.Go(func() error {
			settlements[i] = r.settle(ctx, &due[i])
			return nil
		})
	}
	_ = group.Wait() // settle reports no errors; what it cannot find out stays as it is
	if ctx.Err() != nil {
		return nil // what was cut off says nothing
	}
	var moves []ledger.Settlement
	var read []ledger.EffectKey
	for i := range due {
		switch {
		case settlements[i] != nil:
			moves = append(moves, *settlements[i])
		case due[i].UnreadOutcome && due[i].State != ledger.EffectSending:
			read = append(read, due[i].EffectKey)
		}
	}
	var errs []error
	if len(moves) > 0 {
		_, err := r.store(ctx, "record_lookups", moves)
		errs = append(errs, err)
	}
	if len(read) > 0 {
		errs = append(errs, r.env.Ledger.ClearUnread(ctx, read))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) count(ctx context.Context, moves []ledger.Settlement, moved []bool) {
	for i := range moves {
		if moved[i] {
			r.settled.Add(ctx, 1, metric.WithAttributes(attribute.String("move", moves[i].Move)))
		}
	}
}

// settle says what follows for one effect, or nil where nothing does.
func (r *Reconciler) settle(ctx context.Context, e *ledger.Open) *ledger.Settlement {
	t, op := r.targets[connectorOf(e)], r.declared(e)
	s, wanted := decide(e, op)
	if !wanted {
		return nil
	}
	switch s.Move {
	case "look":
		s = r.look(ctx, e, t, op)
	case "verify":
		s = r.verify(ctx, e, t, op)
	}
	s = completing(op, s)
	if s.Review != nil {
		fillReview(s.Review, e, r.action(e))
	}
	s.EffectKey, s.RunKey, s.CorrelationID, s.TraceParent = e.EffectKey, e.RunKey, e.CorrelationID, e.TraceParent
	s.ClearUnread = e.UnreadOutcome
	r.alert(ctx, e, &s)
	return &s
}

// declared is what the effect's connector promises of its operation.
func (r *Reconciler) declared(e *ledger.Open) *config.Operation {
	if t := r.targets[connectorOf(e)]; t != nil {
		if op, ok := t.conn.Declared(e.Operation); ok {
			return op
		}
	}
	return &config.Operation{} // which promises nothing
}

// action is the declaration of the effect's type in the active policy, or nil.
func (r *Reconciler) action(e *ledger.Open) *config.Action {
	t, err := r.policies.Of(e.TenantID)
	if err != nil {
		return nil
	}
	return t.Action(e.Kind)
}

// alert tells of what an operator must settle. It is told at every look, which is every few minutes at most.
func (r *Reconciler) alert(ctx context.Context, e *ledger.Open, s *ledger.Settlement) {
	about := []any{
		"operation", e.OperationID(), "tenant", e.TenantID, "connector", e.Connector, "unknown_since", e.UnknownSince,
	}
	switch {
	case s.Move == "incident":
		r.env.Log.Error("the provider has more than one object for one operation; an operator must look",
			append(about, "evidence", s.Looked.Evidence)...)
	case s.Move == "exhaust":
		r.env.Log.Error("it is not there, and the attempts of an effect are used up; an operator must decide", about...)
	case s.Move == "look" && s.Note != "":
		r.env.Log.Error("an effect stays unknown: "+s.Note, about...)
	case s.Move == "mismatch":
		r.env.Log.Error("the provider says that an effect is done, and its target does not hold it; an operator must look, and nothing is "+
			"sent again", append(about, "evidence", s.Looked.Evidence)...)
	case s.Move == "confirm" && s.Postcondition == ledger.PostconditionUnread:
		r.env.Log.Warn("the target of an effect that its provider says is done could not be read in time", append(about, "evidence",
			s.Looked.Evidence)...)
	case s.Move == "late_success":
		r.env.Log.WarnContext(ctx, "a former sender reported success", about...)
	}
}

func fillReview(review *ledger.Review, e *ledger.Open, a *config.Action) {
	review.IntentHash, review.Revision = e.IntentHash.String(), e.Revision
	review.DecideWithin, review.ExecuteWithin = defaultDecideWithin, defaultExecuteWithin
	if a != nil {
		review.Audience, review.DecideWithin, review.ExecuteWithin = a.Audience, a.DecideWithin, a.ExecuteWithin
	}
}

// look reads the provider, where it can be read, and decides by what it says.
func (r *Reconciler) look(ctx context.Context, e *ledger.Open, t *target, op *config.Operation) ledger.Settlement {
	var next again
	// The time since the first attempt does not count: a key's window bounds a repeat, and proof that nothing was written
	// makes it a first send.
	next.wait, next.ok = t.backoff.Next(e.Attempt, 0, 0)
	if op.Lookup == nil {
		return withoutLookup(e, op, next)
	}
	asked, err := operationOf(e)
	if err != nil {
		return ledger.Settlement{Move: "look", NextCheck: operatorLook, Note: fmt.Sprintf("it cannot be read: %v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	return judge(e, op, next, t.conn.Reconcile(ctx, asked))
}

// operationOf is what a connector is asked about for an effect.
func operationOf(e *ledger.Open) (connector.Operation, error) {
	snapshot, err := intent.ReadAction(e.Canonical, e.IntentHash, e.Ordinal)
	if err != nil {
		return connector.Operation{}, err
	}
	return askedOf(snapshot, e.EffectKey, e.CorrelationID), nil
}

// askedOf is what a connector is asked about for an effect of an intent.
func askedOf(s *intent.Snapshot, key ledger.EffectKey, correlationID string) connector.Operation {
	return connector.Operation{Name: s.Operation, Action: s.Action, OperationID: key.OperationID(), IdempotencyKey: key.OperationID(),
		TenantID: key.TenantID, CorrelationID: correlationID}
}
