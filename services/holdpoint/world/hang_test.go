package world_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// TestProviderThatHangsHoldsNoTransaction has fifty calls hang at once, and looks at the database meanwhile (DSP-14).
func TestProviderThatHangsHoldsNoTransaction(t *testing.T) {
	t.Parallel()
	const effects, timeout = 50, 8 * time.Second
	w := world.New(t, world.WithConnections(10), world.WithConfig(func(c *config.Config) {
		for _, k := range c.Tenants[0].Connectors {
			k.Timeout = timeout
		}
	}))
	ids := w.Fault(sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, PerReference: true, Nth: 1, Count: 1},
		Fault: sandbox.Fault{Kind: sandbox.AcceptThenHang, Duration: sandbox.Duration(time.Minute)}})
	events := w.Updates(effects)
	w.Deliver(events)
	require.NoError(t, w.Sandbox.AwaitFault(t.Context(), ids[0], effects))
	require.EqualValues(t, effects, sending(w))

	var answers []time.Duration
	for sending(w) == effects {
		began := time.Now()
		require.Nil(t, w.Post(w.Refund("250.00")).Problem)
		answers = append(answers, time.Since(began))
		require.EqualValues(t, 0, w.Count(`select count(*) from pg_stat_activity where datname = current_database()
			and state like 'idle in transaction%' and clock_timestamp() - state_change > interval '1 second'`))
	}
	require.Greater(t, len(answers), 3, "the calls must hang long enough, or the test says nothing")
	slices.Sort(answers)
	require.Less(t, answers[len(answers)/2], timeout/4)

	for _, event := range events { // each is found by reading: the first call was the write
		w.Await(event, contracts.StateCompleted)
		require.Len(t, w.Writes(event), 1)
	}
}
