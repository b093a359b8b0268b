package world_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

func TestJourney(t *testing.T) {
	t.Parallel()

	t.Run("UpdateByHTTPIsWrittenOnce", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		event := w.Update()
		reply := w.Post(event)
		require.Equal(t, http.StatusAccepted, reply.Status)
		require.Equal(t, contracts.ResultAccepted, reply.Result)
		require.NotEmpty(t, reply.StatusURL)
		w.Arrive([]world.Event{event})

		again := w.Post(event)
		require.Equal(t, http.StatusOK, again.Status)
		require.Equal(t, contracts.ResultDuplicateWithResult, again.Result)
		require.Equal(t, event.OperationID(), again.Effects[0].OperationID)
		require.NotEmpty(t, again.Effects[0].ExternalID)
		require.Equal(t, "Lisbon", field(t, w, event, "city"))
	})

	t.Run("UpdateByNATSIsWrittenOnce", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		event := w.Update()
		require.Equal(t, contracts.ResultAccepted, w.Publish(event).Result)
		w.Arrive([]world.Event{event})
		told := w.AwaitTold(event, contracts.TypeRunCompleted)
		require.Equal(t, event.OperationID(), told.Data.(*contracts.RunCompleted).OperationID)
		require.Equal(t, contracts.ResultDuplicateWithResult, w.Publish(event).Result)
	})

	t.Run("RefundOverTheThresholdWaitsForAPersonAndSendsNothing", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		refund := w.Refund("250.00")
		w.Post(refund)
		w.Await(refund, contracts.StateAwaitingHuman)
		told := w.AwaitTold(refund, contracts.TypeRunAwaitingHuman)
		require.NotEmpty(t, told.Data.(*contracts.RunAwaitingHuman).Reasons)
		passBy(w)
		require.Equal(t, "pending", w.Explain(refund).Approvals[0].State)
		require.Empty(t, w.Explain(refund).Effects)
		require.Empty(t, w.Writes(refund))
	})

	t.Run("UnregisteredActionIsDeniedOnTheRecord", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		event := w.Update().Proposing("crm.contact.delete")
		w.Post(event)
		w.Await(event, contracts.StateFailedTerminal)
		record := w.Explain(event)
		require.Equal(t, contracts.OutcomeDenied, record.Run.Outcome)
		require.Equal(t, "reject", record.Decisions[0].Route)
		passBy(w)
		require.Empty(t, record.Effects)
		require.Empty(t, w.Writes(event))
		ended := w.AwaitTold(event, contracts.TypeRunEnded).Data.(*contracts.RunEnded)
		require.Equal(t, contracts.OutcomeDenied, ended.Outcome)
		require.Equal(t, contracts.ResultDuplicateWithResult, w.Post(event).Result)
	})
}

// field is what the CRM now holds in one field of the event's contact.
func field(t *testing.T, w *world.World, e world.Event, name string) string {
	t.Helper()
	resp, err := http.Get(w.Sandbox.URL() + "/crm/contacts/" + e.Contact())
	require.NoError(t, err)
	defer resp.Body.Close()
	var contact struct{ Fields map[string]string }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&contact))
	return contact.Fields[name]
}

// passBy sends another event through every service to its end: what would have been sent before it has been sent by then.
func passBy(w *world.World) {
	other := w.Update()
	w.Post(other)
	w.Await(other, contracts.StateCompleted)
}
