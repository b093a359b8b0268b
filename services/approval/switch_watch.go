package approval

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// watchSwitches measures how many switches of each scope are closed, so that one that somebody has forgotten is alerted on. What is
// open is measured as zero. The global one is of no tenant.
func (a *Approval) watchSwitches(ctx context.Context) (bool, error) {
	tenants := slices.Sorted(maps.Keys(a.tenants))
	states, err := a.env.Ledger.SwitchStates(ctx, tenants)
	if err != nil {
		return false, err
	}
	type of struct{ tenant, scope string }
	closed := map[of]int64{{"", ledger.ScopeGlobal}: 0}
	for _, id := range tenants {
		for _, scope := range []string{ledger.ScopeTenant, ledger.ScopeActionType, ledger.ScopeConnector} {
			closed[of{id, scope}] = 0
		}
	}
	for i := range states {
		if states[i].Closed {
			id, _, _ := strings.Cut(states[i].Key, "/")
			closed[of{id, states[i].Scope}]++
		}
	}
	for o, n := range closed {
		a.closed.Record(ctx, n, metric.WithAttributes(attribute.String("tenant", o.tenant), attribute.String("scope", o.scope)))
	}
	return false, nil
}
