package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestDrill proves the kill switch on a system that has something to send, and finds out one that does not stop it (D9).
func TestDrill(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	effects := b.Approved("one", "two")
	of := []string{"--tenant", ledgertest.Tenant, "--connector", ledgertest.Connector, "--by", "olga", "--reason", "the monthly drill"}
	drill := func(t *testing.T, lasts string) *program {
		t.Helper()
		return run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append([]string{"kill-switch", "drill", "--for", lasts, "--ramp", "0"}, of...)...)
	}
	closed := func(t *testing.T) {
		t.Helper()
		require.Eventually(t, func() bool { return b.Count(`select count(*) from kill_switches where closed`) == 1 }, 30*time.Second,
			20*time.Millisecond)
	}

	p := drill(t, "1s")
	closed(t)
	require.Empty(t, b.Lease(time.Minute, effects...))
	require.Equal(t, 0, p.wait(t), p.err.String())
	require.Contains(t, p.out.String(), "In 1s since it was closed: 0 attempts began, 2 effects waited, 0 were in flight, 0 are unknown.")
	require.Contains(t, p.out.String(), "The switch stops what it covers.")
	require.Zero(t, b.Count(`select count(*) from kill_switches where closed`), "it is open again")
	require.Equal(t, 2, b.Count(`select count(*) from kill_switch_changes where changed_by = 'olga' and reason = 'the monthly drill'`))

	p = drill(t, "3s")
	closed(t)
	b.Exec(`insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch, started_at)
values ($1, $2, 1, 1, 1, gen_random_uuid(), 1, clock_timestamp() + interval '1 second')`, effects[0].TenantID, effects[0].RunID)
	require.Equal(t, 1, p.wait(t))
	require.Contains(t, p.err.String(), "1 attempts began while the switch was closed")
	require.Zero(t, b.Count(`select count(*) from kill_switches where closed`))

	_, err := b.Operator.SetSwitch(t.Context(), ledger.Switch{Scope: ledger.ScopeConnector, Key: ledgertest.Tenant + "/" + ledgertest.Connector,
		Closed: true, ChangedBy: "otto", Reason: "the provider is down"})
	require.NoError(t, err)
	p = drill(t, "1s")
	require.Equal(t, 1, p.wait(t))
	require.Contains(t, p.err.String(), "is closed already, by otto: the provider is down")
	require.Equal(t, 1, b.Count(`select count(*) from kill_switches where closed`), "a drill opens nothing that somebody has closed")
}
