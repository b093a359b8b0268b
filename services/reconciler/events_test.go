package reconciler

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// told is what a provider says of the effect of a key.
type told struct {
	id, status string
	reference  string // "": the effect's operation id; "-" names none
	external   string
}

// hear posts the event, has the reconciler apply what is due, and returns the event's state and why.
func (b *bench) hear(key string, e told) (state, detail string) {
	b.t.Helper()
	b.deliver(key, e)
	b.apply()
	return b.eventState(e.id)
}

func (b *bench) deliver(key string, e told) {
	b.t.Helper()
	reference := ""
	if e.reference != "-" {
		reference = or(e.reference, servicetest.Effect(key).OperationID())
	}
	body := fmt.Sprintf(`{"data":{"reference":%q,"id":%q,"status":%q}}`, reference, e.external, e.status)
	status, code := b.post(delivery{id: e.id, body: body})
	require.Equal(b.t, http.StatusNoContent, status, code)
}

func (b *bench) apply() {
	b.t.Helper()
	_, err := b.applyEvents(b.t.Context())
	require.NoError(b.t, err)
}

// later makes what waits due, as if the time had passed.
func (b *bench) later(id string, age time.Duration) (state, detail string) {
	b.t.Helper()
	b.Exec(`update provider_events set next_at = clock_timestamp(), received_at = received_at - $2::interval where provider_event_id = $1`,
		id, age)
	b.apply()
	return b.eventState(id)
}

func (b *bench) eventState(id string) (state, detail string) {
	b.t.Helper()
	return b.Text(`select state from provider_events where provider_event_id = $1`, id),
		b.Text(`select coalesce(detail, '') from provider_events where provider_event_id = $1`, id)
}

// accepted is an attempt that the provider accepted and finishes later.
func (b *bench) accepted(key string) {
	b.t.Helper()
	e := b.lease(key)
	b.write(e)
	b.report(e, ledger.Settlement{Move: "accept", MaybeSent: true, NextCheck: outcome.AcceptedDeadline}, outcome.Accepted)
}

// reconciled makes a move that lookups lead to.
func (b *bench) reconciled(key string, s ledger.Settlement) {
	b.t.Helper()
	s.EffectKey = servicetest.Effect(key)
	b.Settle(b.World.Reconciler, "record_lookups", s)
}

func (b *bench) dispute(key string) {
	b.t.Helper()
	b.Settle(b.Operator, "resolve", ledger.Settlement{EffectKey: servicetest.Effect(key), Move: "dispute",
		HoldReason: ledger.HoldDisputed, Actor: "ann"})
}

