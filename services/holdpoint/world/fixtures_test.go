package world_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// The fixtures are five stories that must never end in a second effect, each on the whole system. World.Proves says what each is held
// to; the number of calls and of objects stands at the end of each story.

// TestFixtureProcessKilledAfterTheRequestLeftAndBeforeTheAnswerWasStored (D3, D6, O6).
func TestFixtureProcessKilledAfterTheRequestLeftAndBeforeTheAnswerWasStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inside  sandbox.Kind // where the request is when its sender dies
		attempt string       // what is known of it
		proof   world.Proof
	}{
		"TheProviderHadTakenIt": {sandbox.AcceptThenHang, "found", world.Proof{Calls: 1, Objects: 1}},
		"TheProviderHadNot":     {sandbox.HangBeforeAccept, "absent", world.Proof{Calls: 2, Objects: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.WithReplicas(ledger.Dispatcher, 0))
			process := w.StartProcess(ledger.Dispatcher)
			event := w.Update()
			inside := w.Fault(firstAttempt(event, sandbox.Fault{Kind: c.inside, Duration: sandbox.Duration(time.Minute)}))
			w.Post(event)
			require.NoError(t, w.Sandbox.AwaitFault(t.Context(), inside[0], 1))
			process.Kill()
			require.EqualValues(t, 1, w.Count(`select count(*) from effects where state = 'sending'`), "the dead process told nothing")
			w.StartProcess(ledger.Dispatcher)
			w.Await(event, contracts.StateCompleted)
			w.Proves(event, 1, c.proof)

			record := w.Explain(event)
			require.Equal(t, c.attempt, record.Effects[0].Lookups[0].Verdict)
			require.Empty(t, world.Calls(record.Effects[0].Attempts)[0].Class, "what became of the first attempt is not known, and not made up")
		})
	}
}

// TestFixtureTwoWorkersResumeTheSameOperation: the leases of a dead dispatcher run out, and two dispatchers and two reconcilers go for
// what it left, all at once (D1, D3, K7).
func TestFixtureTwoWorkersResumeTheSameOperation(t *testing.T) {
	t.Parallel()
	const each = 6
	w := world.New(t, world.WithReplicas(ledger.Reconciler, 2))
	taken, lost := w.Updates(each), w.Updates(each)
	var inside []string
	for i := range each {
		inside = append(inside, w.Fault(firstAttempt(taken[i], sandbox.Fault{Kind: sandbox.AcceptThenHang, Duration: sandbox.Duration(time.Minute)}),
			firstAttempt(lost[i], sandbox.Fault{Kind: sandbox.HangBeforeAccept, Duration: sandbox.Duration(time.Minute)}))...)
	}
	w.Deliver(append(append([]world.Event{}, taken...), lost...))
	for _, id := range inside {
		require.NoError(t, w.Sandbox.AwaitFault(t.Context(), id, 1))
	}
	w.Crash(ledger.Dispatcher)
	w.Start(ledger.Dispatcher)
	w.Start(ledger.Dispatcher)
	for i := range each {
		w.Await(taken[i], contracts.StateCompleted)
		w.Await(lost[i], contracts.StateCompleted)
		w.Proves(taken[i], 1, world.Proof{Calls: 1, Objects: 1})
		w.Proves(lost[i], 1, world.Proof{Calls: 2, Objects: 1})
	}
	require.EqualValues(t, 2*each, w.Count(`select count(*) from audit_events where move in ('expire_lease', 'lose')`), "each call was lost once") // by a lease that ran out, or just before the crash by a timeout
	require.EqualValues(t, 3*each, w.Count(maybeSent))
}

