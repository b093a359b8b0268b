package dispatcher

import (
	"fmt"

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
	conn     *connector.Connector
	backoff  *outcome.Backoff
}

func (d *Dispatcher) addTenant(declared *config.Tenant) error {
	engine, err := policy.New(declared)
	if err != nil {
		return err
	}
	t := &tenant{engine: engine, actions: map[string]*config.Action{}}
	for _, a := range declared.Actions {
		t.actions[a.Type] = a
	}
	d.tenants[declared.ID] = t
	for _, c := range declared.Connectors {
		conn, err := connector.New(connector.Config{Connector: c})
		if err != nil {
			return fmt.Errorf("connector %s of tenant %s: %w", c.ID, declared.ID, err)
		}
		backoff, err := outcome.NewBackoff(outcome.BackoffConfig{Declared: c.Backoff})
		if err != nil {
			return fmt.Errorf("connector %s of tenant %s: %w", c.ID, declared.ID, err)
		}
		d.targets[declared.ID+"/"+c.ID] = &target{c, conn, backoff}
	}
	return nil
}
