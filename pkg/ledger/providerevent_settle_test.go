package ledger_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestSettleEvent: what an operator does about an event of which nobody knew what it was about (R4).
func TestSettleEvent(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	const tenant, connector = ledgertest.Tenant, ledgertest.Connector
	body := []byte(`{"who":"Ada"}`)
	// unmatched is an event that was looked at and is about nothing that is known.
	unmatched := func(t *testing.T, id, external string) {
		t.Helper()
		stored, err := b.Reconciler.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{{TenantID: tenant, Connector: connector, ID: id,
			Body: body, ExternalID: external, Status: "done", Verdict: ledger.ProviderSucceeded}})
		require.NoError(t, err)
		require.Equal(t, []string{ledger.EventStored}, stored)
		b.Exec(`update provider_events set state = 'unmatched', attempts = 13, next_at = now() + interval '10 years', detail = 'nothing has its ids'
where provider_event_id = $1`, id)
	}
	settle := func(t *testing.T, id, verb string, command uuid.UUID) ledger.EventChanged {
		t.Helper()
		changed, err := b.Operator.SettleEvent(t.Context(), ledger.EventCommand{CommandID: command, TenantID: tenant, Connector: connector,
			ID: id, Verb: verb, By: "otto", Reason: "Their desk says so."})
		require.NoError(t, err)
		return changed
	}
	state := func(id string) string {
		return b.Text(`select state from provider_events where provider_event_id = $1`, id)
	}

	t.Run("ItIsListedAndReadWithoutItsBody", func(t *testing.T) {
		unmatched(t, "read", "ext-0")
		f := ledger.EventFilter{TenantID: tenant, State: ledger.EventUnmatched, Limit: 10}
		list, err := b.Operator.StoredEvents(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, list, 1)
		sum := sha256.Sum256(body)
		require.Equal(t, []any{"read", len(body), sum[:], "nothing has its ids", "ext-0"},
			[]any{list[0].ID, list[0].Size, list[0].Digest, list[0].Detail, list[0].ExternalID})
		require.Nil(t, list[0].Body)
		require.Nil(t, list[0].Effect)
		for _, none := range []ledger.EventFilter{{TenantID: "another", Limit: 1}, {TenantID: tenant, Connector: "x", Limit: 1},
			{TenantID: tenant, State: ledger.EventIgnored, Limit: 1}, {TenantID: tenant, Since: time.Now().Add(time.Hour), Limit: 1}} {
			list, err := b.Operator.StoredEvents(t.Context(), none)
			require.NoError(t, err)
			require.Empty(t, list)
		}
		sums, err := b.Approval.UnmatchedEvents(t.Context(), []string{tenant})
		require.NoError(t, err)
		require.Equal(t, []any{tenant, connector, 1}, []any{sums[0].TenantID, sums[0].Connector, sums[0].Count})
		_, err = b.Operator.StoredEvent(t.Context(), "another", connector, "read")
		require.ErrorIs(t, err, ledger.ErrNoEvent)
	})

	t.Run("ReplayedItIsDueAtOnceAndMatchedAnew", func(t *testing.T) {
		unmatched(t, "replayed", "ext-1")
		effect := b.Approved("replayed")[0]
		b.Exec(`update effects set external_id = 'ext-1' where run_id = $1`, effect.RunID)
		command := uuid.New()
		for range 2 { // a repeated command is one change
			require.Equal(t, ledger.EventChanged{Made: true, From: ledger.EventUnmatched}, settle(t, "replayed", ledger.EventReplay, command))
		}
		require.False(t, settle(t, "replayed", ledger.EventReplay, uuid.New()).Made, "it waits already")
		require.False(t, settle(t, "replayed", ledger.EventDismiss, uuid.New()).Made, "what is being applied is not dismissed")
		taken, err := b.Reconciler.TakeProviderEvents(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		require.Equal(t, 1, taken[0].Attempts)
		require.Equal(t, []ledger.EffectKey{effect}, taken[0].Matches)
		changes, err := b.Operator.EventChanges(t.Context(), tenant, connector, "replayed")
		require.NoError(t, err)
		require.Len(t, changes, 1)
		require.Equal(t, []string{"replay", "unmatched", "otto", "Their desk says so."},
			[]string{changes[0].Verb, changes[0].From, changes[0].ChangedBy, changes[0].Reason})
	})

	t.Run("DismissedNobodyIsCalledAboutIt", func(t *testing.T) {
		unmatched(t, "dismissed", "ext-2")
		before, err := b.Reconciler.UnmatchedProviderEvents(t.Context())
		require.NoError(t, err)
		require.True(t, settle(t, "dismissed", ledger.EventDismiss, uuid.New()).Made)
		after, err := b.Reconciler.UnmatchedProviderEvents(t.Context())
		require.NoError(t, err)
		require.Equal(t, before-1, after)
		again, err := b.Reconciler.ReceiveProviderEvents(t.Context(), []ledger.ProviderEvent{{TenantID: tenant, Connector: connector,
			ID: "dismissed", Body: body, Verdict: ledger.ProviderSucceeded}})
		require.NoError(t, err)
		require.Equal(t, []string{ledger.EventRepeated}, again)
		require.Equal(t, ledger.EventDismissed, state("dismissed"), "told again, it stays dismissed")
		require.False(t, settle(t, "dismissed", ledger.EventDismiss, uuid.New()).Made)
		require.True(t, settle(t, "dismissed", ledger.EventReplay, uuid.New()).Made, "an operator may think better of it")
	})

	t.Run("WhatWasAppliedStays", func(t *testing.T) {
		unmatched(t, "applied", "ext-3")
		effect := b.Approved("applied")[0]
		b.Exec(`update provider_events set state = 'applied', run_id = $1, revision = 1, ordinal = 1 where provider_event_id = 'applied'`, effect.RunID)
		for _, verb := range []string{ledger.EventReplay, ledger.EventDismiss} {
			changed := settle(t, "applied", verb, uuid.New())
			require.Equal(t, ledger.EventChanged{From: "applied"}, changed)
		}
		require.Equal(t, "applied", state("applied"))
	})

	t.Run("WhoReadsTheBodyIsKept", func(t *testing.T) {
		unmatched(t, "body", "ext-4")
		require.Equal(t, body, settle(t, "body", ledger.EventReadBody, uuid.New()).Body)
		require.Equal(t, ledger.EventUnmatched, state("body"))
		require.Equal(t, 1, b.Count(`select count(*) from provider_event_changes where verb = 'read_body' and changed_by = 'otto'`))
		for _, bad := range []ledger.EventCommand{{Verb: "burn", By: "otto", Reason: "x"}, {Verb: ledger.EventReplay, By: "otto"},
			{Verb: ledger.EventReplay, Reason: "x"}} {
			_, err := b.Operator.SettleEvent(t.Context(), bad)
			require.Error(t, err)
			require.NotErrorIs(t, err, ledger.ErrNoEvent)
		}
		_, err := b.Operator.SettleEvent(t.Context(), ledger.EventCommand{TenantID: tenant, Connector: connector, ID: "none",
			Verb: ledger.EventReplay, By: "otto", Reason: "x"})
		require.ErrorIs(t, err, ledger.ErrNoEvent)
	})
}
