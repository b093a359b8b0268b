package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestDrainReport is what an operator is told of a switch that was just closed, and whenever they ask (D15).
func TestDrainReport(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	sent := b.Lease(time.Hour, b.Approved("sent")...)[0]
	lost := b.Approved("lost", "waits")[0]
	b.Exec(`update effects set state = 'unknown', maybe_sent = true, first_sent_at = clock_timestamp(), unknown_since = clock_timestamp()
where run_id = $1`, lost.RunID)
	verb := func(args ...string) (int, string, string) {
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append([]string{"kill-switch"}, args...)...)
		return p.wait(t), p.out.String(), p.err.String()
	}
	of := []string{"--tenant", ledgertest.Tenant, "--connector", ledgertest.Connector}

	code, out, complaint := verb(append([]string{"close", "--wait", "200ms", "--by", "olga", "--reason", "It pays twice."}, of...)...)
	require.Equal(t, 1, code, "a call is in flight still")
	require.Contains(t, complaint, "1 calls are still in flight after 200ms")
	for _, says := range []string{"Stopped: 1. In flight: 1. Unknown: 1.", "The last call in flight has ended by ",
		sent.OperationID() + "  " + ledgertest.ActionType + " at " + ledgertest.Connector + ", in flight until ", lost.OperationID(), "unknown since "} {
		require.Contains(t, out, says)
	}
	b.Exec(`update effects set state = 'held', hold_reason = 'exhausted', lease_owner = null, lease_expires_at = null where run_id = $1`, sent.RunID)
	code, out, complaint = verb(append([]string{"report", "--wait", "1m"}, of...)...)
	require.Zero(t, code, complaint)
	require.Contains(t, out, "Stopped: 1. In flight: 0. Unknown: 1.")
	code, out, _ = verb("report", "--json", "--tenant", "another")
	require.Zero(t, code)
	require.Contains(t, out, `"stopped":0,"in_flight":0,"unknown":0`)
	_, _, complaint = verb("report", "--connector", ledgertest.Connector)
	require.Contains(t, complaint, "say whose it is")
}
