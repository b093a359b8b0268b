// Package policy routes intents: it reads what was submitted, decides by the tenant's rules, and stores the decision
// with all that follows from it in one transaction (P2). door.go takes the events, decide.go is the pure part. It decides by the
// version of the policy that is active at the moment of that transaction, and by no other (P7).
package policy

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/policy/active"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Policy is the service.
type Policy struct {
	env      *service.Env
	policies *active.Policies[*tenant]
	decided  metric.Int64Counter
}

// decider is what decides for one tenant.
type decider interface {
	Decide(engine.Input) engine.Decision
}

type tenant struct {
	declared *config.Tenant
	engine   decider
	actions  map[string]*config.Action
}

func newTenant(declared *config.Tenant) (*tenant, error) {
	compiled, err := engine.New(declared)
	if err != nil {
		return nil, err
	}
	t := &tenant{declared: declared, engine: compiled, actions: map[string]*config.Action{}}
	for _, a := range declared.Actions {
		t.actions[a.Type] = a
	}
	return t, nil
}

// New compiles every tenant's rules; an error in any of them refuses the start (POL-02). Where a tenant has no active policy,
// that of the files is activated.
func New(ctx context.Context, env *service.Env) (*Policy, error) {
	for _, declared := range env.Config.Tenants {
		engine.Warn(env.Log, declared)
	}
	policies, err := active.New(ctx, active.Config[*tenant]{Env: env, Make: newTenant, Install: true})
	if err != nil {
		return nil, err
	}
	counter, err := env.Meter.Int64Counter("holdpoint_policy_decisions_total")
	return &Policy{env: env, policies: policies, decided: counter}, err
}

// Run decides until the context ends.
func (p *Policy) Run(ctx context.Context) error {
	return service.RunAll(ctx, p.env.Log, drainFor,
		service.Named{Name: "policy events", Runner: eventDoor{p}},
		service.Named{Name: "policy versions", Runner: p.policies},
	)
}

// drainFor is longer than a batch takes, with the ledger's patience.
const drainFor = 40 * time.Second

// eventDoor takes events from the broker.
type eventDoor struct{ *Policy }

// Run takes batches until the context ends.
func (d eventDoor) Run(ctx context.Context) error {
	return bus.Consume(ctx, d.env.Bus, bus.ConsumeConfig{
		Service: ledger.Policy, Stream: bus.InternalStream, Durable: bus.PolicyConsumer, Handle: d.handle, Logger: d.env.Log,
	})
}
