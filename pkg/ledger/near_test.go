package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// alike are events under keys of their own that want nearly the same thing.
func alike(wish string, keys ...string) []ledger.Claim {
	claims := make([]ledger.Claim, len(keys))
	for i, key := range keys {
		claims[i] = ledgertest.Proposal(key)
		near := sha256.Sum256([]byte(wish))
		claims[i].Intent.NearHash = near[:]
	}
	return claims
}

// waitingIntents are the claims' intents as policy reads them.
func waitingIntents(t *testing.T, l *ledger.Ledger, claims []ledger.Claim) []ledger.Undecided {
	t.Helper()
	refs := make([]ledger.IntentRef, len(claims))
	for i, c := range claims {
		refs[i] = ledgertest.Ref(c)
	}
	waiting, err := l.Undecided(t.Context(), refs)
	require.NoError(t, err)
	return waiting
}

// nearDecisions are decisions of route auto that look for twins of the last hour.
func nearDecisions(t *testing.T, l *ledger.Ledger, claims ...ledger.Claim) []ledger.Decision {
	t.Helper()
	waiting := waitingIntents(t, l, claims)
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		d := ledgertest.Decision(&waiting[i], uuid.Must(uuid.NewV7()), config.RouteAuto)
		alone := d
		d.Near = &ledger.NearCheck{Within: time.Hour, Review: func(twin *ledger.Twin) ledger.Decision {
			review := alone
			review.Route, review.Reasons = config.RouteHumanReview, []byte(`["like `+twin.Key+` `+twin.OperationID+`"]`)
			return review
		}}
		decisions[i] = d
	}
	return decisions
}

func TestNearDuplicates(t *testing.T) { // K13
	t.Parallel()
	shared := ledgertest.New(t)
	route := func(b *ledgertest.Bench, key string) string {
		return b.Text(`select route || reasons::text from policy_decisions where run_id = $1`, ledger.RunID(ledgertest.Tenant, key))
	}

	t.Run("TheSecondGoesToAPersonWithALinkToTheFirst", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		for _, c := range alike("one", "n1", "n2") {
			b.Claim(c)
			decide(t, b.Policy, nearDecisions(t, b.Policy, c)[0])
		}
		require.Equal(t, "auto[]", route(b, "n1"))
		operation := ledger.OperationID(ledger.RunID(ledgertest.Tenant, "n1"), 1, 1)
		require.Equal(t, `human_review["like n1 `+operation+`"]`, route(b, "n2"))
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("n2").State)
	})

	t.Run("OneThatWaitsForAPersonCountsAndOneThatWasDeniedDoesNot", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := alike("two", "w1", "w2", "w3")
		b.Claim(claims[:2]...)
		b.Decide(config.RouteReject, claims[0])
		decide(t, b.Policy, nearDecisions(t, b.Policy, claims[1])[0])
		require.Equal(t, "auto[]", route(b, "w2"))
		b.Exec(`update runs set state = 'awaiting_human' where idempotency_key = 'w2'`)
		b.Claim(claims[2])
		decide(t, b.Policy, nearDecisions(t, b.Policy, claims[2])[0])
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("w3").State)
	})

	t.Run("WhatIsLongAgoDoesNotCount", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := alike("three", "o1", "o2")
		b.Claim(claims...)
		decide(t, b.Policy, nearDecisions(t, b.Policy, claims[0])[0])
		b.Exec(`update intents set created_at = created_at - interval '61 minutes' where run_id = $1`,
			ledger.RunID(ledgertest.Tenant, "o1"))
		decide(t, b.Policy, nearDecisions(t, b.Policy, claims[1])[0])
		require.Equal(t, "auto[]", route(b, "o2"))
	})

	t.Run("OfManyAtOnceOneIsAuthorized", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		replicas := []*ledger.Ledger{b.Policy, b.Replica(ledger.Policy), b.Replica(ledger.Policy)}
		var claims []ledger.Claim
		for wish := range 4 {
			var keys []string
			for i := range 24 {
				keys = append(keys, fmt.Sprintf("race-%d-%d", wish, i))
			}
			claims = append(claims, alike(fmt.Sprintf("race %d", wish), keys...)...)
		}
		b.Claim(claims...)
		decisions := nearDecisions(t, b.Policy, claims...)
		var wait sync.WaitGroup
		for i, batch := range slices.Collect(slices.Chunk(decisions, 8)) {
			wait.Go(func() {
				_, err := replicas[i%3].Decide(t.Context(), batch, func(_ *ledger.Decision, err error) { require.NoError(t, err) })
				require.NoError(t, err)
			})
		}
		wait.Wait()
		require.Equal(t, 4, b.Count(`select count(*) from effects e join runs r using (run_id) where r.idempotency_key like 'race-%'`))
		require.Equal(t, 92, b.Count(`select count(*) from runs where idempotency_key like 'race-%' and state = 'awaiting_human'`))
	})

	t.Run("TwoOfOneBatchAreToldApart", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := alike("four", "b1", "b2")
		b.Claim(claims...)
		moved, err := b.Policy.Decide(t.Context(), nearDecisions(t, b.Policy, claims...), func(_ *ledger.Decision, err error) {
			require.NoError(t, err)
		})
		require.NoError(t, err)
		require.Equal(t, 2, moved)
		require.ElementsMatch(t, []string{ledger.RunApproved, ledger.RunAwaitingHuman},
			[]string{b.Run("b1").State, b.Run("b2").State})
	})
}
