package reconciler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestFailedEffectsGiveBackWhatTheyDrew is P8 by the running service.
func TestFailedEffectsGiveBackWhatTheyDrew(t *testing.T) {
	t.Parallel()
	b := setup(t, func(tenant *config.Tenant) {
		servicetest.Action(tenant, "crm.contact.update").Limits = []config.Limit{{ID: "week", Window: 168 * time.Hour, Count: 9}}
	})
	require.Equal(t, 168*time.Hour, longestWindow(b.Config))
	b.Authorize(b.Contact("gone"), b.Contact("done"))
	b.Exec(`insert into limit_draws (tenant_id, run_id, revision, ordinal, limit_id, scope, step, amount)
select tenant_id, run_id, revision, ordinal, 'l', sha256(''), date_trunc('hour', clock_timestamp()), 5 from effects`)
	b.Exec(`insert into limit_windows (tenant_id, limit_id, scope, step, count, amount)
select tenant_id, limit_id, scope, step, count(*), sum(amount) from limit_draws group by 1, 2, 3, 4`)
	b.Exec(`update effects set open = false, state = case when run_id = $1 then 'failed' else 'completed' end`,
		servicetest.Effect("gone").RunID)
	stop := b.Start(b.Reconciler)
	b.Eventually(func() bool { return b.Count(`select count(*) from limit_draws where open`) == 0 }, "the draws are closed")
	require.NoError(t, stop())
	require.Equal(t, "1 5", b.Text(`select count || ' ' || amount from limit_windows`))
}