// TestFixtureApprovalArrivesAfterExpiry, before and after anybody has noticed that it is over (A8).
func TestFixtureApprovalArrivesAfterExpiry(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	nora := w.SignIn("nora")
	late := func(noticed bool) world.Event {
		event := w.Refund("250.00")
		w.Post(event)
		w.Await(event, contracts.StateAwaitingHuman)
		card := nora.Card(event)
		w.Exec(`update approvals set decide_by = clock_timestamp() where run_id = $1`, event.RunID())
		if noticed {
			w.Await(event, contracts.StateFailedTerminal)
		}
		status, answer := nora.DecideCard(card, ledger.Approve, "The ticket shows a double charge.")
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, []string{ledger.VoteLate, ledger.VoteExpired}, answer.Result)
		w.Await(event, contracts.StateFailedTerminal)
		require.Equal(t, ledger.OutcomeExpired, w.Explain(event).Run.Outcome)
		return event
	}
	unnoticed, noticed := late(false), late(true)
	passBy(w)
	for _, event := range []world.Event{unnoticed, noticed} {
		require.Empty(t, w.Explain(event).Effects)
		w.Proves(event, 1, world.Proof{})
	}
}

// TestFixtureAmountChangedInANewerIntent: an approval is of the bytes that were shown, and acts on no others (A6, A9, K10).
func TestFixtureAmountChangedInANewerIntent(t *testing.T) {
	t.Parallel()

	t.Run("SentBackAndProposedAnew", func(t *testing.T) {
		t.Parallel()
		w := world.New(t)
		nora := w.SignIn("nora")
		event := w.Refund("250.00")
		w.Post(event)
		w.Await(event, contracts.StateAwaitingHuman)
		first := nora.Card(event)
		status, _ := nora.DecideCard(first, ledger.SendBack, "It was charged twice: 180 is right.")
		require.Equal(t, http.StatusOK, status)
		w.AwaitTold(event, contracts.TypeRunSentBack)
		worker := w.Worker()
		require.Equal(t, contracts.ResultAccepted, worker.Propose(event, worker.Take(event.Source), amountOf(event, "180.00")).Result)
		w.Await(event, contracts.StateAwaitingHuman)
		second := nora.Card(event)
		require.NotEqual(t, first.IntentHash, second.IntentHash)

		status, _ = nora.DecideCard(first, ledger.Approve, "I have it on my screen still.")
		require.Equal(t, http.StatusConflict, status, "the old request is decided")
		stale := second
		stale.IntentHash = first.IntentHash
		status, _ = nora.DecideCard(stale, ledger.Approve, "The old amount by the new request.")
		require.Equal(t, http.StatusConflict, status)
		require.Empty(t, w.Explain(event).Effects)

		status, _ = nora.DecideCard(second, ledger.Approve, "180 it is.")
		require.Equal(t, http.StatusOK, status)
		w.Await(event, contracts.StateCompleted)
		w.Proves(event, 1, world.Proof{})
		w.Proves(event, 2, world.Proof{Calls: 1, Objects: 1})
		require.Equal(t, []string{"180"}, amounts(t, w, event))
	})

	t.Run("CorrectedByARunOfItsOwn", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.WithConfig(func(c *config.Config) {
			for _, s := range c.Tenants[0].Sources {
				if s.ID == "support-refunds" {
					s.Corrects = "/corrects"
				}
			}
		}))
		original := refund(t, w)
		w.Await(original, contracts.StateCompleted)
		correction := w.Refund("30.00")
		body := correction.Body.(map[string]any)
		body["corrects"] = map[string]any{"key": original.Key, "by": "otto@example.test", "reason": "30 more were charged."}
		w.Post(correction)
		w.Await(correction, contracts.StateAwaitingHuman)
		require.Empty(t, w.Explain(correction).Effects, "the approval of the first is none of this one")

		status, _ := w.SignIn("nora").Decide(correction, ledger.Approve, "The ticket shows it.")
		require.Equal(t, http.StatusOK, status)
		w.Await(correction, contracts.StateCompleted)
		w.Proves(original, 1, world.Proof{Calls: 1, Objects: 1})
		w.Proves(correction, 1, world.Proof{Calls: 1, Objects: 1})
		require.Equal(t, []string{"150"}, amounts(t, w, original))
		require.Equal(t, []string{"30"}, amounts(t, w, correction))
	})
}

