package world_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("WithoutNATSEventsAreTakenOverHTTPAndTheRestResumesByItself", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		w.StopBroker()
		var events []world.Event
		for range 10 {
			event := w.Update()
			require.Equal(t, http.StatusAccepted, w.Post(event).Status)
			events = append(events, event)
		}
		require.Equal(t, contracts.ResultDuplicate, w.Post(events[0]).Result)
		task := w.Task()
		w.Post(task)
		waiting := w.Count("select count(*) from pending")
		require.EqualValues(t, 11, waiting, "all that the broker must hear waits in Postgres")
		w.StartBroker()
		w.AwaitTold(task, contracts.TypeRunAccepted)
		for _, event := range events {
			w.Await(event, contracts.StateCompleted)
			require.Len(t, w.Writes(event), 1)
			w.AwaitTold(event, contracts.TypeRunCompleted)
		}
	})

	// What an accepted answer promised is in Postgres alone: an event that Postgres did not take is not accepted, and
	// is not on the bus either, where it would run behind its sender's back.
	t.Run("WithoutPostgresHTTPRefusesAndNothingIsQueuedOnTheBus", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		passBy(w)
		w.Until("the outbox is empty", func() bool { return w.Count("select count(*) from pending") == 0 })
		before := sequences(w)
		w.SeverDatabase()
		refused := w.Update()
		for range 5 {
			reply := w.Post(refused)
			require.Equal(t, http.StatusServiceUnavailable, reply.Status)
			require.Equal(t, contracts.CodeUnavailable, reply.Problem.Code)
		}
		require.Equal(t, before, sequences(w))
		published := w.Update()
		require.NoError(t, w.Send(published), "NATS intake keeps it in the stream")
		require.Equal(t, before[bus.IngressStream(world.Tenant)]+1, w.LastSeq(bus.IngressStream(world.Tenant)))

		w.MendDatabase()
		w.Await(published, contracts.StateCompleted)
		require.Empty(t, w.State(refused), "what was refused was not stored")
		require.Equal(t, contracts.ResultAccepted, w.Post(refused).Result)
		w.Await(refused, contracts.StateCompleted)
		require.Len(t, w.Writes(published), 1)
		require.Len(t, w.Writes(refused), 1)
	})
}

func sequences(w *world.World) map[string]uint64 {
	all := map[string]uint64{}
	for _, stream := range bus.NewTopology([]string{world.Tenant}).Streams {
		all[stream.Name] = w.LastSeq(stream.Name)
	}
	return all
}

func TestMessageThatCannotBeProcessed(t *testing.T) {
	t.Parallel()

	t.Run("IsParkedAndToldAndBlocksNobody", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		broken := w.Update()
		broken.Body = map[string]any{"event_id": 7}
		reply := w.Publish(broken)
		require.Equal(t, contracts.CodeSchemaInvalid, reply.Problem.Code)
		passBy(w)
		parked := w.Count("select count(*) from parked_messages where state = 'parked' and reason like $1",
			contracts.CodeSchemaInvalid+":%")
		require.EqualValues(t, 1, parked)
		require.Equal(t, contracts.CodeSchemaInvalid, w.AwaitRefused(broken.Source).Reason)
		require.Empty(t, w.State(broken))
	})
}
