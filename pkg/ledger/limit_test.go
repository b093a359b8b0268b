package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// within are decisions of route auto about claimed events that draw on limits, and ask a person where one would be exceeded.
func within(t *testing.T, l *ledger.Ledger, draws []ledger.Draw, claims ...ledger.Claim) []ledger.Decision {
	t.Helper()
	waiting := waitingIntents(t, l, claims)
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		d := ledgertest.Decision(&waiting[i], uuid.Must(uuid.NewV7()), config.RouteAuto)
		alone := d
		d.Limits = &ledger.LimitCheck{Draws: draws, Review: func(over *ledger.Exceeded) ledger.Decision {
			review := alone
			review.Route = config.RouteHumanReview
			review.Reasons = fmt.Appendf(nil, `["%s %d %s"]`, over.Limit, over.UsedCount, over.UsedAmount)
			return review
		}}
		decisions[i] = d
	}
	return decisions
}

// budgetOf is a draw on a budget of its own.
func budgetOf(name string, count int, most, amount string) ledger.Draw {
	return ledger.Draw{Limit: "payment.refund/" + name, Scope: sha256.Sum256([]byte(name)), Window: time.Hour, Count: count,
		Max: most, Amount: amount}
}

func numbered(prefix string, n int) []ledger.Claim {
	claims := make([]ledger.Claim, n)
	for i := range claims {
		claims[i] = ledgertest.Proposal(fmt.Sprintf("%s-%d", prefix, i))
	}
	return claims
}

