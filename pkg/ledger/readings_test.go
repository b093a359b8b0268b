package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// together is a proposal of several actions of these types.
func together(t *testing.T, key string, types ...string) ledger.Claim {
	t.Helper()
	var actions []string
	for i, name := range types {
		actions = append(actions, fmt.Sprintf(`{"action_type":%q,"target":{"record_id":"r-%d"}}`, name, i+1))
	}
	text, err := canonical.Canonical(fmt.Appendf(nil, `{"key":%q,"actions":[%s]}`, key, strings.Join(actions, ",")))
	require.NoError(t, err)
	value, err := canonical.Parse(text)
	require.NoError(t, err)
	c := ledgertest.Event(key)
	c.Intent = &ledger.Intent{Revision: 1, Canonical: text, Hash: canonical.Hash(value), ActionType: config.KindOf(types)}
	return c
}

// TestReadingsOfSeveral is A10 of a request with several actions: each is read by itself.
func TestReadingsOfSeveral(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	const mail, refund = "mail.send", "payment.refund"
	asks := func(t *testing.T, key string, types ...string) ledgertest.Asked {
		t.Helper()
		c := together(t, key, types...)
		b.Claim(c)
		b.Decide(config.RouteHumanReview, c)
		return b.Pending(key)
	}
	readable := func(busy ...string) (all []ledger.ActionRef) {
		for _, name := range []string{ledgertest.ActionType, refund} {
			all = append(all, ledger.ActionRef{TenantID: ledgertest.Tenant, ActionType: name, Busy: strings.Contains(strings.Join(busy, " "), name)})
		}
		return all
	}
	// take is what is taken, by the ordinals of the actions.
	take := func(t *testing.T, busy ...string) map[int]ledger.Unread {
		t.Helper()
		taken, err := b.Reconciler.TakeReadings(t.Context(), readable(busy...), 9, time.Minute)
		require.NoError(t, err)
		all := map[int]ledger.Unread{}
		for _, u := range taken {
			require.NotContains(t, all, u.Ordinal)
			all[u.Ordinal] = u
		}
		return all
	}
	record := func(t *testing.T, u ledger.Unread, r ledger.ReadResult) {
		t.Helper()
		r.Unread = &u
		require.NoError(t, b.Reconciler.RecordReadings(t.Context(), []ledger.ReadResult{r}))
	}
	card := func(t *testing.T, a ledgertest.Asked) ledger.Readings {
		t.Helper()
		c, err := b.Approval.Card(t.Context(), a.ApprovalID)
		require.NoError(t, err)
		return c.Readings
	}
	due := func() {
		b.Exec(`update action_readings set next_read_at = clock_timestamp() where next_read_at < 'infinity'`)
	}
	ends := func(a ledgertest.Asked) { b.Vote(a.Vote("nora", ledger.Reject)) }

	t.Run("EachActionThatCanBeReadIsDueByItself", func(t *testing.T) {
		asked := asks(t, "three", ledgertest.ActionType, mail, refund)
		require.Empty(t, take(t), "it is planned first")
		taken := take(t)
		require.Len(t, taken, 2, "nothing reads a mail")
		require.Equal(t, ledgertest.ActionType, taken[1].ActionType)
		require.Equal(t, refund, taken[3].ActionType)
		for ordinal, u := range taken {
			require.Equal(t, asked.ApprovalID, u.ApprovalID)
			require.Equal(t, asked.IntentHash, u.IntentHash)
			require.Equal(t, []any{true, 1, 0}, []any{u.Several, u.Revision, u.Failures}, ordinal)
			require.NotEmpty(t, u.Canonical)
		}
		require.Empty(t, take(t), "they are another's for a minute")
		require.Empty(t, card(t, asked), "nobody has tried yet")

		record(t, taken[3], ledger.ReadResult{Found: true, Version: "3", Held: []byte(`{"/amount":1.50}`), Again: time.Hour})
		got := card(t, asked)
		require.Nil(t, got.Of(1), "the other one is still being read")
		require.Equal(t, `{"/amount":1.50}`, string(got.Of(3).Held), "exact decimals stay")
		record(t, taken[1], ledger.ReadResult{Err: "HTTP 500", Again: 0})
		got = card(t, asked)
		require.Equal(t, "HTTP 500", got.Of(1).Error)
		require.False(t, got.Of(1).Answered())
		require.Nil(t, got.Of(2))
		require.Empty(t, got.Of(3).Error, "a failure is of one action")
		require.Equal(t, "3", got.Of(3).Version)

		again := take(t)
		require.Len(t, again, 1, "only what failed is due")
		require.Equal(t, 1, again[1].Failures)
		record(t, again[1], ledger.ReadResult{Found: true, Version: "7", Again: time.Hour})
		record(t, taken[3], ledger.ReadResult{Err: "HTTP 503", Again: time.Hour})
		got = card(t, asked)
		require.Equal(t, []any{"7", ""}, []any{got.Of(1).Version, got.Of(1).Error})
		require.Equal(t, []any{"3", "HTTP 503"}, []any{got.Of(3).Version, got.Of(3).Error}, "the last answer stays")
		require.False(t, got.Of(3).FailedAt.IsZero())
		ends(asked)
	})
	t.Run("AConnectorThatIsBusyHoldsUpItsOwnAlone", func(t *testing.T) {
		asked := asks(t, "busy", refund, ledgertest.ActionType)
		require.Empty(t, take(t, refund))
		taken := take(t, refund)
		require.Len(t, taken, 1)
		require.Contains(t, taken, 2)
		require.Contains(t, take(t), 1, "the other one waits for its connector")
		ends(asked)
	})
	t.Run("TwoOfOneTypeAreTwo", func(t *testing.T) {
		asked := asks(t, "same", refund, refund)
		require.Empty(t, take(t))
		taken := take(t)
		require.Len(t, taken, 2)
		one, two := taken[1], taken[2]
		require.NoError(t, b.Reconciler.RecordReadings(t.Context(), []ledger.ReadResult{{Unread: &two, Found: true, Version: "2", Again: time.Hour},
			{Unread: &one, Found: true, Version: "1", Again: time.Hour}}), "in one statement")
		require.Equal(t, []string{"1", "2"}, []string{card(t, asked).Of(1).Version, card(t, asked).Of(2).Version})
		require.Zero(t, b.Count(`select count(*) from readings where run_id = $1`, asked.Effect.RunID))
		ends(asked)
	})
	t.Run("WhatCanBeReadLaterIsPlannedLater", func(t *testing.T) {
		asked := asks(t, "later", mail, refund)
		planned := func() int {
			return b.Count(`select count(*) from action_readings where approval_id = $1`, asked.ApprovalID)
		}
		_, err := b.Reconciler.TakeReadings(t.Context(), readable()[:1], 9, time.Minute)
		require.NoError(t, err)
		require.Zero(t, planned(), "nothing of it can be read")
		require.Empty(t, take(t))
		require.Zero(t, planned(), "it was looked at a moment ago")
		b.Exec(`update approvals set next_read_at = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
		require.Empty(t, take(t))
		require.Contains(t, take(t), 2)
		ends(asked)
	})
	t.Run("WhatDoesNotWaitAnyMoreIsTakenNoMore", func(t *testing.T) {
		asked := asks(t, "over", refund, refund)
		require.Empty(t, take(t))
		require.Len(t, take(t), 2)
		ends(asked)
		due()
		require.Empty(t, take(t))
		require.Zero(t, b.Count(`select count(*) from action_readings where next_read_at < 'infinity'`), "nothing is looked through again")
	})
	t.Run("ReplicasTakeDifferentOnes", func(t *testing.T) {
		asks(t, "r1", refund, ledgertest.ActionType, refund)
		asks(t, "r2", ledgertest.ActionType, refund, refund)
		replicas := []*ledger.Ledger{b.Reconciler, b.Replica(ledger.Reconciler)}
		seen := map[string]int{}
		for range 2 { // planned, then taken
			taken := make([][]ledger.Unread, len(replicas))
			var both sync.WaitGroup
			for i, replica := range replicas {
				both.Go(func() { taken[i], _ = replica.TakeReadings(t.Context(), readable(), 9, time.Minute) })
			}
			both.Wait()
			for _, u := range append(taken[0], taken[1]...) {
				seen[fmt.Sprint(u.ApprovalID, u.Ordinal)]++
			}
		}
		require.Len(t, seen, 6)
		for what, times := range seen {
			require.Equal(t, 1, times, what)
		}
		ends(b.Pending("r1"))
		ends(b.Pending("r2"))
	})
	t.Run("TheReleaseBeforeReadsTheFirstMeanwhile", func(t *testing.T) {
		asked := asks(t, "old", refund, refund)
		// What it writes, as it wrote it: the key of an intent has to stay as it is.
		old := func(version string) {
			b.Exec(`insert into readings as r (tenant_id, run_id, intent_hash, read_at, found, version, failures) values ($1, $2, $3, clock_timestamp(),
  true, $4, 0) on conflict (run_id, tenant_id, intent_hash) do update set read_at = excluded.read_at, version = excluded.version`,
				ledgertest.Tenant, asked.Effect.RunID, asked.IntentHash[:], version)
		}
		old("4")
		old("5")
		require.Len(t, card(t, asked), 1)
		require.Equal(t, "5", card(t, asked).Of(1).Version)
		require.Empty(t, take(t))
		for ordinal, u := range take(t) {
			record(t, u, ledger.ReadResult{Found: true, Version: fmt.Sprint("new ", ordinal), Again: time.Hour})
		}
		old("6")
		got := card(t, asked)
		require.Len(t, got, 2)
		require.Equal(t, []string{"new 1", "new 2"}, []string{got.Of(1).Version, got.Of(2).Version})
		// Its card joins one row.
		require.Equal(t, 1, b.Count(`select count(*) from approvals a left join readings g using (run_id, tenant_id, intent_hash)
  where a.approval_id = $1`, asked.ApprovalID))
		ends(asked)
	})
	t.Run("TheRecordOfARunTellsOfEach", func(t *testing.T) {
		asked := asks(t, "told", refund, ledgertest.ActionType)
		require.Empty(t, take(t))
		taken := take(t)
		record(t, taken[2], ledger.ReadResult{Found: true, Version: "2", Held: []byte(`{"/a":1}`), Again: time.Hour})
		all, err := b.Approval.Explain(t.Context(), ledgertest.Tenant, asked.Effect.RunID)
		require.NoError(t, err)
		var told struct {
			Readings []struct {
				Ordinal int
				Version string
				Hash    string `json:"intent_hash"`
				Held    map[string]int
			}
		}
		require.NoError(t, json.Unmarshal(all, &told))
		require.Len(t, told.Readings, 1, "what nobody has tried to read is not told")
		require.Equal(t, []any{2, "2", asked.IntentHash.String(), map[string]int{"/a": 1}}, []any{told.Readings[0].Ordinal,
			told.Readings[0].Version, told.Readings[0].Hash, told.Readings[0].Held})
		ends(asked)
	})
	t.Run("WhatIsTooLargeIsRefused", func(t *testing.T) {
		asks(t, "large", refund, refund)
		require.Empty(t, take(t))
		u := take(t)[1]
		require.ErrorContains(t, b.Reconciler.RecordReadings(t.Context(), []ledger.ReadResult{{Unread: &u, Found: true,
			Held: []byte(`"` + strings.Repeat("x", 1<<16) + `"`)}}), "action_readings_size")
	})
}

// TestSeen is what a vote keeps of the targets (A17), also between releases.
func TestSeen(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	at := time.Now().UTC().Truncate(time.Microsecond)
	first := &ledger.Reading{ReadAt: at, Found: true, Version: "1", Held: []byte(`{"/a":1}`)}
	third := &ledger.Reading{ReadAt: at.Add(time.Second)} // not there

	// kept is what is stored of a vote, and what a card of a later request reads of it.
	kept := func(t *testing.T, key string, seen ledger.Readings) (stored string, read ledger.Readings) {
		t.Helper()
		asked := b.Asked(key)[0]
		vote := asked.Vote("nora", ledger.Approve)
		vote.Seen = seen
		b.Vote(vote)
		settled(t, b, returning(b, b.Lease(time.Minute, asked.Effect)[0]))
		c, err := b.Approval.Card(t.Context(), b.Pending(key).ApprovalID)
		require.NoError(t, err)
		require.Len(t, c.Looks, 1)
		return b.Text(`select coalesce(seen::text, '') from reviews where approval_id = $1`, asked.ApprovalID), c.Looks[0].Seen
	}
	t.Run("OfOneActionItIsWhatItWas", func(t *testing.T) {
		stored, read := kept(t, "one", ledger.Readings{first})
		old, err := json.Marshal(first)
		require.NoError(t, err)
		require.JSONEq(t, string(old), stored)
		require.Len(t, read, 1)
		require.True(t, read.Of(1).Same(first))
		require.True(t, at.Equal(read.Of(1).ReadAt))
	})
	t.Run("OfSeveralTheFurtherOnesAreInside", func(t *testing.T) {
		stored, read := kept(t, "three", ledger.Readings{first, {Error: "HTTP 500"}, third})
		require.Len(t, read, 3)
		require.True(t, read.Of(1).Same(first))
		require.Nil(t, read.Of(2), "it gave no answer")
		require.True(t, read.Of(3).Same(third))
		var old ledger.Reading
		require.NoError(t, json.Unmarshal([]byte(stored), &old), "the release before reads the first")
		require.True(t, old.Same(first))
	})
	t.Run("OfAFurtherOneAloneTheFirstIsNone", func(t *testing.T) {
		stored, read := kept(t, "second", ledger.Readings{nil, first})
		require.Nil(t, read.Of(1))
		require.True(t, read.Of(2).Same(first))
		var old ledger.Reading
		require.NoError(t, json.Unmarshal([]byte(stored), &old))
		require.False(t, old.Answered())
	})
	t.Run("OfNothingThereIsNothing", func(t *testing.T) {
		stored, read := kept(t, "none", ledger.Readings{{Error: "HTTP 500"}})
		require.Empty(t, stored)
		require.Empty(t, read)
	})
	var all ledger.Readings
	require.Error(t, json.Unmarshal([]byte(`{"further":[{"ordinal":1}]}`), &all))
	require.Error(t, json.Unmarshal([]byte(`[]`), &all))
	require.NoError(t, json.Unmarshal([]byte(`null`), &all))
	require.Empty(t, all)
}
