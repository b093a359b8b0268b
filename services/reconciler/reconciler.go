// Package reconciler settles what is unknown by reading, and only by reading: the one thing it may cause to be written is a retry
// under the same idempotency key, where the provider's profile makes that safe (R1, D13).
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
	"github.com/holdpoint/holdpoint/pkg/service"
)

const (
	pollPause    = 200 * time.Millisecond
	overduePause = 5 * time.Second
	batchSize    = 64
	// holdFor is how long an effect that was taken up stays this replica's to look at; longer than any lookup takes.
	holdFor   = 45 * time.Second
	atOnce    = 16 // lookups at the same time
	lookupFor = 30 * time.Second
)

// Reconciler is the service.
type Reconciler struct {
	env        *service.Env
	targets    map[string]*target // by "tenant/connector"
	connectors []string
	settled    metric.Int64Counter
}

// target is one connector of one tenant, to read from.
type target struct {
	conn    *connector.Connector
	actions map[string]*config.Action
}

// New compiles every tenant's connectors.
func New(env *service.Env) (*Reconciler, error) {
	r := &Reconciler{env: env, targets: map[string]*target{}}
	for _, t := range env.Config.Tenants {
		actions := map[string]*config.Action{}
		for _, a := range t.Actions {
			actions[a.Type] = a
		}
		for _, c := range t.Connectors {
			conn, err := connector.New(connector.Config{Connector: c})
			if err != nil {
				return nil, fmt.Errorf("connector %s of tenant %s: %w", c.ID, t.ID, err)
			}
			name := t.ID + "/" + c.ID
			r.targets[name] = &target{conn, actions}
			r.connectors = append(r.connectors, name)
		}
	}
	counter, err := env.Meter.Int64Counter("holdpoint_reconciled_total")
	r.settled = counter
	return r, err
}

// Run looks at what is due until the context ends.
func (r *Reconciler) Run(ctx context.Context) error {
	loop := func(name string, pause time.Duration, states []string) service.Named {
		once := func(ctx context.Context) (bool, error) { return r.runOnce(ctx, states) }
		return service.Named{Name: "reconciler " + name, Runner: service.Loop{Name: name, Log: r.env.Log, Pause: pause, Once: once}}
	}
	return service.RunAll(ctx, r.env.Log, lookupFor, loop("unsettled", pollPause, ledger.Unsettled), loop("overdue", overduePause, ledger.Overdue))
}

// runOnce takes up one batch of due effects in these states.
func (r *Reconciler) runOnce(ctx context.Context, states []string) (bool, error) {
	due, err := r.env.Ledger.Due(ctx, r.connectors, states, batchSize, holdFor)
	if err != nil || len(due) == 0 {
		return false, err
	}
	settlements := make([]ledger.Settlement, len(due))
	wanted := make([]bool, len(due))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range due {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupFor)
			defer cancel()
			settlements[i], wanted[i] = r.settle(ctx, &due[i])
			return nil
		})
	}
	_ = group.Wait() // settle reports no errors; what it cannot find out stays as it is
	return len(due) == batchSize, r.store(ctx, due, settlements, wanted)
}

func (r *Reconciler) store(ctx context.Context, due []ledger.Open, settlements []ledger.Settlement, wanted []bool) error {
	var errs []error
	// What comes before is stored first: the end of a lease and an overdue acceptance make the effect unknown, and later passes
	// look it up; unread outcomes that say nothing new are only marked as read.
	var moves []ledger.Settlement
	var read []ledger.EffectKey
	command := "record_lookups"
	for i := range due {
		switch {
		case !wanted[i] && due[i].UnreadOutcome && due[i].State != ledger.EffectSending:
			read = append(read, due[i].EffectKey)
		case wanted[i]:
			moves = append(moves, settlements[i])
			r.settled.Add(ctx, 1, metric.WithAttributes(attribute.String("move", settlements[i].Move)))
		}
	}
	if len(moves) > 0 {
		_, err := r.env.Ledger.Settle(ctx, command, moves)
		errs = append(errs, err)
	}
	if len(read) > 0 {
		errs = append(errs, r.env.Ledger.ClearUnread(ctx, read))
	}
	return errors.Join(errs...)
}

// settle says what follows for one effect; false means nothing.
func (r *Reconciler) settle(ctx context.Context, e *ledger.Open) (ledger.Settlement, bool) {
	t := r.targets[e.TenantID+"/"+e.Connector]
	op, declared := t.conn.Declared(e.Operation)
	if !declared {
		r.env.Log.Error("an operation is no longer declared; an operator must settle its effects", "operation", e.OperationID(), "name", e.Operation)
		op = &config.Operation{}
	}
	s, wanted := decide(e, op)
	if s.Move == "look" {
		s = r.look(ctx, e, t, op)
	}
	if s.Review != nil {
		fillReview(s.Review, e, t.actions[e.ActionType])
	}
	s.EffectKey, s.RunKey, s.CorrelationID, s.TraceParent = e.EffectKey, e.RunKey, e.CorrelationID, e.TraceParent
	s.ClearUnread = e.UnreadOutcome
	if s.HoldReason == ledger.HoldIncident {
		r.env.Log.Error("the provider has more than one object for one operation; an operator must look", "operation", e.OperationID(), "evidence", s.Looked.Evidence)
	}
	return s, wanted
}

func fillReview(review *ledger.Review, e *ledger.Open, a *config.Action) {
	review.IntentHash, review.Revision = e.IntentHash.String(), e.Revision
	review.DecideWithin, review.ExecuteWithin = 24*time.Hour, time.Hour
	if a != nil {
		review.Audience, review.DecideWithin, review.ExecuteWithin = a.Audience, a.DecideWithin, a.ExecuteWithin
	}
}

// look reads the provider, where it can be read, and decides by what it says.
func (r *Reconciler) look(ctx context.Context, e *ledger.Open, t *target, op *config.Operation) ledger.Settlement {
	if op.Lookup == nil {
		return withoutLookup(e, op)
	}
	snapshot, err := intent.Read(e.Canonical, e.IntentHash)
	if err != nil {
		return ledger.Settlement{Move: "look", NextCheck: time.Hour, Note: err.Error()}
	}
	action, _ := snapshot.Tree.Pointer("/actions/0")
	found := t.conn.Reconcile(ctx, connector.Operation{Name: e.Operation, Action: action, OperationID: e.OperationID(),
		IdempotencyKey: e.OperationID(), TenantID: e.TenantID, CorrelationID: e.CorrelationID})
	return judge(e, op, found)
}
