package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestDue(t *testing.T) { // R1
	t.Parallel()
	due := func(t *testing.T, b *ledgertest.Bench, states []string, limit int) (keys []ledger.EffectKey) {
		t.Helper()
		open, err := b.Reconciler.Due(t.Context(), []string{target, "other/" + ledgertest.Connector}, states, limit, time.Minute)
		require.NoError(t, err)
		return column(open, func(o ledger.Open) ledger.EffectKey { return o.EffectKey })
	}

	for name, c := range map[string]struct {
		effect string // what is set of it
		states []string
		due    bool
	}{
		"Unknown":                   {`state = 'unknown'`, ledger.Unsettled, true},
		"UnknownBeforeItsTime":      {`state = 'unknown', next_check_at = clock_timestamp() + interval '1 minute'`, ledger.Unsettled, false},
		"Accepted":                  {`state = 'accepted'`, ledger.Unsettled, true},
		"SendingPastItsLease":       {`state = 'sending', lease_owner = gen_random_uuid(), lease_expires_at = clock_timestamp()`, ledger.Unsettled, true},
		"HeldWithAnUnreadOutcome":   {`state = 'held', hold_reason = 'exhausted', unread_outcome = true`, ledger.Unsettled, true},
		"PendingIsTheDispatchers":   {`state = 'pending'`, ledger.Unsettled, false},
		"PendingPastItsExecuteBy":   {`state = 'pending', execute_by = clock_timestamp()`, ledger.Overdue, true},
		"PendingBeforeItsExecuteBy": {`state = 'pending'`, ledger.Overdue, false},
		"Completed":                 {`state = 'completed', open = false`, ledger.Unsettled, false},
		"Failed":                    {`state = 'failed', open = false`, ledger.Unsettled, false},
		"EffectOfAnotherConnector":  {`state = 'unknown', connector = 'another'`, ledger.Unsettled, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ledgertest.New(t)
			effect := b.Approved("k1")[0]
			b.Exec(`update effects set next_check_at = clock_timestamp()`)
			b.Exec(`update effects set ` + c.effect)
			found := due(t, b, c.states, 10)
			if !c.due {
				require.Empty(t, found)
				return
			}
			require.Equal(t, []ledger.EffectKey{effect}, found)
			require.Empty(t, due(t, b, c.states, 10), "it comes again only after the hold")
			require.Equal(t, "60", b.Text(`select round(extract(epoch from next_check_at - clock_timestamp()))::text from effects`))
		})
	}

	t.Run("LeaseIsLookedAtWhenItHasEnded", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Lease(time.Hour, b.Approved("k1")...)
		require.Empty(t, due(t, b, ledger.Unsettled, 10))
		require.Equal(t, "0", b.Text(`select extract(epoch from next_check_at - lease_expires_at)::int::text from effects`))
	})

	t.Run("TwoReconcilersNeverTakeTheSame", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		keys := make([]string, 60)
		for i := range keys {
			keys[i] = uuid.NewString()
		}
		b.Approved(keys...)
		b.Exec(`update effects set state = 'unknown', next_check_at = clock_timestamp()`)
		taken := make(chan ledger.EffectKey, 1000)
		var group errgroup.Group
		for range 8 {
			l := b.Replica(ledger.Reconciler)
			group.Go(func() error {
				open, err := l.Due(t.Context(), []string{target}, ledger.Unsettled, 10, time.Hour)
				for _, o := range open {
					taken <- o.EffectKey
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		close(taken)
		seen := map[ledger.EffectKey]int{}
		for e := range taken {
			seen[e]++
			require.Equal(t, 1, seen[e])
		}
		require.NotEmpty(t, seen)
	})

	t.Run("LimitIsForEachConnectorAndState", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Approved("k1", "k2", "k3")
		b.Exec(`update effects set state = 'unknown', next_check_at = clock_timestamp()`)
		require.Len(t, due(t, b, ledger.Unsettled, 2), 2)
		require.Len(t, due(t, b, ledger.Unsettled, 2), 1)
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	e := b.Lease(time.Minute, b.Approved("k1")...)[0]
	open := func() ledger.Open {
		t.Helper()
		all, err := b.Reconciler.Open(t.Context(), []ledger.EffectKey{e.EffectKey, {TenantID: ledgertest.Tenant, RunID: uuid.New(), Revision: 1, Ordinal: 1}})
		require.NoError(t, err)
		require.Len(t, all, 1, "what does not exist is missing")
		return all[0]
	}
	sent := open()
	require.Equal(t, ledger.EffectSending, sent.State)
	require.Equal(t, e.Owner, sent.Owner)
	require.False(t, sent.LeaseOver)
	require.True(t, sent.Silent, "the attempt has not reported")
	require.Empty(t, sent.LastClass)
	require.Equal(t, e.Canonical, sent.Canonical)
	require.Equal(t, "k1", sent.RunKey)

	b.Exec(`update effects set lease_expires_at = clock_timestamp()`)
	require.True(t, open().LeaseOver)

	s := succeed(e, "ext-1")
	s.Move, s.Outcome.Class = "lose", "ambiguous"
	_, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
	require.NoError(t, err)
	unknown := open()
	require.Equal(t, []string{ledger.EffectUnknown, "ambiguous", "ambiguous", "ext-1"},
		[]string{unknown.State, unknown.LastClass, unknown.ReportedClass, unknown.ExternalID})
	require.False(t, unknown.Silent)
	require.True(t, unknown.MaybeSent)
	require.NotZero(t, unknown.UnknownSince)
	require.NotZero(t, unknown.FirstSentAt)
	require.Equal(t, unknown.FirstSentAt, unknown.LastAttempt)
}

func TestClearUnread(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	effects := b.Approved("k1", "k2")
	b.Exec(`update effects set unread_outcome = true`)
	require.Empty(t, b.Lease(time.Minute, effects...))
	require.NoError(t, b.Reconciler.ClearUnread(t.Context(), effects[:1]))
	b.Exec(`update effects set next_check_at = clock_timestamp()`)
	leased := b.Lease(time.Minute, effects...)
	require.Len(t, leased, 1)
	require.Equal(t, effects[0], leased[0].EffectKey)
}
