package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	traced := func(e world.Event) world.Event {
		e.Header = map[string]string{"traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}
		return e
	}

	t.Run("OriginalIsKeptVerbatimAndEveryLaterRecordCarriesItsIDs", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		byHTTP, byNATS, refund := traced(w.Update()), traced(w.Update()), traced(w.Refund("250.00"))
		w.Post(byHTTP)
		w.Publish(byNATS)
		w.Post(refund)
		w.Await(byHTTP, contracts.StateCompleted)
		w.Await(byNATS, contracts.StateCompleted)
		w.Await(refund, contracts.StateAwaitingHuman)
		for _, event := range []world.Event{byHTTP, byNATS, refund} {
			correlation := "corr-" + event.Key
			kept := world.Value[[]byte](w, "select payload from run_payloads where run_id = $1", event.RunID())
			require.Equal(t, event.Text(), kept)
			record := w.Explain(event)
			require.Equal(t, correlation, record.Run.CorrelationID)
			require.Contains(t, record.Run.TraceParent, trace)
			for _, approval := range record.Approvals {
				require.Equal(t, correlation, approval.CorrelationID)
			}
			require.EqualValues(t, 0, w.Count(`select count(*) from event_log where run_id = $1
				and position($2 in convert_from(payload, 'UTF8')) = 0`, event.RunID(), trace), "every event is traced")
			require.EqualValues(t, 0, w.Count(`select count(*) from event_log where run_id = $1
				and subject like 'holdpoint.events.%'
				and convert_from(payload, 'UTF8')::jsonb #>> '{data,correlation_id}' is distinct from $2`,
				event.RunID(), correlation), "every event that the tenant gets names its correlation id")
		}
		told := w.AwaitTold(refund, contracts.TypeRunAwaitingHuman).Data.(*contracts.RunAwaitingHuman)
		require.Equal(t, "corr-"+refund.Key, told.CorrelationID)
	})

	// Was it processed, was anything sent, who or what authorized it, which model drafted it, what did the provider say
	// (O1).
	t.Run("OneQuestionAnswersWhatHappened", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		event := w.Update()
		w.Post(event)
		w.Arrive([]world.Event{event})
		record := w.Explain(event)
		require.Equal(t, contracts.OutcomeExecuted, record.Run.Outcome)
		require.Equal(t, "crm-enrichment", record.Run.Source)
		require.Equal(t, "example-model", record.Intents[0].Model.Name)
		require.Equal(t, "7", record.Intents[0].Model.Revision)
		require.Equal(t, "auto", record.Decisions[0].Route)
		require.Equal(t, "small-contact-change", record.Decisions[0].Reasons[0].RuleID)
		require.Len(t, record.Authorizations, 1)
		require.Equal(t, event.OperationID(), record.Effects[0].OperationID)
		require.Equal(t, w.Writes(event)[0].UpdateID, record.Effects[0].ExternalID)
		require.Equal(t, "succeeded", world.Calls(record.Effects[0].Attempts)[0].Class)
		require.True(t, world.Calls(record.Effects[0].Attempts)[0].Sent)
		var moves []string
		for _, h := range record.History {
			moves = append(moves, h.Actor+" "+h.Move)
		}
		require.Equal(t, []string{"intake claim", "policy authorize", "dispatcher lease", "dispatcher verify", "reconciler confirm"}, moves)
		require.Equal(t, "matched", record.Effects[0].Postcondition, "its target was read after the write (R7)")
	})
}
