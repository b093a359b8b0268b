package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// stuck makes an effect of each key that moves an amount and ends where a person has to look.
func stuck(b *ledgertest.Bench, t testing.TB, amount, currency string, s ledger.Settlement, keys ...string) []ledger.EffectKey {
	t.Helper()
	claims := make([]ledger.Claim, len(keys))
	effects := make([]ledger.EffectKey, len(keys))
	for i, key := range keys {
		claims[i] = ledgertest.Event(key)
		text, err := canonical.Canonical([]byte(fmt.Sprintf(`{"key":%q,"actions":[{"proposed_change":{"amount":%s,"currency":%q}}]}`,
			key, amount, currency)))
		require.NoError(t, err)
		value, err := canonical.Parse(text)
		require.NoError(t, err)
		claims[i].Intent = &ledger.Intent{Revision: 1, Canonical: text, Hash: canonical.Hash(value), ActionType: ledgertest.ActionType,
			Model: []byte(`{}`)}
		effects[i] = ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, key), Revision: 1, Ordinal: 1}
	}
	b.Claim(claims...)
	b.Decide(config.RouteAuto, claims...)
	for _, e := range b.Lease(time.Minute, effects...) {
		lost := s
		lost.EffectKey, lost.Attempt, lost.Owner = e.EffectKey, e.Attempt, e.Owner
		lost.Outcome = &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "ambiguous", Sent: true, HTTPStatus: 504,
			ProviderRequestID: "req-1", Detail: "the answer was lost"}
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{lost})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
	}
	return effects
}

// lost is an outcome that nobody knows, for long enough to be the desk's.
var lost = ledger.Settlement{Move: "lose", MaybeSent: true, NextCheck: time.Hour}

