package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// held decides that a run's effect is sent after a window.
func held(t *testing.T, b *ledgertest.Bench, key string, window time.Duration) ledger.EffectKey {
	t.Helper()
	b.Claim(ledgertest.Proposal(key))
	d := ledgertest.Decision(undecided(t, b, key), newID(), config.RouteAuto)
	d.Window = window
	decide(t, b.Policy, d)
	return effectOf(key)
}

func wish(key string) ledger.TakeBack {
	return ledger.TakeBack{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, key), By: "rita", Reason: "a mistake"}
}

func takeBack(t *testing.T, b *ledgertest.Bench, key string) ledger.TakenBack {
	t.Helper()
	done, err := b.Approval.TakeBack(t.Context(), wish(key))
	require.NoError(t, err)
	return done
}

func TestWindows(t *testing.T) { // D14
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("NothingIsSentBeforeTheWindowIsOverAndTheHoldOutlastsIt", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := held(t, b, "window", time.Hour)
		require.Empty(t, b.Lease(time.Minute, e), "the event that asked for it comes at once")
		b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, e.RunID)
		require.Empty(t, b.Lease(time.Minute, e), "whatever makes it due")
		require.Equal(t, 1, b.Count(`select count(*) from effects where run_id = $1 and not_before = cancel_until + interval '5 seconds'
and execute_by > not_before`, e.RunID))
		b.Exec(`update effects set next_check_at = clock_timestamp(), cancel_until = clock_timestamp() - interval '5 seconds',
not_before = clock_timestamp() where run_id = $1`, e.RunID)
		require.Len(t, b.Lease(time.Minute, e), 1)
	})

	t.Run("WhatIsHeldBackIsListedAsLongAsItIs", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		held(t, b, "listed", time.Hour)
		listed := func() bool {
			list, err := b.Approval.HeldBack(t.Context(), []string{ledgertest.Tenant}, 1000)
			require.NoError(t, err)
			for _, u := range list {
				if u.Key == "listed" {
					require.WithinDuration(t, u.Now.Add(time.Hour), *u.CancelUntil, time.Minute)
					require.True(t, u.Open())
					return true
				}
			}
			return false
		}
		require.True(t, listed())
		takeBack(t, b, "listed")
		require.False(t, listed())
	})

	t.Run("WhatWasTakenBackIsNeverSentAndTheRunEnds", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := held(t, b, "back", time.Hour)
		require.True(t, takeBack(t, b, "back").Done)
		require.True(t, takeBack(t, b, "back").Done, "the same wish again is the same answer")
		b.Exec(`update effects set next_check_at = clock_timestamp(), cancel_until = clock_timestamp() - interval '5 seconds',
not_before = clock_timestamp() where run_id = $1`, e.RunID)
		require.Empty(t, b.Lease(time.Minute, e))
		run := b.Run("back")
		require.Equal(t, []string{ledger.RunFailedTerminal, ledger.OutcomeRejected}, []string{run.State, run.Outcome})
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'take_back' and run_id = $1`, e.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1
and convert_from(payload, 'UTF8')::json->>'type' = $2`, e.RunID, contracts.TypeRunEnded))
		other := wish("back")
		other.By = "nora"
		done, err := b.Approval.TakeBack(t.Context(), other)
		require.NoError(t, err)
		require.False(t, done.Done)
		require.Contains(t, done.OutcomeReason, "Taken back by rita")
	})

	t.Run("WhatMayHaveBeenSentCannotBeTakenBack", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		for i, c := range []struct{ set, state string }{
			{"state = 'sending', lease_owner = gen_random_uuid(), lease_expires_at = clock_timestamp() + interval '1 minute'", "sending"},
			{"maybe_sent = true, first_sent_at = clock_timestamp()", "pending"},
			{"unread_outcome = true", "pending"},
			{"state = 'unknown'", "unknown"},
			{"state = 'accepted'", "accepted"},
			{"state = 'held', hold_reason = 'exhausted'", "held"},
			{"state = 'completed', open = false", "completed"},
		} {
			key := fmt.Sprintf("sent-%d", i)
			e := held(t, b, key, time.Hour)
			b.Exec(`update effects set `+c.set+` where run_id = $1`, e.RunID)
			done := takeBack(t, b, key)
			require.False(t, done.Done, c.set)
			require.Equal(t, c.state, done.Effect.State, "the answer says what is known")
			require.Equal(t, ledger.RunApproved, b.Run(key).State, c.set)
		}
	})

	t.Run("OfTakingBackAndSendingExactlyOneHappens", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		const races = 60
		for i := range races {
			held(t, b, fmt.Sprintf("race-%d", i), time.Hour)
		}
		b.Exec(`update effects set next_check_at = clock_timestamp(), cancel_until = clock_timestamp() - interval '5 seconds',
not_before = clock_timestamp() where run_id in (select run_id from runs where idempotency_key like 'race-%')`)
		var all sync.WaitGroup
		taken, leased := make([]bool, races), make([]bool, races)
		for i := range races {
			key := fmt.Sprintf("race-%d", i)
			all.Go(func() {
				got, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
					Requested: []ledger.EffectKey{effectOf(key)}, Free: map[string]int{ledgertest.Tenant + "/" + ledgertest.Connector: 1}})
				if err != nil {
					t.Error(err)
				}
				leased[i] = len(got) == 1
			})
			all.Go(func() {
				done, err := b.Approval.TakeBack(t.Context(), wish(key))
				if err != nil {
					t.Error(err)
				}
				taken[i] = done.Done
			})
		}
		all.Wait()
		for i := range races {
			require.False(t, taken[i] && leased[i], "run %d was sent and taken back", i)
			require.True(t, taken[i] || leased[i] || b.Text(`select state from effects where run_id = $1`,
				effectOf(fmt.Sprintf("race-%d", i)).RunID) == "pending")
		}
	})

	t.Run("OnlyAnApprovedRunIsTakenBack", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		asked := b.Asked("waits")[0]
		require.False(t, takeBack(t, b, "waits").Done)
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("waits").State)
		b.Vote(asked.Vote("nora", ledger.Approve))
		require.True(t, takeBack(t, b, "waits").Done, "what people approved can be taken back as long as it was not sent")
		_, err := b.Approval.TakeBack(t.Context(), wish("nobody"))
		require.ErrorIs(t, err, ledger.ErrNoRun)
	})
}
