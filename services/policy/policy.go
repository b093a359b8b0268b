// Package policy routes intents: it reads what was submitted, decides by the tenant's rules, and stores the decision
// with all that follows from it in one transaction (P2). door.go takes the events, decide.go is the pure part.
package policy

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Policy is the service.
type Policy struct {
	env     *service.Env
	tenants map[string]*tenant
	decided metric.Int64Counter
}

// decider is what decides for one tenant.
type decider interface {
	Decide(engine.Input) engine.Decision
}

type tenant struct {
	engine  decider
	actions map[string]*config.Action
}

func newTenant(declared *config.Tenant) (*tenant, error) {
	compiled, err := engine.New(declared)
	if err != nil {
		return nil, err
	}
	t := &tenant{engine: compiled, actions: map[string]*config.Action{}}
	for _, a := range declared.Actions {
		t.actions[a.Type] = a
	}
	return t, nil
}

// New compiles every tenant's rules; an error in any of them refuses the start (POL-02).
func New(env *service.Env) (*Policy, error) {
	p := &Policy{env: env, tenants: map[string]*tenant{}}
	var problems []error
	for _, declared := range env.Config.Tenants {
		t, err := newTenant(declared)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		p.tenants[declared.ID] = t
		env.Log.Info("policy loaded", "tenant", declared.ID, "policy_version", declared.PolicyVersion,
			"rules", len(declared.Rules))
		engine.Warn(env.Log, declared)
	}
	counter, err := env.Meter.Int64Counter("holdpoint_policy_decisions_total")
	p.decided = counter
	return p, errors.Join(append(problems, err)...)
}

// Run decides until the context ends.
func (p *Policy) Run(ctx context.Context) error {
	return bus.Consume(ctx, p.env.Bus, bus.ConsumeConfig{
		Service: ledger.Policy, Stream: bus.InternalStream, Durable: bus.PolicyConsumer, Handle: p.handle, Logger: p.env.Log,
	})
}
