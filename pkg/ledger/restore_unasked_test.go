package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func restoredNow(t *testing.T, b *ledgertest.Bench) {
	t.Helper()
	require.NoError(t, b.Operator.DeclareRestore(t.Context(), uuid.New(), time.Now().Add(-time.Hour), time.Hour, "olga", "the disk was lost"))
}

// lookedFor settles an unknown effect by what was read of it.
func lookedFor(t *testing.T, b *ledgertest.Bench, key ledger.EffectKey, move string) {
	t.Helper()
	s := ledger.Settlement{EffectKey: key, Move: move, NextCheck: 0, CorrelationID: "c", RunKey: "k",
		Looked: &ledger.Looked{Verdict: "absent", Conclusive: true, Evidence: "0 of 0 match"}}
	if move == "find" {
		s.ExternalID, s.MaybeSent, s.Looked = "found", true, &ledger.Looked{Verdict: "found", Conclusive: true, ExternalID: "found", Evidence: "it is there"}
	}
	reconciled(t, b, s)
}

// TestWhatARestoredDatabaseDoesNotKnow is D17 for what would end unsent: in a database that was put back, that an effect waits does not
// say that it was not sent.
func TestWhatARestoredDatabaseDoesNotKnow(t *testing.T) {
	t.Parallel()

	t.Run("WhatWaitsForItsStageIsLookedForWhenTheEarlierFails", func(t *testing.T) {
		t.Parallel()
		for move, want := range map[string][]string{
			"find":           {"failed completed", ledger.RunCompleted, ledger.OutcomePartial},
			"prove_absent":   {"failed cancelled", ledger.RunFailedTerminal, ledger.OutcomeFailed},
			"retry_same_key": {"failed held", ledger.RunApproved, ""},
		} {
			b := ledgertest.New(t)
			effects := b.ApprovedStages("k", 1, 2)
			sending := b.Lease(time.Minute, effects...)
			require.Len(t, sending, 1)
			restoredNow(t, b)
			settled(t, b, failing(sending[0]))
			require.Equal(t, "failed pending", states(b, "k"), "it may have been sent before the database was put back")
			require.Empty(t, b.Lease(time.Minute, effects[1]))
			require.Equal(t, "failed unknown", states(b, "k"))
			require.Equal(t, ledger.RunApproved, b.Run("k").State)
			lookedFor(t, b, effects[1], move)
			run := b.Run("k")
			require.Equal(t, want, []string{states(b, "k"), run.State, run.Outcome}, move)
			if move == "retry_same_key" {
				require.Equal(t, 1, b.Count(`select count(*) from effects where hold_reason = 'exhausted' and maybe_sent and open`))
				require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'exhaust' and detail->>'note' like '%may have been sent%'`))
			}
		}
	})

	t.Run("WhatWaitsForItsStageIsLookedForWithoutWaiting", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.ApprovedStages("k", 1, 2)
		restoredNow(t, b)
		require.Empty(t, b.Lease(time.Minute, effects...))
		require.Equal(t, "unknown unknown", states(b, "k"))
		lookedFor(t, b, effects[1], "prove_absent")
		require.Empty(t, b.Lease(time.Minute, effects...), "its stage has not come")
		lookedFor(t, b, effects[0], "find")
		require.Len(t, b.Lease(time.Minute, effects...), 1)
	})

	t.Run("ItIsTakenBackOnlyWhereItWasNotFound", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		one, several := b.Approved("one")[0], b.ApprovedStages("several", 1, 2)
		restoredNow(t, b)
		for key, effects := range map[string][]ledger.EffectKey{"one": {one}, "several": several} {
			back := takeBack(t, b, key)
			require.False(t, back.Done)
			require.True(t, back.MaybeSent)
			require.Equal(t, ledger.EffectPending, back.Effect.State)
			require.Nil(t, back.FirstSentAt)
			require.Empty(t, b.Lease(time.Minute, effects...))
			for i, e := range effects {
				require.False(t, takeBack(t, b, key).Done)
				require.Equal(t, effects[i].OperationID(), takeBack(t, b, key).Effect.OperationID, "the one in the way is named")
				lookedFor(t, b, e, "prove_absent")
			}
			back = takeBack(t, b, key)
			require.True(t, back.Done)
			require.False(t, back.MaybeSent)
		}
		require.Equal(t, "cancelled cancelled", states(b, "several"))
	})

	t.Run("RejectedItIsAnOperatorsToSettle", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		one := b.Approved("one")[0]
		settled(t, b, returning(b, b.Lease(time.Minute, one)[0]))
		several := b.ApprovedStages("several", 1, 2)
		settled(t, b, returning(b, b.Lease(time.Minute, several...)[0]))
		restoredNow(t, b)
		for _, key := range []string{"one", "several"} {
			require.Equal(t, ledger.VoteRejected, b.Vote(b.Pending(key).Vote("nora", ledger.Reject))[0].Result)
			require.Equal(t, ledger.RunApproved, b.Run(key).State, "the run ends with what is settled")
			require.Empty(t, ends(t, b, key))
		}
		require.Equal(t, 3, b.Count(`select count(*) from effects where state = 'held' and hold_reason = 'incident' and open`))
	})

	t.Run("ApprovedAnewItIsLookedForFirst", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		one := b.Approved("one")[0]
		settled(t, b, returning(b, b.Lease(time.Minute, one)[0]))
		restoredNow(t, b)
		require.Equal(t, ledger.VoteApproved, b.Vote(b.Pending("one").Vote("nora", ledger.Approve))[0].Result)
		require.Empty(t, b.Lease(time.Minute, one))
		require.Equal(t, "unknown", states(b, "one"))
	})

	t.Run("OverOrLiftedItIsKnownAgain", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Approved("one")
		restoredNow(t, b)
		require.False(t, takeBack(t, b, "one").Done)
		b.Exec(`update restores set ends_at = clock_timestamp()`)
		require.True(t, takeBack(t, b, "one").Done)
	})
}

func TestWaitingForAStageTakesNothingFromOthers(t *testing.T) { // D10, D13
	t.Parallel()
	b := ledgertest.New(t)
	connector := ledgertest.Tenant + "/" + ledgertest.Connector
	poll := func(free int) []ledger.Leased {
		leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Due: true,
			Free: map[string]int{connector: free}})
		require.NoError(t, err)
		return leased
	}
	var waiting []ledger.EffectKey
	for _, key := range []string{"a", "b", "c"} {
		effects := b.ApprovedStages(key, 1, 2, 3)
		settled(t, b, losing(b.Lease(time.Minute, effects[0])[0]))
		waiting = append(waiting, effects[1:]...)
	}
	other := b.Approved("other")[0]
	leased := poll(1)
	require.Len(t, leased, 1, "six effects that wait for their stage stand before it")
	require.Equal(t, other, leased[0].EffectKey)
	require.Zero(t, b.Count(`select count(*) from effects where state = 'pending' and next_check_at < clock_timestamp() + interval '50 minutes'`))
	lookedFor(t, b, ledger.EffectKey{TenantID: waiting[0].TenantID, RunID: waiting[0].RunID, Revision: 1, Ordinal: 1}, "find")
	leased = poll(10)
	require.Len(t, leased, 1, "a stage that has come is found by the poll, whoever hears the event")
	require.Equal(t, waiting[0], leased[0].EffectKey)
	settled(t, b, succeed(leased[0], "x"))
	require.Equal(t, waiting[1], poll(10)[0].EffectKey)
}
