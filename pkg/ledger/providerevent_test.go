package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func providerEvent(id, body string) ledger.ProviderEvent {
	return ledger.ProviderEvent{TenantID: ledgertest.Tenant, Connector: ledgertest.Connector, ID: id, Body: []byte(body),
		ExternalID: "ext-1", Status: "done", Verdict: ledger.ProviderSucceeded}
}

// TestProviderEventRows is R4 at the database: an event is stored once under its id, and taken by one.
func TestProviderEventRows(t *testing.T) {
	t.Parallel()

	t.Run("TheFirstUnderAnIDStands", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		receive := func(events ...ledger.ProviderEvent) []string {
			t.Helper()
			results, err := b.Reconciler.ReceiveProviderEvents(t.Context(), events)
			require.NoError(t, err)
			return results
		}
		other := providerEvent("e1", "1")
		other.Connector = "another"
		require.Equal(t, []string{"stored", "repeated", "conflict", "stored", "stored"},
			receive(providerEvent("e1", "1"), providerEvent("e1", "1"), providerEvent("e1", "2"), providerEvent("e2", "1"), other))
		require.Equal(t, []string{"conflict", "repeated", "stored"},
			receive(providerEvent("e1", "2"), providerEvent("e2", "1"), providerEvent("e3", "1")))
		require.Equal(t, 4, b.Count(`select count(*) from provider_events where body = '1'`))
	})

	t.Run("ALostAnswerStoresOnce", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		l, cut := b.Cut(ledger.Reconciler)
		cut.Arm(ledgertest.AfterExecute, 0)
		results, err := l.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{providerEvent("e1", "1")})
		require.NoError(t, err)
		require.True(t, cut.Fired())
		require.Equal(t, []string{ledger.EventRepeated}, results, "it is on disk either way")
		require.Equal(t, 1, b.Count(`select count(*) from provider_events`))
	})

	t.Run("OneTakesItAndAnotherAfterTheHold", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		_, err := b.Reconciler.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{providerEvent("e1", "1")})
		require.NoError(t, err)
		take := func() []ledger.UnappliedEvent {
			t.Helper()
			taken, err := b.Replica(ledger.Reconciler).TakeProviderEvents(t.Context(), 10, time.Minute)
			require.NoError(t, err)
			return taken
		}
		first := take()
		require.Len(t, first, 1)
		require.Equal(t, []any{1, "ext-1", "done", ledger.ProviderSucceeded, 0},
			[]any{first[0].Attempts, first[0].ExternalID, first[0].Status, first[0].Verdict, len(first[0].Matches)})
		require.Empty(t, take())
		b.Exec(`update provider_events set next_at = clock_timestamp()`)
		require.Equal(t, 2, take()[0].Attempts)
		require.NoError(t, b.Reconciler.NoteProviderEvents(t.Context(), []ledger.EventNote{{UnappliedEvent: &first[0],
			State: ledger.EventIgnored, Detail: "of no use\x00", Again: ledger.Never}}))
		b.Exec(`update provider_events set next_at = clock_timestamp()`)
		require.Empty(t, take())
		require.Equal(t, "of no use\uFFFD", b.Text(`select detail from provider_events`))
	})

	t.Run("ItIsAppliedWithTheMoveOrNotAtAll", func(t *testing.T) { // B1
		t.Parallel()
		b := ledgertest.New(t)
		e := b.Lease(time.Minute, b.Approved("k1")...)[0]
		event := providerEvent("e1", "1")
		event.OperationID = e.OperationID()
		_, err := b.Reconciler.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{event})
		require.NoError(t, err)
		apply := func() bool {
			t.Helper()
			moved, err := b.Reconciler.Settle(t.Context(), "apply_provider_events", []ledger.Settlement{{EffectKey: e.EffectKey,
				Move: "report_success", MaybeSent: true, ProviderEvent: "e1", RunKey: "k1", CorrelationID: "corr-k1"}})
			require.NoError(t, err)
			return moved[0]
		}
		require.False(t, apply(), "it is being sent")
		require.Equal(t, "waiting", b.Text(`select state from provider_events`))
		require.True(t, settle(t, b, e, "accept", time.Hour))
		require.True(t, apply())
		require.Equal(t, "applied "+e.RunID.String(), b.Text(`select state || ' ' || run_id from provider_events`))
		require.False(t, apply(), "once")
	})
}