func TestLimits(t *testing.T) { // P8
	t.Parallel()
	shared := ledgertest.New(t)
	routes := func(b *ledgertest.Bench, prefix string) (auto, review int) {
		of := func(route string) int {
			return b.Count(`select count(*) from policy_decisions d join runs r using (run_id, tenant_id)
where r.idempotency_key like $1 || '-%' and d.route = $2`, prefix, route)
		}
		return of("auto"), of("human_review")
	}
	used := func(b *ledgertest.Bench, name string) string {
		return b.Text(`select coalesce(sum(count), 0) || ' ' || coalesce(sum(amount), 0) from limit_windows where limit_id = $1`,
			"payment.refund/"+name)
	}

	t.Run("WhatGoesOverTheNumberGoesToAPerson", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("num", 4)
		b.Claim(claims...)
		for _, c := range claims {
			decide(t, b.Policy, within(t, b.Policy, []ledger.Draw{budgetOf("num", 3, "", "")}, c)[0])
		}
		auto, review := routes(b, "num")
		require.Equal(t, []int{3, 1}, []int{auto, review})
		require.Equal(t, `["payment.refund/num 3 0"]`, b.Text(`select reasons::text from policy_decisions where run_id = $1`,
			ledger.RunID(ledgertest.Tenant, "num-3")))
		require.Equal(t, "3 0", used(b, "num"))
	})

	t.Run("AmountsAreAddedExactlyAndTheLimitItselfIsAllowed", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("sum", 4)
		b.Claim(claims...)
		for i, amount := range []string{"0.1", "0.2", "0.000000000000000001", "99.7"} {
			decide(t, b.Policy, within(t, b.Policy, []ledger.Draw{budgetOf("sum", 0, "100.00", amount)}, claims[i])[0])
		}
		auto, review := routes(b, "sum")
		require.Equal(t, []int{3, 1}, []int{auto, review}, "0.1 + 0.2 + 0.000000000000000001 + 99.7 is more than 100")
		require.Equal(t, "3 0.300000000000000001", used(b, "sum"))
		c := ledgertest.Proposal("sum-last")
		b.Claim(c)
		decide(t, b.Policy, within(t, b.Policy, []ledger.Draw{budgetOf("sum", 0, "100.00", "99.699999999999999999")}, c)[0])
		auto, _ = routes(b, "sum")
		require.Equal(t, 4, auto)
	})

	t.Run("HoweverManyReplicasDecideAtOnceTheBudgetIsNotOverdrawn", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		const events, most, replicas = 120, 25, 8
		claims := numbered("race", events)
		b.Claim(claims...)
		decisions := within(t, b.Policy, []ledger.Draw{budgetOf("race", most, "", "")}, claims...)
		var all sync.WaitGroup
		for i := range replicas {
			all.Go(func() {
				for n := i; n < events; n += 3 * replicas {
					batch := []ledger.Decision{}
					for m := n; m < min(n+3*replicas, events); m += replicas {
						batch = append(batch, decisions[m])
					}
					_, err := b.Policy.Decide(t.Context(), batch, func(_ *ledger.Decision, err error) { t.Error(err) })
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		auto, review := routes(b, "race")
		require.Equal(t, []int{most, events - most}, []int{auto, review})
		require.Equal(t, "25 0", used(b, "race"))
	})

	t.Run("WhatHasLeftTheWindowDoesNotCount", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("old", 3)
		b.Claim(claims...)
		draws := []ledger.Draw{budgetOf("old", 1, "", "")}
		decide(t, b.Policy, within(t, b.Policy, draws, claims[0])[0])
		b.Exec(`update limit_windows set step = step - interval '59 minutes' where limit_id = 'payment.refund/old'`)
		decide(t, b.Policy, within(t, b.Policy, draws, claims[1])[0])
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("old-1").State)
		b.Exec(`update limit_windows set step = step - interval '2 minutes' where limit_id = 'payment.refund/old'`)
		decide(t, b.Policy, within(t, b.Policy, draws, claims[2])[0])
		require.Equal(t, ledger.RunApproved, b.Run("old-2").State)
	})

	t.Run("ARepeatedDecisionDrawsOnce", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("twice", 1)
		b.Claim(claims...)
		d := within(t, b.Policy, []ledger.Draw{budgetOf("twice", 1, "10", "10")}, claims...)[0]
		decide(t, b.Policy, d)
		decide(t, b.Policy, d)
		require.Equal(t, "1 10", used(b, "twice"))
		require.Equal(t, ledger.RunApproved, b.Run("twice-0").State)
	})

	t.Run("WhatFailedGivesBackWhatItTookOnceAndWhatWasDoneDoesNot", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t) // of its own: all that has ended is returned together
		claims := numbered("back", 3)
		b.Claim(claims...)
		for _, c := range claims {
			decide(t, b.Policy, within(t, b.Policy, []ledger.Draw{budgetOf("back", 9, "90", "10")}, c)[0])
		}
		closed, err := b.Reconciler.ReturnDraws(t.Context(), 100, time.Hour)
		require.NoError(t, err)
		require.Zero(t, closed, "all three may still be sent")
		b.Exec(`update effects set state = 'failed', open = false where run_id = $1`, ledger.RunID(ledgertest.Tenant, "back-0"))
		b.Exec(`update effects set state = 'completed', open = false where run_id = $1`, ledger.RunID(ledgertest.Tenant, "back-1"))
		var both sync.WaitGroup
		for range 4 {
			both.Go(func() {
				if _, err := b.Reconciler.ReturnDraws(t.Context(), 100, time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		require.Equal(t, "2 20", used(b, "back"))
		b.Exec(`update limit_windows set step = step - interval '2 hours'`)
		_, err = b.Reconciler.ReturnDraws(t.Context(), 100, 3*time.Hour)
		require.NoError(t, err)
		require.Equal(t, "2 20", used(b, "back"), "kept as long as some window may reach it")
		_, err = b.Reconciler.ReturnDraws(t.Context(), 100, time.Hour)
		require.NoError(t, err)
		require.Equal(t, "0 0", used(b, "back"))
		require.Equal(t, 1, b.Count(`select count(*) from limit_draws where returned`))
		require.Equal(t, 1, b.Count(`select count(*) from limit_draws where open`))
	})
}