// TestProviderEvents is R4: each state of an effect with each thing that its provider can tell.
func TestProviderEvents(t *testing.T) {
	t.Parallel()
	world := setup(t)
	ids := 0
	run := func(name string, test func(b *bench, key, id string)) {
		t.Run(name, func(t *testing.T) { // one after the other: whatever is due is applied
			b := world.forCase(t)
			b.Exec(`update provider_events set next_at = 'infinity'`)
			b.Authorize(b.Refund(name))
			ids++
			test(b, name, fmt.Sprintf("evt_%d", ids))
		})
	}
	completedOnce := func(b *bench, key, by string) {
		b.t.Helper()
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectCompleted, e.State)
		require.Equal(b.t, ledger.OutcomeExecuted, b.World.Run(key).Outcome)
		require.Equal(b.t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and to_state = 'completed' and move = $2`,
			e.RunID, by))
		require.Equal(b.t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.completed'`, e.RunID))
		require.LessOrEqual(b.t, len(b.Writes(key)), 1)
	}
	stays := func(b *bench, key, state, hold string) {
		b.t.Helper()
		e := b.Look(key)
		require.Equal(b.t, []string{state, hold}, []string{e.State, e.HoldReason})
	}
	alerted := func(b *bench, id string) {
		b.t.Helper()
		require.Contains(b.t, fmt.Sprint(b.Logs.Errors()), "event="+id+" ")
	}

	run("SuccessCompletesWhatWasAccepted", func(b *bench, key, id string) {
		b.accepted(key)
		state, _ := b.hear(key, told{id: id, status: "succeeded", external: "re_7"})
		require.Equal(b.t, "applied", state)
		completedOnce(b, key, "report_success")
		require.Equal(b.t, "re_7", b.Look(key).ExternalID)
		require.Equal(b.t, id, b.Text(`select detail->>'provider_event' from audit_events where run_id = $1 and move = 'report_success'`,
			servicetest.Effect(key).RunID))
	})

	run("SuccessCompletesWhatIsUnknownByTheProvidersOwnIDAlone", func(b *bench, key, id string) {
		b.lost(key, true)
		external := b.Writes(key)[0].ObjectID
		b.Exec(`update effects set external_id = $2 where run_id = $1`, servicetest.Effect(key).RunID, external)
		state, _ := b.hear(key, told{id: id, status: "succeeded", external: external, reference: "-"})
		require.Equal(b.t, "applied", state)
		completedOnce(b, key, "report_success")
	})

	run("SuccessCompletesWhatWaitsToBeSentAgain", func(b *bench, key, id string) {
		b.lost(key, true)
		b.reconciled(key, ledger.Settlement{Move: "retry_same_key", MaybeSent: true})
		b.hear(key, told{id: id, status: "succeeded"})
		completedOnce(b, key, "report_success")
	})

	run("SuccessCompletesWhatAHastyLookupHadProvenAbsent", func(b *bench, key, id string) {
		b.lost(key, true)
		b.reconciled(key, ledger.Settlement{Move: "prove_absent"})
		require.False(b.t, b.Look(key).MaybeSent)
		b.hear(key, told{id: id, status: "succeeded"})
		completedOnce(b, key, "report_success")
	})

	run("SuccessOfWhatWasNeverSentIsHeldForAnOperator", func(b *bench, key, id string) {
		state, _ := b.hear(key, told{id: id, status: "succeeded"})
		require.Equal(b.t, "applied", state)
		stays(b, key, ledger.EffectHeld, ledger.HoldIncident)
		alerted(b, id)
		require.Empty(b.t, b.Writes(key))
	})

	run("SuccessCompletesWhatIsHeldAsExhausted", func(b *bench, key, id string) {
		b.lost(key, true)
		b.reconciled(key, ledger.Settlement{Move: "exhaust", HoldReason: ledger.HoldExhausted})
		b.hear(key, told{id: id, status: "succeeded"})
		completedOnce(b, key, "report_success")
	})

	run("SuccessDoesNotEndAnIncident", func(b *bench, key, id string) {
		b.lost(key, true)
		b.reconciled(key, ledger.Settlement{Move: "incident", HoldReason: ledger.HoldIncident})
		state, _ := b.hear(key, told{id: id, status: "succeeded"})
		require.Equal(b.t, "ignored", state)
		stays(b, key, ledger.EffectHeld, ledger.HoldIncident)
		alerted(b, id)
	})

	run("SuccessWhileItIsBeingSentWaitsForTheSender", func(b *bench, key, id string) { // REC-01
		e := b.lease(key)
		result := b.write(e)
		state, _ := b.hear(key, told{id: id, status: "succeeded", external: result.ExternalID})
		require.Equal(b.t, "waiting", state)
		stays(b, key, ledger.EffectSending, "")
		b.report(e, ledger.Settlement{Move: "lose", MaybeSent: true}, outcome.Ambiguous)
		state, _ = b.later(id, 0)
		require.Equal(b.t, "applied", state)
		completedOnce(b, key, "report_success")
	})

	run("FailureEndsWhatWasAccepted", func(b *bench, key, id string) {
		b.accepted(key)
		state, _ := b.hear(key, told{id: id, status: "canceled"})
		require.Equal(b.t, "applied", state)
		stays(b, key, ledger.EffectFailed, "")
		run := b.World.Run(key)
		require.Equal(b.t, []string{ledger.RunFailedTerminal, ledger.OutcomeFailed}, []string{run.State, run.Outcome})
		require.Contains(b.t, run.OutcomeReason, "reported canceled in event "+id)
		require.Equal(b.t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.ended'`, run.RunID))
	})

	run("FailureOfWhatIsUnknownHasItLookedUpAtOnce", func(b *bench, key, id string) { // D6
		b.lost(key, true)
		b.Exec(`update effects set next_check_at = clock_timestamp() + interval '1 hour' where run_id = $1`, servicetest.Effect(key).RunID)
		state, _ := b.hear(key, told{id: id, status: "failed"})
		require.Equal(b.t, "applied", state)
		stays(b, key, ledger.EffectUnknown, "")
		require.Equal(b.t, 1, b.Count(`select count(*) from effects where run_id = $1 and next_check_at <= clock_timestamp()`,
			servicetest.Effect(key).RunID))
		b.look()
		completedOnce(b, key, "find")
	})

	run("FailureOfWhatWaitsToBeSentAgainProvesNothing", func(b *bench, key, id string) {
		b.lost(key, true)
		b.reconciled(key, ledger.Settlement{Move: "retry_same_key", MaybeSent: true})
		state, detail := b.hear(key, told{id: id, status: "failed"})
		require.Equal(b.t, "ignored", state)
		require.Contains(b.t, detail, "proves nothing")
		stays(b, key, ledger.EffectPending, "")
	})

	run("FailureAfterSuccessMovesNothingBack", func(b *bench, key, id string) { // REC-02
		b.accepted(key)
		b.hear(key, told{id: id, status: "succeeded"})
		state, _ := b.hear(key, told{id: id + "-2", status: "failed"})
		require.Equal(b.t, "ignored", state)
		completedOnce(b, key, "report_success")
		alerted(b, id+"-2")
	})

	run("SuccessAfterFailureRevivesNothing", func(b *bench, key, id string) {
		b.accepted(key)
		b.hear(key, told{id: id, status: "failed"})
		state, detail := b.hear(key, told{id: id + "-2", status: "succeeded"})
		require.Equal(b.t, "ignored", state)
		require.Contains(b.t, detail, "the effect is failed")
		stays(b, key, ledger.EffectFailed, "")
		alerted(b, id+"-2")
	})

	// In all orders, each twice, two at a time, over two replicas: the end is the same.
	for n, order := range [][]string{{"processing", "succeeded", "refunded"}, {"processing", "refunded", "succeeded"},
		{"succeeded", "processing", "refunded"}, {"succeeded", "refunded", "processing"}, {"refunded", "processing", "succeeded"},
		{"refunded", "succeeded", "processing"}} {
		run(fmt.Sprint("InWhicheverOrderTheEndIsTheSame_", n), func(b *bench, key, id string) { // REC-02
			b.accepted(key)
			other := b.forCase(b.t)
			for _, status := range order {
				for range 2 {
					var two sync.WaitGroup
					for _, replica := range []*bench{b, other} {
						two.Go(func() {
							replica.deliver(key, told{id: id + status, status: status, external: "re_6"})
							replica.apply()
						})
					}
					two.Wait()
				}
			}
			b.Eventually(func() bool {
				b.Exec(`update provider_events set next_at = clock_timestamp() where state = 'waiting'`)
				b.apply()
				return b.Count(`select count(*) from provider_events where provider_event_id like $1 and state in ('applied', 'ignored')`,
					id+"%") == len(order)
			}, "all events are settled")
			completedOnce(b, key, "report_success")
			require.Equal(b.t, "re_6", b.Look(key).ExternalID)
			require.Equal(b.t, 1, b.Count(`select count(*) from provider_events where provider_event_id like $1 and state = 'applied'`, id+"%"))
		})
	}

	run("SuccessAfterSuccessIsIgnored", func(b *bench, key, id string) {
		b.accepted(key)
		b.hear(key, told{id: id, status: "succeeded"})
		state, detail := b.hear(key, told{id: id + "-2", status: "succeeded"})
		require.Equal(b.t, []string{"ignored", "it is completed already"}, []string{state, detail})
		completedOnce(b, key, "report_success")
	})

	run("AnotherObjectThanTheKnownOneIsAContradiction", func(b *bench, key, id string) {
		b.accepted(key)
		b.Exec(`update effects set external_id = 're_known' where run_id = $1`, servicetest.Effect(key).RunID)
		state, detail := b.hear(key, told{id: id, status: "succeeded", external: "re_other"})
		require.Equal(b.t, []string{"ignored", "it is about re_other, and the effect is known as re_known"}, []string{state, detail})
		stays(b, key, ledger.EffectAccepted, "")
		alerted(b, id)
	})

	for _, status := range []string{"succeeded", "failed", "pending"} {
		run("ADisputedEffectIsNotRevivedBy_"+status, func(b *bench, key, id string) {
			b.accepted(key)
			b.dispute(key)
			state, _ := b.hear(key, told{id: id, status: status})
			require.Equal(b.t, "ignored", state)
			stays(b, key, ledger.EffectHeld, ledger.HoldDisputed)
		})
	}

	run("WhatIsDisputedWhileItIsAppliedIsNotRevived", func(b *bench, key, id string) {
		b.accepted(key)
		b.deliver(key, told{id: id, status: "succeeded"})
		e := b.Look(key)
		b.dispute(key)
		s := ledger.Settlement{EffectKey: e.EffectKey, Move: "report_success", MaybeSent: true, ProviderEvent: id, RunKey: e.RunKey,
			CorrelationID: e.CorrelationID}
		moved, err := b.store(b.t.Context(), "apply_provider_events", []ledger.Settlement{s})
		require.NoError(b.t, err)
		require.Equal(b.t, []bool{false}, moved)
		stays(b, key, ledger.EffectHeld, ledger.HoldDisputed)
	})

	run("WhatIsNotFinalMovesNothing", func(b *bench, key, id string) {
		b.accepted(key)
		state, _ := b.hear(key, told{id: id, status: "processing"})
		require.Equal(b.t, "ignored", state)
		stays(b, key, ledger.EffectAccepted, "")
	})

	run("AboutNothingThatIsKnownIsKeptAndLookedAtAgain", func(b *bench, key, id string) {
		e := told{id: id, status: "succeeded", reference: "-", external: "re_early"}
		state, _ := b.hear(key, e)
		require.Equal(b.t, "unmatched", state)
		n, err := b.World.Reconciler.UnmatchedProviderEvents(b.t.Context())
		require.NoError(b.t, err)
		require.Positive(b.t, n)
		require.NotContains(b.t, fmt.Sprint(b.Logs.Errors()), "event="+id+" ")
		b.later(id, 2*time.Minute)
		alerted(b, id)
		// Our own record of the answer comes late.
		b.lost(key, true)
		b.Exec(`update effects set external_id = 're_early' where run_id = $1`, servicetest.Effect(key).RunID)
		state, _ = b.later(id, 0)
		require.Equal(b.t, "applied", state)
		completedOnce(b, key, "report_success")
	})

	run("AboutNothingForADayIsLeftToAnOperator", func(b *bench, key, id string) {
		b.hear(key, told{id: id, status: "succeeded", reference: "of somebody else"})
		b.later(id, 24*time.Hour)
		require.Equal(b.t, 1, b.Count(`select count(*) from provider_events where provider_event_id = $1 and state = 'unmatched'
  and next_at > clock_timestamp() + interval '1 year'`, id))
		stays(b, key, ledger.EffectPending, "")
	})

	run("AnotherConnectorsOperationIsNotItsBusiness", func(b *bench, key, id string) {
		b.Authorize(b.Contact(key + "-crm"))
		b.lost(key+"-crm", true)
		state, _ := b.hear(key+"-crm", told{id: id, status: "succeeded"})
		require.Equal(b.t, "unmatched", state)
		stays(b, key+"-crm", ledger.EffectUnknown, "")
	})

	run("SeveralEffectsWithItsIDAreAmbiguous", func(b *bench, key, id string) {
		b.Authorize(b.Refund(key + "-2"))
		for _, k := range []string{key, key + "-2"} {
			b.lost(k, true)
			b.Exec(`update effects set external_id = 're_twice' where run_id = $1`, servicetest.Effect(k).RunID)
		}
		state, detail := b.hear(key, told{id: id, status: "succeeded", reference: "-", external: "re_twice"})
		require.Equal(b.t, []string{"unmatched", "several effects have its external id"}, []string{state, detail})
		alerted(b, id)
	})

	run("ExplainTellsOfIt", func(b *bench, key, id string) { // O1
		b.accepted(key)
		b.hear(key, told{id: id, status: "succeeded", external: "re_8"})
		text, err := b.Approval.Explain(b.t.Context(), "demo", servicetest.Effect(key).RunID)
		require.NoError(b.t, err)
		steps, err := ledger.Timeline(text)
		require.NoError(b.t, err)
		var heard []string
		for _, s := range steps {
			if s.What == ledger.StepHear {
				heard = append(heard, s.Actor+" "+string(s.Facts))
			}
		}
		require.Len(b.t, heard, 1)
		require.Contains(b.t, heard[0], servicetest.Payments+` {`)
		require.Contains(b.t, heard[0], `"provider_event":"`+id+`"`)
		require.NotContains(b.t, string(text), "convert_from", "the body is not told")
	})
}

