package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// inOrder makes approved effects that write the same record, in order, one after the other.
func inOrder(t *testing.T, b *ledgertest.Bench, record string, keys ...string) []ledger.EffectKey {
	t.Helper()
	effects := make([]ledger.EffectKey, len(keys))
	for i, key := range keys {
		decidedOn(t, b, ledgertest.Proposal(key), func(d *ledger.Decision) { d.Effects[0].InOrder, d.Effects[0].TargetRecord = true, record })
		effects[i] = ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, key), Revision: 1, Ordinal: 1}
	}
	return effects
}

// TestTargetOrder is the order that an operation may declare: what was authorized first for a target ends before the next goes.
func TestTargetOrder(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("WhatIsOpenHoldsTheNext", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := inOrder(t, b, "order-1", "order-1", "order-2", "order-3")
		require.Empty(t, b.Lease(time.Minute, effects[1:]...), "not even where nobody has begun with the first")
		first := b.Lease(time.Minute, effects...)
		require.Len(t, first, 1)
		require.Equal(t, effects[0], first[0].EffectKey)
		again := succeed(first[0], "")
		again.Move, again.NextCheck, again.MaybeSent = "retry", time.Hour, false
		again.Outcome.Class, again.Outcome.Sent = "not_sent", false
		settled(t, b, again)
		require.Empty(t, b.Lease(time.Minute, effects...), "while it waits for its next try")
		b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, effects[0].RunID)
		settled(t, b, returning(b, b.Lease(time.Minute, effects...)[0]))
		require.Empty(t, b.Lease(time.Minute, effects...), "while a person has it")
		require.Equal(t, ledger.VoteRejected, b.Vote(b.Pending("order-1").Vote("nora", ledger.Reject))[0].Result)
		second := b.Lease(time.Minute, effects...)
		require.Len(t, second, 1, "of two that may go, the first goes")
		require.Equal(t, effects[1], second[0].EffectKey)
		settled(t, b, losing(second[0]))
		require.Empty(t, b.Lease(time.Minute, effects[2]))
		lookedFor(t, b, effects[1], "find")
		require.Len(t, b.Lease(time.Minute, effects[2]), 1)
	})

	t.Run("OthersDoNotWaitAndAreNotWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := inOrder(t, b, "mixed", "mixed-1", "mixed-2")
		plain := sameTarget(b, "mixed", "mixed-plain")
		require.Len(t, b.Lease(time.Minute, plain...), 1)
		elsewhere := inOrder(t, b, "mixed-elsewhere", "mixed-3")
		require.Len(t, b.Lease(time.Minute, elsewhere...), 1)
		require.Empty(t, b.Lease(time.Minute, effects...), "never two at once (R8)")
	})

	t.Run("WhatIsBehindTakesNothingFromOthersAndIsFoundAtOnce", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		poll := func() []ledger.Leased {
			leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Due: true,
				Free: map[string]int{ledgertest.Tenant + "/" + ledgertest.Connector: 1}})
			require.NoError(t, err)
			return leased
		}
		effects := inOrder(t, b, "one", "one-1", "one-2", "one-3")
		first := poll()
		require.Equal(t, effects[0], first[0].EffectKey)
		require.Empty(t, b.Lease(time.Minute, effects...), "also where events ask for them")
		other := b.Approved("other")
		require.Equal(t, other[0], poll()[0].EffectKey)
		settled(t, b, succeed(first[0], "x-1"))
		require.Equal(t, effects[1], poll()[0].EffectKey)
	})

	t.Run("WhatPeopleApproveIsInOrderToo", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		asked := b.Asked("asked-1", "asked-2")
		for i := range asked {
			v := asked[1-i].Vote("nora", ledger.Approve)
			v.Effects[0].InOrder, v.Effects[0].TargetRecord = true, "asked"
			require.Equal(t, ledger.VoteApproved, b.Vote(v)[0].Result)
		}
		leased := b.Lease(time.Minute, asked[0].Effect, asked[1].Effect)
		require.Len(t, leased, 1)
		require.Equal(t, asked[1].Effect, leased[0].EffectKey, "it was approved first")
	})

	t.Run("RunsNeverWaitForEachOther", func(t *testing.T) { // D10
		t.Parallel()
		b := ledgertest.New(t)
		claims := []ledger.Claim{ledgertest.Proposal("a"), ledgertest.Proposal("b")}
		b.Claim(claims...)
		waiting := waitingIntents(t, b.Policy, claims)
		decisions := make([]ledger.Decision, 2)
		records := map[string][2]string{"a": {"x", "y"}, "b": {"y", "x"}}
		for i := range waiting {
			decisions[i] = ledgertest.Decision(&waiting[i], newID(), config.RouteAuto)
			decisions[i].PolicyVersion, decisions[i].Effects = b.PolicyVersion, ledgertest.EffectsOf(waiting[i].Key, 2, 1)
			for n := range decisions[i].Effects {
				decisions[i].Effects[n].InOrder, decisions[i].Effects[n].TargetRecord = true, records[waiting[i].Key][n]
			}
		}
		require.Equal(t, 2, decide(t, b.Policy, decisions...))
		for range 4 {
			leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Due: true,
				Free: map[string]int{ledgertest.Tenant + "/" + ledgertest.Connector: 10}})
			require.NoError(t, err)
			require.Len(t, leased, 1)
			settled(t, b, succeed(leased[0], "x"))
			b.Exec(`update effects set next_check_at = clock_timestamp() where state = 'pending'`)
		}
		require.Equal(t, 2, b.Count(`select count(*) from runs where outcome = 'executed'`))
	})

	t.Run("WhoeverAsks", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = fmt.Sprintf("k%02d", i)
		}
		effects := inOrder(t, b, "hot", keys...)
		var mu sync.Mutex
		var sent []ledger.EffectKey
		var group errgroup.Group
		for n := range 4 {
			l := b.Replica(ledger.Dispatcher)
			group.Go(func() error {
				for {
					mu.Lock()
					all := len(sent) == len(effects)
					mu.Unlock()
					if all {
						return nil
					}
					req := ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Due: true,
						Free: map[string]int{ledgertest.Tenant + "/" + ledgertest.Connector: 5}}
					if n%2 == 0 {
						req.Requested = effects
					}
					leased, err := l.Lease(context.WithoutCancel(t.Context()), req)
					if err != nil {
						return err
					}
					for _, e := range leased {
						mu.Lock()
						sent = append(sent, e.EffectKey)
						mu.Unlock()
						if _, err := l.Settle(context.WithoutCancel(t.Context()), "record_outcomes", []ledger.Settlement{succeed(e, "x")}); err != nil {
							return err
						}
					}
				}
			})
		}
		require.NoError(t, group.Wait())
		require.Equal(t, effects, sent)
	})
}
