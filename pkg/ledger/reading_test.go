package ledger_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

var contacts = []ledger.ActionRef{{TenantID: ledgertest.Tenant, ActionType: ledgertest.ActionType}}

// TestReadings is A10's half that is read.
func TestReadings(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	take := func(t *testing.T) []ledger.Unread {
		t.Helper()
		taken, err := b.Reconciler.TakeReadings(t.Context(), contacts, 9, time.Minute)
		require.NoError(t, err)
		return taken
	}
	record := func(t *testing.T, r ledger.ReadResult) {
		t.Helper()
		require.NoError(t, b.Reconciler.RecordReadings(t.Context(), []ledger.ReadResult{r}))
	}
	card := func(t *testing.T, a ledgertest.Asked) *ledger.Reading {
		t.Helper()
		c, err := b.Approval.Card(t.Context(), a.ApprovalID)
		require.NoError(t, err)
		return c.Readings.Of(1)
	}
	due := func() { b.Exec(`update approvals set next_read_at = clock_timestamp()`) }

	t.Run("ANewRequestIsTakenOnceAndAgainWhenItIsDue", func(t *testing.T) {
		asked := b.Asked("first")[0]
		taken := take(t)
		require.Len(t, taken, 1)
		require.Equal(t, asked.ApprovalID, taken[0].ApprovalID)
		require.Equal(t, asked.IntentHash, taken[0].IntentHash)
		require.NotEmpty(t, taken[0].Canonical)
		require.Empty(t, take(t), "it is another's for a minute")
		require.Nil(t, card(t, asked))
		record(t, ledger.ReadResult{Unread: &taken[0], Found: true, Version: "8", Held: []byte(`{"/fields/city":"Porto"}`), Again: time.Hour})
		require.Empty(t, take(t))
		got := card(t, asked)
		require.True(t, got.Answered())
		require.Equal(t, "8", got.Version)
		require.Equal(t, `{"/fields/city":"Porto"}`, string(got.Held))
		due()
		require.Len(t, take(t), 1)
	})
	t.Run("AFailureKeepsTheLastAnswerAndCounts", func(t *testing.T) {
		due()
		u := take(t)[0]
		record(t, ledger.ReadResult{Unread: &u, Err: "HTTP 500", Again: time.Minute})
		due()
		u = take(t)[0]
		require.Equal(t, 1, u.Failures)
		record(t, ledger.ReadResult{Unread: &u, Err: "HTTP 503", Again: time.Minute})
		c, err := b.Approval.Card(t.Context(), u.ApprovalID)
		require.NoError(t, err)
		require.Equal(t, "8", c.Readings.Of(1).Version)
		require.Equal(t, "HTTP 503", c.Readings.Of(1).Error)
		require.False(t, c.Readings.Of(1).FailedAt.IsZero())
		due()
		u = take(t)[0]
		require.Equal(t, 2, u.Failures)
		record(t, ledger.ReadResult{Unread: &u, Again: time.Minute})
		c, err = b.Approval.Card(t.Context(), u.ApprovalID)
		require.NoError(t, err)
		require.Equal(t, ledger.Reading{ReadAt: c.Readings.Of(1).ReadAt}, *c.Readings.Of(1), "the target is gone")
		require.True(t, c.Readings.Of(1).Answered())
	})
	t.Run("TwoReplicasTakeDifferentOnes", func(t *testing.T) {
		b.Asked("a", "b", "c", "d")
		replicas := []*ledger.Ledger{b.Reconciler, b.Replica(ledger.Reconciler)}
		taken := make([][]ledger.Unread, len(replicas))
		var both sync.WaitGroup
		for i, replica := range replicas {
			both.Go(func() { taken[i], _ = replica.TakeReadings(t.Context(), contacts, 9, time.Minute) })
		}
		both.Wait()
		seen := map[string]int{}
		for _, u := range append(taken[0], taken[1]...) {
			seen[u.ApprovalID.String()]++
		}
		require.Len(t, seen, 4)
		for id, times := range seen {
			require.Equal(t, 1, times, id)
		}
	})
	t.Run("WhatDoesNotWaitOrIsOfNoSuchActionIsNotTaken", func(t *testing.T) {
		due()
		b.Exec(`update approvals set decide_by = clock_timestamp() where run_id = $1`, b.Pending("a").Effect.RunID)
		b.Vote(b.Pending("b").Vote("nora", ledger.Reject))
		require.Len(t, take(t), 3)
		due()
		other, err := b.Reconciler.TakeReadings(t.Context(), []ledger.ActionRef{{TenantID: ledgertest.Tenant, ActionType: "other"},
			{TenantID: "other", ActionType: ledgertest.ActionType}}, 9, time.Minute)
		require.NoError(t, err)
		require.Empty(t, other)
	})
	t.Run("AReadNeverWaitsForADecision", func(t *testing.T) {
		due()
		u := take(t)[0]
		deciding, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = deciding.Rollback(t.Context()) }()
		_, err = deciding.Exec(t.Context(), `select from approvals where approval_id = $1 for update`, u.ApprovalID)
		require.NoError(t, err)
		record(t, ledger.ReadResult{Unread: &u, Found: true, Version: "9", Again: time.Hour})
		due2 := take(t)
		require.Empty(t, due2, "what was taken is another's, and what is being decided is passed over")
	})
	t.Run("WhatIsTooLargeIsRefused", func(t *testing.T) {
		u := ledger.Unread{TenantID: ledgertest.Tenant, RunID: b.Pending("d").Effect.RunID, IntentHash: b.Pending("d").IntentHash}
		require.ErrorContains(t, b.Reconciler.RecordReadings(t.Context(), []ledger.ReadResult{{Unread: &u, Found: true,
			Held: []byte(`"` + strings.Repeat("x", 1<<16) + `"`)}}), "readings_size")
	})
}

func TestSameReading(t *testing.T) {
	t.Parallel()
	at := time.Now()
	one := &ledger.Reading{ReadAt: at, Found: true, Version: "1", Held: []byte(`{"/a":1e2,"/b":"x"}`)}
	require.True(t, one.Same(&ledger.Reading{ReadAt: at.Add(time.Hour), Found: true, Version: "1", Held: []byte(`{"/b": "x", "/a": 100.0}`)}))
	for name, other := range map[string]*ledger.Reading{
		"none": nil, "unanswered": {}, "gone": {ReadAt: at}, "version": {ReadAt: at, Found: true, Version: "2", Held: one.Held},
		"value": {ReadAt: at, Found: true, Version: "1", Held: []byte(`{"/a":1e2,"/b":"y"}`)}, "less": {ReadAt: at, Found: true, Version: "1"},
	} {
		require.False(t, one.Same(other), name)
		require.False(t, other.Same(one), name)
	}
	require.True(t, (*ledger.Reading)(nil).Same(&ledger.Reading{Error: "HTTP 500"}), "neither was answered")
}
