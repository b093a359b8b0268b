package dispatcher

import (
	"fmt"
	"sync"

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

// slots counts the calls in flight of each connector, so that no more is leased than can be sent at once: a leased effect does not
// wait (D11, D15).
type slots struct {
	mu    sync.Mutex
	taken map[string]int
}

// take reserves every free slot of every connector, until giveBack says which were used.
func (s *slots) take(targets map[string]*target) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	free := map[string]int{}
	for name, t := range targets {
		limit := max(t.declared.Concurrency, 1)
		if n := limit - s.taken[name]; n > 0 {
			free[name] = n
			s.taken[name] = limit
		}
	}
	return free
}

func (s *slots) giveBack(reserved, used map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range reserved {
		s.taken[name] -= n - used[name]
	}
}

func (s *slots) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[name]--
}