// TestProviderEventsRace: whoever else is settling the same effect, it is completed once.
func TestProviderEventsRace(t *testing.T) {
	t.Parallel()
	const copies = 50
	b := setup(t)
	b.Authorize(b.Refund("accepted"), b.Refund("unknown"), b.Refund("sending"))
	b.accepted("accepted")
	b.lost("unknown", true)
	sending := b.lease("sending")
	result := b.write(sending)
	other := b.forCase(t)
	var all sync.WaitGroup
	for _, key := range []string{"accepted", "unknown", "sending"} {
		for i := range copies {
			all.Go(func() { b.deliver(key, told{id: key + "-" + fmt.Sprint(i%10), status: "succeeded"}) })
		}
	}
	for _, replica := range []*bench{b, other} {
		all.Go(func() {
			for range 20 {
				replica.apply()
				replica.Exec(`update provider_events set next_at = clock_timestamp() where state in ('waiting', 'unmatched')`)
			}
		})
	}
	all.Go(func() {
		b.Exec(`update effects set next_check_at = clock_timestamp() where state = 'unknown'`)
		b.look()
	})
	all.Go(func() {
		b.report(sending, ledger.Settlement{Move: "succeed", MaybeSent: true, ExternalID: result.ExternalID}, outcome.Succeeded)
	})
	all.Wait()
	b.Eventually(func() bool {
		b.Exec(`update provider_events set next_at = clock_timestamp() where state in ('waiting', 'unmatched')`)
		b.apply()
		return b.Count(`select count(*) from provider_events where state in ('applied', 'ignored')`) == 30
	}, "all events are settled")
	for _, key := range []string{"accepted", "unknown", "sending"} {
		run := servicetest.Effect(key).RunID
		require.Equal(t, contracts.StateCompleted, b.World.Run(key).State)
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and to_state = 'completed'`, run), key)
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.completed'`, run), key)
		require.Len(t, b.Writes(key), 1)
	}
}