// amountOf is the event's proposal with another amount.
func amountOf(e world.Event, amount string) any {
	proposal := e.Body.(map[string]any)["proposal"].(map[string]any)
	changed := map[string]any{}
	for name, value := range proposal {
		changed[name] = value
	}
	change := map[string]any{}
	for name, value := range proposal["proposed_change"].(map[string]any) {
		change[name] = value
	}
	change["amount"] = json.Number(amount)
	changed["proposed_change"] = change
	return changed
}

// amounts are what the provider has paid back of the event's payment, for whatever operation.
func amounts(t *testing.T, w *world.World, e world.Event) (paid []string) {
	t.Helper()
	for _, made := range writes(t, w) {
		if made.Refund != nil && made.Refund.PaymentID == "payment-"+e.Key {
			paid = append(paid, made.Refund.Amount)
		}
	}
	return paid
}

// TestFixtureWebhookDeliveredTwiceAndOnceMoreAfterAnOperatorSettledIt: the operator's word stands, whatever is told afterwards and however
// often (R4).
func TestFixtureWebhookDeliveredTwiceAndOnceMoreAfterAnOperatorSettledIt(t *testing.T) {
	t.Parallel()
	resolve := func(t *testing.T, w *world.World, e world.Event, s ledger.Settlement) bool {
		t.Helper()
		s.EffectKey = ledger.EffectKey{TenantID: world.Tenant, RunID: e.RunID(), Revision: 1, Ordinal: 1}
		s.RunKey, s.CorrelationID, s.Actor, s.Note, s.NextCheck = e.Key, "corr-"+e.Key, "ann", "The provider's console shows it.", ledger.Never
		moved, err := w.Ledger.Settle(t.Context(), "resolve", []ledger.Settlement{s})
		require.NoError(t, err)
		return moved[0]
	}
	taken := []int{http.StatusNoContent, http.StatusNoContent}

	t.Run("ItWasCompletedByTheFirst", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, twice)
		once(t, w, event, "report_success")
		require.False(t, resolve(t, w, event, ledger.Settlement{Move: "dispute", HoldReason: ledger.HoldDisputed}), "it is completed")
		require.Equal(t, taken[:1], w.TellAgain(event))
		once(t, w, event, "report_success")
		require.EqualValues(t, 1, settled(w)["applied"])
		w.Proves(event, 1, world.Proof{Calls: 1, Objects: 1})
		printed(t, w, event)
	})

	t.Run("TheOperatorSaysThatItIsDone", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, finishesLater, tellsNobody)
		awaitEffect(w, event, ledger.EffectAccepted)
		require.True(t, resolve(t, w, event, ledger.Settlement{Move: "confirm_done", ExternalID: w.Writes(event)[0].ObjectID, MaybeSent: true}))
		require.Equal(t, taken, w.TellAgain(event, twice))
		require.Equal(t, taken[:1], w.TellAgain(event))
		require.Equal(t, map[string]int64{"applied": 0, "ignored": 1, "unmatched": 0}, settled(w))
		once(t, w, event, "confirm_done")
		w.Proves(event, 1, world.Proof{Calls: 1, Objects: 1})
	})

	t.Run("TheOperatorDisputesIt", func(t *testing.T) {
		t.Parallel()
		w := telling(t)
		event := refund(t, w, losesAnswer, tellsNobody, hangingLookup) // else it is soon sent again under the same key, which is replayed
		awaitEffect(w, event, ledger.EffectUnknown)
		require.True(t, resolve(t, w, event, ledger.Settlement{Move: "dispute", HoldReason: ledger.HoldDisputed}))
		require.Equal(t, taken, w.TellAgain(event, twice))
		require.Equal(t, taken[:1], w.TellAgain(event))
		require.Equal(t, map[string]int64{"applied": 0, "ignored": 1, "unmatched": 0}, settled(w))
		record := w.Explain(event)
		require.Equal(t, []string{ledger.EffectHeld, ledger.HoldDisputed}, []string{record.Effects[0].State, record.Effects[0].HoldReason})
		require.Equal(t, ledger.RunApproved, record.Run.State)
		w.Proves(event, 1, world.Proof{Calls: 1, Objects: 1})
	})
}
