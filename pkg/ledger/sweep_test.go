package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestSweep(t *testing.T) { // B4
	t.Parallel()
	sweep := func(t *testing.T, b *ledgertest.Bench, limit int) int {
		t.Helper()
		queued, err := b.Relay.Sweep(t.Context(), limit)
		require.NoError(t, err)
		return queued
	}
	// lost is a run whose event the broker has acknowledged and lost.
	lost := func(b *ledgertest.Bench, keys ...string) {
		for _, key := range keys {
			b.Claim(ledgertest.Proposal(key))
		}
		b.Exec(`delete from pending`)
	}
	overdue := func(b *ledgertest.Bench) {
		b.Exec(`update runs set next_check_at = clock_timestamp() where next_check_at is not null`)
	}

	t.Run("UndecidedRunIsToldAgainAsANewEvent", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1")
		require.Equal(t, 0, sweep(t, b, 10), "not before its time")
		overdue(b)
		require.Equal(t, 1, sweep(t, b, 10))
		run := ledger.RunID(ledgertest.Tenant, "k1")
		require.Equal(t, 2, eventsOf(b, run, contracts.TypeIntentSubmitted))
		require.Equal(t, 1, b.Count(`select count(*) from pending join event_log using (event_id)
where run_id = $1 and stream = 'HOLDPOINT_INTERNAL' and convert_from(payload, 'UTF8')::json->'data'->>'intent_hash' = $2`,
			run, ledgertest.Intent("k1", "c-k1").Hash.String()))
	})

	t.Run("EachTimeItWaitsTwiceAsLong", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1")
		for _, seconds := range []string{"10", "20", "40", "80", "160", "320", "600", "600"} {
			overdue(b)
			require.Equal(t, 1, sweep(t, b, 10))
			require.Equal(t, seconds, b.Text(`select round(extract(epoch from next_check_at - clock_timestamp()))::text from runs`))
			b.Exec(`delete from pending`)
		}
	})

	t.Run("RunWhoseEventStillWaitsIsNotToldAgain", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1")
		b.Claim(ledgertest.Proposal("k2"))
		overdue(b)
		require.Equal(t, 1, sweep(t, b, 10))
		require.Equal(t, 1, eventsOf(b, ledger.RunID(ledgertest.Tenant, "k2"), contracts.TypeIntentSubmitted))
	})

	t.Run("RunThatHasMovedIsNotLookedAtAgain", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1", "k2")
		b.Decide(config.RouteHumanReview, ledgertest.Proposal("k1"))
		b.Exec(`delete from pending`)
		overdue(b)
		require.Equal(t, 1, sweep(t, b, 10))
		require.Equal(t, ledger.RunAwaitingHuman+" ", b.Text(`select state || ' ' || coalesce(next_check_at::text, '') from runs where idempotency_key = 'k1'`))
		require.Equal(t, 2, eventsOf(b, ledger.RunID(ledgertest.Tenant, "k2"), contracts.TypeIntentSubmitted))
	})

	t.Run("RunOfAWorkerIsNotSwept", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		o := owning(b, "k1")
		b.Exec(`delete from pending`)
		require.Equal(t, 0, b.Count(`select count(*) from runs where next_check_at is not null`))
		o.Submit = ledgertest.Intent("k1", "c-1")
		own(t, b, o)
		b.Exec(`delete from pending`)
		overdue(b)
		require.Equal(t, 1, sweep(t, b, 10), "but from its submission on")
	})

	t.Run("NoMoreAreToldThanAsked", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1", "k2", "k3")
		overdue(b)
		require.Equal(t, 2, sweep(t, b, 2))
		require.Equal(t, 1, sweep(t, b, 2))
	})

	t.Run("NothingIsAddedToAnOutboxThatIsFarBehind", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1")
		overdue(b)
		b.Exec(`insert into pending (event_id) select gen_random_uuid() from generate_series(1, 5000)`)
		require.Equal(t, 0, sweep(t, b, 10))
	})

	t.Run("ReplicasDoNotWaitForEachOther", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		lost(b, "k1", "k2")
		overdue(b)
		holder, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		defer holder.Rollback(t.Context())
		_, err = holder.Exec(t.Context(), `select from runs where idempotency_key = 'k1' for update`)
		require.NoError(t, err)
		start := time.Now()
		require.Equal(t, 1, sweep(t, b, 10))
		require.Less(t, time.Since(start), 4*time.Second, "less than the patience for a lock")
	})
}