func TestDesk(t *testing.T) { // R6, R9
	t.Parallel()
	b := ledgertest.New(t)
	unknown := stuck(b, t, "250.10", "EUR", lost, "u-1", "u-2")
	held := stuck(b, t, `"40.5"`, "USD", ledger.Settlement{Move: "hold", HoldReason: ledger.HoldUnauthorized,
		NextCheck: ledger.Never}, "held")[0]
	stuck(b, t, "1", "EUR", ledger.Settlement{Move: "hold", HoldReason: ledger.HoldExhausted, NextCheck: ledger.Never}, "exhausted")
	stuck(b, t, "2", "EUR", ledger.Settlement{Move: "accept", MaybeSent: true, NextCheck: time.Hour}, "accepted")
	b.Exec(`update effects set unknown_since = clock_timestamp() - interval '2 hours' where run_id = $1`, unknown[1].RunID)
	mine := []ledger.DeskScope{{TenantID: ledgertest.Tenant}}
	listed := func(f ledger.DeskFilter) (keys []string) {
		list, err := b.Approval.Desk(t.Context(), f)
		require.NoError(t, err)
		for i := range list {
			keys = append(keys, list[i].Key)
		}
		return keys
	}

	t.Run("WhatNeedsAPersonIsListedOldestFirst", func(t *testing.T) {
		require.Equal(t, []string{"u-2", "u-1", "held", "exhausted"}, listed(ledger.DeskFilter{Scopes: mine, AcceptedFor: time.Minute}))
		require.Equal(t, "accepted", listed(ledger.DeskFilter{Scopes: mine})[4])
		require.Equal(t, []string{"held"}, listed(ledger.DeskFilter{Scopes: mine, Kind: ledger.HoldUnauthorized}))
		require.Equal(t, []string{"u-2", "u-1", "held", "accepted"}, listed(ledger.DeskFilter{Scopes: mine, ByAmount: true, Limit: 4}))
		require.Empty(t, listed(ledger.DeskFilter{Scopes: mine, Connector: "another"}))
		require.Empty(t, listed(ledger.DeskFilter{Scopes: []ledger.DeskScope{{TenantID: "another"}}}))
		require.Empty(t, listed(ledger.DeskFilter{Scopes: []ledger.DeskScope{{TenantID: ledgertest.Tenant, ActionType: "another"}}}))
		require.Len(t, listed(ledger.DeskFilter{Scopes: []ledger.DeskScope{{TenantID: ledgertest.Tenant, ActionType: ledgertest.ActionType}}}), 5)
	})

	t.Run("WhatTheReconcilerIsAboutToSettleIsLeftOut", func(t *testing.T) {
		b.Exec(`update effects set next_check_at = clock_timestamp() + interval '1 second' where run_id = $1`, unknown[0].RunID)
		require.Equal(t, []string{"u-2"}, listed(ledger.DeskFilter{Scopes: mine, Kind: ledger.EffectUnknown, UnknownFor: time.Minute}))
		b.Exec(`update effects set next_check_at = clock_timestamp() + interval '1 hour' where run_id = $1`, unknown[0].RunID)
		require.Equal(t, []string{"u-2", "u-1"}, listed(ledger.DeskFilter{Scopes: mine, Kind: ledger.EffectUnknown, UnknownFor: time.Minute}),
			"nobody looks at it for an hour")
	})

	t.Run("PagesGoOnWhereTheLastOneEnded", func(t *testing.T) {
		for _, byAmount := range []bool{false, true} {
			f := ledger.DeskFilter{Scopes: mine, ByAmount: byAmount}
			whole := listed(f)
			var pages []string
			for f.Limit = 2; ; {
				list, err := b.Approval.Desk(t.Context(), f)
				require.NoError(t, err)
				if len(list) == 0 {
					break
				}
				for i := range list {
					pages = append(pages, list[i].Key)
				}
				mark := list[len(list)-1].Mark()
				f.After = &mark
			}
			require.Equal(t, whole, pages, "by amount: %v", byAmount)
		}
	})

	t.Run("SumsSayHowManyHowOldAndHowMuch", func(t *testing.T) { // R9
		sums, err := b.Approval.DeskSums(t.Context(), ledger.DeskFilter{Scopes: mine, Kind: ledger.EffectUnknown})
		require.NoError(t, err)
		require.Len(t, sums, 1)
		require.Equal(t, []any{2, "500.2", "EUR", ledgertest.ActionType}, []any{sums[0].Count, sums[0].Amount, sums[0].Currency,
			sums[0].ActionType})
		require.InDelta(t, 2*time.Hour, sums[0].Now.Sub(sums[0].Oldest), float64(time.Minute))
		all, err := b.Approval.DeskSums(t.Context(), ledger.DeskFilter{Scopes: mine})
		require.NoError(t, err)
		require.Len(t, all, 4)
	})

	t.Run("ACaseHasAttemptsLookupsAndTheIntent", func(t *testing.T) {
		_, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: unknown[0], Move: "look",
			NextCheck: time.Hour,
			Looked:    &ledger.Looked{Verdict: "unclear", Evidence: "HTTP 500"}}})
		require.NoError(t, err)
		c, err := b.Approval.DeskCase(t.Context(), unknown[0].OperationID())
		require.NoError(t, err)
		require.Equal(t, []any{"u-1", "unknown.1", "250.1", "ambiguous", "unclear", true}, []any{c.Key, c.Seen(), c.Amount,
			c.LastClass, c.LastVerdict, c.Waits()})
		require.Contains(t, string(c.Canonical), `"amount":250.1`)
		require.Equal(t, []any{504, "req-1", "the answer was lost"}, []any{c.Tried[0].HTTPStatus, c.Tried[0].ProviderRequestID,
			c.Tried[0].Detail})
		require.Equal(t, "HTTP 500", c.Looks[0].Evidence)
		for _, none := range []string{"op1-none", ledger.OperationID(uuid.New(), 1, 1)} {
			_, err = b.Approval.DeskCase(t.Context(), none)
			require.ErrorIs(t, err, ledger.ErrNoOperation)
		}
	})

	t.Run("WhatIsSettledIsOffTheDesk", func(t *testing.T) {
		resolve(b, t, resolution(held, "give_up"))
		require.NotContains(t, listed(ledger.DeskFilter{Scopes: mine}), "held")
	})
}
