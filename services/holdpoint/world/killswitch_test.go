package world_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// queued effects wait behind a slow provider when the switch is closed.
const queued = 200

// TestKillSwitchStopsTheQueue is what flags that only guard new work fail at: the queue, retries, restarts (DSP-13).
func TestKillSwitchStopsTheQueue(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.WithConfig(atOnce(16)))
	w.Fault(slow(250 * time.Millisecond))
	events := w.Updates(queued)
	w.Deliver(events)
	_, err := w.Sandbox.AwaitWrites(t.Context(), sandbox.Filter{}, 10)
	require.NoError(t, err)

	set := ledger.Switch{Scope: ledger.ScopeGlobal, Closed: true, ChangedBy: "the test", Reason: "nothing may be sent"}
	_, err = w.Ledger.SetSwitch(t.Context(), set)
	require.NoError(t, err)
	closed := time.Now()
	var drained ledger.Drain
	w.Until("nothing is in flight", func() bool {
		drained, err = w.Ledger.Drain(t.Context(), set)
		return err == nil && drained.InFlight == 0
	})
	sent := writes(t, w)
	require.Less(t, len(sent), queued, "the switch must close before the queue is empty, or the test says nothing")
	for _, write := range sent {
		late := write.Time.Sub(closed)
		require.LessOrEqual(t, late, time.Second, "a call started %s after the switch closed", late)
	}

	// A restart remembers. Every effect that waits is looked at once more by the new process, and none is leased.
	w.Stop(ledger.Dispatcher)
	attempts := w.Count("select count(*) from effect_attempts")
	restarted := world.Value[time.Time](w, "select clock_timestamp()")
	w.Exec("update effects set next_check_at = clock_timestamp() where open")
	w.Start(ledger.Dispatcher)
	w.Until("the new dispatcher has looked at every effect", func() bool {
		return w.Count(`select count(*) from effects
			where open and next_check_at < $1::timestamptz + interval '1 second'`, restarted) == 0
	})
	require.Equal(t, attempts, w.Count("select count(*) from effect_attempts"))
	require.Len(t, writes(t, w), len(sent))

	require.NoError(t, w.Sandbox.ClearFaults(t.Context()))
	set.Closed = false
	_, err = w.Ledger.SetSwitch(t.Context(), set)
	require.NoError(t, err)
	w.Arrive(events)
	require.EqualValues(t, 2, w.Count("select count(*) from kill_switch_changes where changed_by = 'the test'"))
}

// TestNothingIsSentUnlessSendingIsEnabled leaves AI_ACTIONS_ENABLED unset (D9).
func TestNothingIsSentUnlessSendingIsEnabled(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.WithActionsOff())
	event := w.Update()
	w.Post(event)
	w.Await(event, "approved")
	w.Until("the request is in the dispatcher's inbox", func() bool {
		return w.Count("select count(*) from inbox where consumer = 2") == 1
	})
	require.EqualValues(t, 0, w.Count("select count(*) from effect_attempts"))
	require.Empty(t, w.Writes(event))
}

func writes(t *testing.T, w *world.World) []sandbox.Write {
	t.Helper()
	all, err := w.Sandbox.Writes(context.Background(), sandbox.Filter{})
	require.NoError(t, err)
	return all
}

// atOnce bounds the calls in flight to every provider.
func atOnce(n int) func(*config.Config) {
	return func(c *config.Config) {
		for _, k := range c.Tenants[0].Connectors {
			k.Concurrency = n
		}
	}
}

// slow makes every update of the CRM take so long.
func slow(d time.Duration) sandbox.Rule {
	return sandbox.Rule{Match: sandbox.Match{System: sandbox.CRM, Operation: sandbox.Update},
		Fault: sandbox.Fault{Kind: sandbox.Delay, Duration: sandbox.Duration(d)}}
}
