package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestRestored is D17: a database that went back in time is found out, gives out nothing until it knows that, and then sends nothing that
// was not looked for.
func TestRestored(t *testing.T) {
	t.Parallel()
	leased := func(t *testing.T, b *ledgertest.Bench, heard int64, effects ...ledger.EffectKey) []ledger.Leased {
		t.Helper()
		b.Exec(`update effects set next_check_at = clock_timestamp()`)
		got, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Requested: effects,
			Free: map[string]int{target: 10}, Heard: heard})
		require.NoError(t, err)
		return got
	}

	t.Run("TheMarkOnlyGrows", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		first, err := b.Relay.NextMark(t.Context())
		require.NoError(t, err)
		second, err := b.Relay.NextMark(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Seq+1, second.Seq)
		for _, heard := range []ledger.Mark{{}, first, second} {
			restored, err := b.Relay.Restored(t.Context(), heard, time.Hour)
			require.NoError(t, err)
			require.False(t, restored)
		}
		require.Zero(t, b.Count(`select count(*) from restores`))
	})

	t.Run("FoundOutByManyItIsDeclaredOnce", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Exec(`update database_mark set seq = 5, marked_at = clock_timestamp() - interval '10 hours'`)
		var all sync.WaitGroup
		found := make(chan bool, 20)
		for range 20 {
			all.Go(func() {
				restored, err := b.Relay.Restored(t.Context(), ledger.Mark{Seq: 9, At: time.Now()}, 24*time.Hour)
				if err != nil {
					t.Error(err)
				}
				found <- restored
			})
		}
		all.Wait()
		close(found)
		n := 0
		for restored := range found {
			if restored {
				n++
			}
		}
		require.Equal(t, 1, n)
		require.Equal(t, 10, b.Count(`select seq from database_mark`), "above all that the bus has heard of")
		restores, err := b.Operator.Restores(t.Context(), false)
		require.NoError(t, err)
		require.Len(t, restores, 1)
		require.InDelta(t, 34*time.Hour, restores[0].EndsAt.Sub(restores[0].DetectedAt), float64(time.Minute),
			"the backup's age and the key window")
		require.InDelta(t, 10*time.Hour, restores[0].DetectedAt.Sub(restores[0].BackupAt), float64(time.Minute))
		require.True(t, restores[0].Stands(time.Now()))
	})

	t.Run("ADatabaseThatIsBehindGivesOutNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.Approved("k")
		b.Exec(`update database_mark set seq = 5`)
		require.Empty(t, leased(t, b, 6, effects...))
		require.Len(t, leased(t, b, 5, effects...), 1)
	})

	t.Run("EverythingIsLookedForBeforeItIsSent", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		old := b.Approved("old")[0]
		id := uuid.New()
		require.NoError(t, b.Operator.DeclareRestore(t.Context(), id, time.Now().Add(-time.Hour), time.Hour, "olga", "the disk was lost"))
		require.NoError(t, b.Operator.DeclareRestore(t.Context(), id, time.Now().Add(-time.Hour), time.Hour, "olga", "the disk was lost"))
		fresh := b.Approved("fresh")[0]
		require.Empty(t, leased(t, b, 0, old, fresh))
		require.Equal(t, 2, b.Count(`select count(*) from effects where state = 'unknown' and maybe_sent and attempts = 0 and restore_id = $1
  and first_sent_at < clock_timestamp() - interval '59 minutes'`, id))
		require.Equal(t, 2, b.Count(`select count(*) from audit_events where move = 'doubt' and detail->>'restore_id' = $1`, id.String()))
		// Proven absent, it is sent as if for the first time.
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: fresh, Move: "prove_absent",
			Looked: &ledger.Looked{Verdict: "absent", Conclusive: true, Evidence: "0 of 0 match"}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		again := leased(t, b, 0, fresh)
		require.Len(t, again, 1)
		require.False(t, again[0].MaybeSent)
		restores, err := b.Operator.Restores(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, []int{1, 0, 1, 0, 0}, []int{restores[0].Unknown, restores[0].Done, restores[0].Absent, restores[0].Held,
			restores[0].Unasked})
	})

	t.Run("LiftedOrOverItAsksForNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		id := uuid.New()
		require.NoError(t, b.Operator.DeclareRestore(t.Context(), id, time.Now().Add(-time.Hour), time.Hour, "olga", "the disk was lost"))
		require.Error(t, b.Operator.LiftRestore(t.Context(), id, "", ""))
		require.NoError(t, b.Operator.LiftRestore(t.Context(), id, "olga", "all is settled"))
		require.ErrorIs(t, b.Operator.LiftRestore(t.Context(), id, "olga", "again"), ledger.ErrNoRestore)
		require.Len(t, leased(t, b, 0, b.Approved("k")...), 1)
		require.NoError(t, b.Operator.DeclareRestore(t.Context(), uuid.New(), time.Now().Add(-time.Minute), -2*time.Minute, "olga", "long ago"))
		require.Len(t, leased(t, b, 0, b.Approved("other")...), 1)
		ended, err := b.Operator.Restores(t.Context(), true)
		require.NoError(t, err)
		require.Len(t, ended, 2)
	})
}
