package approval

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestApprovalsCountAgainstLimits: what a person approved leaves less for rules, and no limit stops a person (P8).
func TestApprovalsCountAgainstLimits(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			tenant.Action("payment.refund").Limits = []config.Limit{{ID: "a-day", Window: 24 * time.Hour, Count: 1,
				Amount: &config.AmountLimit{Pointer: "/proposed_change/amount", Max: "1.00"}}}
		}
	})
	nora := g.token("nora").AccessToken
	for _, key := range []string{"first", "second"} {
		asked := g.waiting(key)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
		require.Equal(t, approved, g.state(asked))
	}
	rejected := g.waiting("third")
	require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(rejected), nora, decision(rejected, ledger.Reject)).Status)
	require.Equal(t, 2, g.Count(`select count(*) from limit_draws`))
	require.Equal(t, 2, g.Count(`select sum(count)::int from limit_windows`))
	require.Equal(t, 1, g.Count(`select count(*) from limit_windows w where amount = (select sum(amount) from limit_draws) and amount > 1`))
}
