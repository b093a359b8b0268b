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

	t.Run("UpdateIsWrittenOnceWhicheverDoorItCameBy", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		byHTTP, byNATS := w.Update(), w.Update()
		reply := w.Post(byHTTP)
		require.Equal(t, http.StatusAccepted, reply.Status)
		require.Equal(t, contracts.ResultAccepted, reply.Result)
		require.NotEqual(t, contracts.StateCompleted, reply.State, "accepted means stored and queued, not done")
		require.NotEmpty(t, reply.StatusURL)
		require.Equal(t, contracts.ResultAccepted, w.Publish(byNATS).Result)
		w.Arrive([]world.Event{byHTTP, byNATS})

		again := w.Post(byHTTP)
		require.Equal(t, http.StatusOK, again.Status)
		require.Equal(t, contracts.ResultDuplicateWithResult, again.Result)
		require.Equal(t, byHTTP.OperationID(), again.Effects[0].OperationID)
		require.Equal(t, w.Writes(byHTTP)[0].UpdateID, again.Effects[0].ExternalID)
		require.Equal(t, contracts.ResultDuplicateWithResult, w.Publish(byNATS).Result)
		told := w.AwaitTold(byNATS, contracts.TypeRunCompleted)
		require.Equal(t, byNATS.OperationID(), told.Data.(*contracts.RunCompleted).OperationID)
		for _, event := range []world.Event{byHTTP, byNATS} {
			require.Equal(t, "Lisbon", field(t, w, event, "city"))
		}
	})

	t.Run("RefundOverTheThresholdWaitsAndUnregisteredActionIsDeniedAndNothingIsSent", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		refund, unregistered := w.Refund("250.00"), w.Update().Proposing("crm.contact.delete")
		w.Post(refund)
		w.Post(unregistered)
		w.Await(refund, contracts.StateAwaitingHuman)
		w.Await(unregistered, contracts.StateFailedTerminal)
		passBy(w)

		waiting := w.Explain(refund)
		require.Equal(t, "human_review", waiting.Decisions[0].Route)
		require.Equal(t, "pending", waiting.Approvals[0].State)
		told := w.AwaitTold(refund, contracts.TypeRunAwaitingHuman)
		require.NotEmpty(t, told.Data.(*contracts.RunAwaitingHuman).Reasons)
		require.Equal(t, contracts.ResultDuplicate, w.Post(refund).Result)

		denied := w.Explain(unregistered)
		require.Equal(t, contracts.OutcomeDenied, denied.Run.Outcome)
		require.Equal(t, "reject", denied.Decisions[0].Route)
		ended := w.AwaitTold(unregistered, contracts.TypeRunEnded).Data.(*contracts.RunEnded)
		require.Equal(t, contracts.OutcomeDenied, ended.Outcome)
		require.Equal(t, contracts.ResultDuplicateWithResult, w.Post(unregistered).Result)

		for _, event := range []world.Event{refund, unregistered} {
			require.Empty(t, w.Explain(event).Effects)
			require.Empty(t, w.Writes(event))
		}
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

// passBy sends another event through every service to its end: what would have been sent before it has been sent by
// then.
func passBy(w *world.World) {
	other := w.Update()
	w.Post(other)
	w.Await(other, contracts.StateCompleted)
}
