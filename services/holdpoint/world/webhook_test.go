package world_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// What a provider does with a write, and with telling of it.
var (
	finishesLater = sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusAccepted}
	losesAnswer   = sandbox.Fault{Kind: sandbox.AcceptThenReset}
	tellsNobody   = sandbox.Fault{Kind: sandbox.WebhookNone}
	noLookup      = sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusInternalServerError} // answers lookups alone so
	hangingLookup = sandbox.Fault{Kind: sandbox.HangBeforeAccept, Duration: sandbox.Duration(time.Minute)} // likewise
	twice         = sandbox.Fault{Kind: sandbox.WebhookRepeat, Copies: 2}
)

// telling is a world whose payments provider tells of its writes by itself.
func telling(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t)
	w.TellOfPayments()
	return w
}

// refund has a refund approved, which the provider takes as the faults say.
func refund(t *testing.T, w *world.World, faults ...sandbox.Fault) world.Event {
	t.Helper()
	event := w.Refund("150.00")
	for _, f := range faults {
		operation := sandbox.Create
		if f == noLookup || f == hangingLookup {
			operation = sandbox.Lookup
		}
		w.Fault(sandbox.Rule{Match: sandbox.Match{System: sandbox.Payments, Operation: operation, Reference: event.OperationID()}, Fault: f})
	}
	w.Post(event)
	w.Await(event, contracts.StateAwaitingHuman)
	status, _ := w.SignIn("nora").Decide(event, ledger.Approve, "The ticket shows a double charge.")
	require.Equal(t, http.StatusOK, status)
	return event
}

func awaitEffect(w *world.World, e world.Event, state string) {
	w.Until("the effect of "+e.Key+" to be "+state, func() bool {
		return w.Count(`select count(*) from effects where run_id = $1 and state = $2`, e.RunID(), state) == 1
	})
}

// settled waits until nothing that was told waits, and returns how many events are in each state.
func settled(w *world.World) map[string]int64 {
	w.Until("all that was told to be settled", func() bool {
		return w.Count(`select count(*) from provider_events where state = 'waiting'`) == 0
	})
	states := map[string]int64{}
	for _, state := range []string{"applied", "ignored", "unmatched"} {
		states[state] = w.Count(`select count(*) from provider_events where state = $1`, state)
	}
	return states
}

// once holds that the event's write was made once and its run completed once.
func once(t *testing.T, w *world.World, e world.Event, move string) {
	t.Helper()
	w.Await(e, contracts.StateCompleted)
	require.Len(t, w.Writes(e), 1)
	var ends []string
	for _, h := range w.Explain(e).History {
		if h.To == ledger.EffectCompleted {
			ends = append(ends, h.Move)
		}
	}
	require.Equal(t, []string{move}, ends)
	w.AwaitTold(e, contracts.TypeRunCompleted)
	require.EqualValues(t, 1, w.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.completed'`, e.RunID()))
}

// TestProviderWebhooks is R4 and R5 on the whole system: the sandbox tells by itself what became of its writes.
func TestProviderWebhooks(t *testing.T) {
	t.Parallel()

	t.Run("AcceptedItIsCompletedByWhatTheProviderTells", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, sandbox.Fault{Kind: sandbox.WebhookLate, Duration: sandbox.Duration(time.Second)})
		once(t, w, event, "report_success")
		require.Equal(t, w.Writes(event)[0].ObjectID, w.Explain(event).Effects[0].ExternalID)
	})

	t.Run("AcceptedAndNeverToldOfItIsLookedUpAfterItsDeadline", func(t *testing.T) { // R5
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, tellsNobody)
		awaitEffect(w, event, ledger.EffectAccepted)
		w.Exec(`update effect_attempts set started_at = started_at - $2::interval where run_id = $1`, event.RunID(), outcome.AcceptedDeadline)
		w.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, event.RunID())
		once(t, w, event, "find")
		require.Empty(t, settled(w)["applied"])
	})

	t.Run("ToldOfItBeforeTheAnswerOurOwnWordCounts", func(t *testing.T) { // REC-01
		t.Parallel()
		w := telling(t)
		event := refund(t, w, sandbox.Fault{Kind: sandbox.WebhookEarly})
		once(t, w, event, "succeed")
		require.Equal(t, map[string]int64{"applied": 0, "ignored": 1, "unmatched": 0}, settled(w))
	})

	t.Run("ToldOfItBeforeAnAnswerThatIsLost", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, sandbox.Fault{Kind: sandbox.WebhookEarly}, losesAnswer, noLookup)
		once(t, w, event, "report_success")
	})

	t.Run("AForgedOrStaleOneIsRefusedAndNotStored", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, tellsNobody)
		awaitEffect(w, event, ledger.EffectAccepted)
		for _, f := range []sandbox.Fault{{Kind: sandbox.WebhookForged}, {Kind: sandbox.WebhookStale, Duration: sandbox.Duration(time.Hour)}} {
			require.Equal(t, []int{http.StatusUnauthorized}, w.TellAgain(event, f))
		}
		require.EqualValues(t, 0, w.Count(`select count(*) from provider_events`))
		awaitEffect(w, event, ledger.EffectAccepted)
		require.Len(t, w.Writes(event), 1)
	})

	t.Run("FiftyCopiesAtOnceWithThePendingOneLast", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, sandbox.Fault{Kind: sandbox.WebhookConcurrent, Copies: 50},
			sandbox.Fault{Kind: sandbox.WebhookReorder})
		once(t, w, event, "report_success")
		w.Until("both events to be stored", func() bool { return w.Count(`select count(*) from provider_events`) == 2 })
		require.Equal(t, map[string]int64{"applied": 1, "ignored": 1, "unmatched": 0}, settled(w))
	})

	t.Run("WhatTheProviderHadAcceptedAndReportsAsFailedEnds", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, sandbox.Fault{Kind: sandbox.WebhookStatus, Code: "failed"})
		w.Await(event, contracts.StateFailedTerminal)
		require.Equal(t, contracts.OutcomeFailed, w.Explain(event).Run.Outcome)
		require.Len(t, w.Writes(event), 1, "nothing is sent again")
	})

	t.Run("WhilePostgresIsAwayTheProviderHasToComeBack", func(t *testing.T) { // REC-07
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, tellsNobody)
		awaitEffect(w, event, ledger.EffectAccepted)
		w.SeverDatabase()
		require.Equal(t, []int{http.StatusServiceUnavailable}, w.TellAgain(event))
		w.MendDatabase()
		w.Until("the provider's word to be taken", func() bool {
			return slices.Equal([]int{http.StatusNoContent}, w.TellAgain(event))
		})
		once(t, w, event, "report_success")
	})
}
