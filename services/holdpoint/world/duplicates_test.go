package world_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

func TestOneEventDeliveredManyTimes(t *testing.T) {
	t.Parallel()

	t.Run("AfterItsRunHasEndedAHundredMoreChangeNothing", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		event := w.Update()
		w.Post(event)
		w.Arrive([]world.Event{event})
		before := w.Rows()
		for _, reply := range storm(t, w, event, 100) {
			require.Equal(t, contracts.ResultDuplicateWithResult, reply.Result)
			require.Equal(t, contracts.StateCompleted, reply.State)
			require.Equal(t, event.OperationID(), reply.Effects[0].OperationID)
		}
		require.Equal(t, before, w.Rows())
		require.Len(t, w.Writes(event), 1)
	})

	// A dispatch layer turns one call into several, milliseconds apart, and they meet different replicas (INT-01).
	t.Run("TwoThousandAtOnceOverTwoReplicasAndBothDoorsAreAllAnsweredAndOneIsAccepted", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.WithReplicas(ledger.Intake, 2))
		event := w.Update()
		results, ids := map[string]int{}, map[string]int{}
		for _, reply := range storm(t, w, event, 2000) {
			results[reply.Result]++
			ids[reply.RunID]++
		}
		require.Equal(t, 1, results[contracts.ResultAccepted], "%v", results)
		duplicates := results[contracts.ResultDuplicate] + results[contracts.ResultDuplicateWithResult]
		require.Equal(t, 1999, duplicates, "%v", results)
		require.Equal(t, map[string]int{event.RunID().String(): 2000}, ids, "every caller is told of the same run")
		w.Arrive([]world.Event{event})
	})

	t.Run("ManyWorkersAtOnceGetOneLease", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.WithReplicas(ledger.Intake, 2))
		task := w.Task()
		leases := make(chan bool, 200)
		together(200, func(int) {
			reply := w.Worker().Claim(task)
			leases <- reply.Problem == nil && reply.Lease != nil
		})
		close(leases)
		granted := 0
		for lease := range leases {
			if lease {
				granted++
			}
		}
		require.Equal(t, 1, granted)
	})
}

// storm delivers the event n times at once, every second time over NATS under a message id of its own, and requires an
// answer to each that is no problem.
func storm(t *testing.T, w *world.World, event world.Event, n int) []world.Reply {
	t.Helper()
	replies := make([]world.Reply, n)
	errs := make([]error, n)
	together(n, func(i int) {
		if i%2 == 0 {
			replies[i], errs[i] = w.TryPost(event)
		} else {
			replies[i], errs[i] = w.TryPublish(event, time.Minute)
		}
	})
	for i, reply := range replies {
		require.NoError(t, errs[i])
		require.Nil(t, reply.Problem)
		require.Contains(t, []int{0, http.StatusOK, http.StatusAccepted}, reply.Status)
	}
	return replies
}

// together makes n calls that begin at the same moment, and returns when all have ended.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}
