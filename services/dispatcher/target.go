package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/policy"
)

// tenant is what is checked again before a tenant's effects are sent.
type tenant struct {
	engine  *policy.Engine
	actions map[string]*config.Action
}

// target is one connector of one tenant.
type target struct {
	declared *config.Connector
	conn     preparer
	// execute makes one attempt. The gate runs at most once, right before the write may begin, and when execute has returned
	// nothing can begin any more.
	execute func(context.Context, *attempt, *connector.Request, func() error) connector.Result
	backoff *outcome.Backoff
	tap     *tap
}

// preparer is what a connector of every kind knows before it writes.
type preparer interface {
	Declared(operation string) (*config.Operation, bool)
	Prepare(ctx context.Context, op connector.Operation) (*connector.Request, error)
	ReadTarget(ctx context.Context, op connector.Operation) (version string, found bool, err error)
}

// lasts is how long one attempt may take, apart from the commits before and after: the read and the write of an HTTP
// connector, one message, or the wait for leave and the wait for the receipt of an executor.
func (t *target) lasts() time.Duration {
	if t.declared.Executor() {
		return cmp.Or(t.declared.LeaveWithin, defaultLeave) + cmp.Or(t.declared.Timeout, defaultReport)
	}
	return 2 * t.declared.Longest()
}

// newTenant compiles the rules of a tenant.
func newTenant(declared *config.Tenant) (*tenant, error) {
	engine, err := policy.New(declared)
	if err != nil {
		return nil, err
	}
	t := &tenant{engine: engine, actions: map[string]*config.Action{}}
	for _, a := range declared.Actions {
		t.actions[a.Type] = a
	}
	return t, nil
}

// addTargets makes the connectors of a tenant, which are what the files say.
func (d *Dispatcher) addTargets(declared *config.Tenant) error {
	for _, c := range declared.Connectors {
		t, err := d.newTarget(declared.ID, c)
		if err != nil {
			return fmt.Errorf("connector %s of tenant %s: %w", c.ID, declared.ID, err)
		}
		form, err := connector.Form(c)
		if err != nil {
			return fmt.Errorf("connector %s of tenant %s: %w", c.ID, declared.ID, err)
		}
		d.targets[declared.ID+"/"+c.ID], d.forms[declared.ID+"/"+c.ID] = t, form[:]
	}
	return nil
}

func (d *Dispatcher) newTarget(tenant string, c *config.Connector) (*target, error) {
	backoff, err := outcome.NewBackoff(outcome.BackoffConfig{Declared: c.Backoff})
	if err != nil {
		return nil, err
	}
	tap := newTap(c, d.env.Log.With("tenant", tenant, "connector", c.ID), d.breakers.of(tenant, c.ID))
	if c.Executor() {
		conn, err := connector.NewExecutor(c)
		return &target{c, conn, d.executors.execute, backoff, tap}, err
	}
	conn, err := newCaller(c)
	if err != nil {
		return nil, err
	}
	call := func(ctx context.Context, _ *attempt, r *connector.Request, gate func() error) connector.Result {
		return conn.Execute(ctx, r, gate)
	}
	return &target{c, conn, call, backoff, tap}, nil
}

// caller is a connector that writes by itself.
type caller interface {
	preparer
	Execute(ctx context.Context, r *connector.Request, gate func() error) connector.Result
}

func newCaller(c *config.Connector) (caller, error) {
	if c.Mailer() {
		return connector.NewMailer(connector.Config{Connector: c})
	}
	return connector.New(connector.Config{Connector: c})
}
