package ledger_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// excepted are decisions of route auto by classes of exceptions, which ask a person where one was stopped.
func excepted(t *testing.T, l *ledger.Ledger, classes []ledger.Class, claims ...ledger.Claim) []ledger.Decision {
	t.Helper()
	waiting := waitingIntents(t, l, claims)
	decisions := make([]ledger.Decision, len(waiting))
	for i := range waiting {
		d := ledgertest.Decision(&waiting[i], uuid.Must(uuid.NewV7()), config.RouteAuto)
		d.Audience = []string{"reviewer"}
		alone := d
		d.Exceptions = &ledger.ExceptionCheck{Classes: classes, Review: func(s *ledger.Stopped) ledger.Decision {
			review := alone
			review.Route = config.RouteHumanReview
			review.Reasons = fmt.Appendf(nil, `["%s %s %d"]`, s.Rule, s.By, s.Overdue)
			return review
		}}
		decisions[i] = d
	}
	return decisions
}

func classOf(rule string, oneIn int) []ledger.Class {
	return []ledger.Class{{Rule: rule, Evaluation: "e-1", OneIn: oneIn, ReviewWithin: time.Hour}}
}

// judge says of the one sample of a run whether it was right.
func judge(t *testing.T, b *ledgertest.Bench, key, verdict string) ledger.Judged {
	t.Helper()
	done, err := b.Approval.JudgeSample(t.Context(), judgement(b, key, verdict))
	require.NoError(t, err)
	return done
}

func judgement(b *ledgertest.Bench, key, verdict string) ledger.Judgement {
	run := ledger.RunID(ledgertest.Tenant, key)
	return ledger.Judgement{CommandID: uuid.New(), TenantID: ledgertest.Tenant, RunID: run, Verdict: verdict, Reason: "looked at", Channel: "web",
		SampleID: uuid.MustParse(b.Text(`select sample_id::text from exception_uses where run_id = $1 and sample_id is not null`, run)),
		Reviewer: ledger.Reviewer{Issuer: "https://id", Subject: "sub-nora", ID: "nora"}}
}

func TestExceptions(t *testing.T) { // P4
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("OneCaseInSoManyIsLookedAtByASeedThatNobodyOutsideKnows", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("some", 400)
		b.Claim(claims...)
		decide(t, b.Policy, excepted(t, b.Policy, classOf("some", 10), claims...)...)
		sampled := b.Count(`select count(*) from exception_uses u join exception_classes c using (class_id)
where c.rule_id = 'some' and u.sample_id is not null and u.audience = '{reviewer}'`)
		require.InDelta(t, 40, sampled, 30)
		require.Equal(t, sampled, b.Count(`select count(*) from exception_uses u join exception_classes c using (class_id)
where c.rule_id = 'some' and mod(('x' || substr(encode(sha256(decode(replace(c.seed::text, '-', ''), 'hex') || u.intent_hash), 'hex'), 1, 16))::bit(64)::bigint::numeric
  + case when ('x' || substr(encode(sha256(decode(replace(c.seed::text, '-', ''), 'hex') || u.intent_hash), 'hex'), 1, 16))::bit(64)::bigint < 0
    then 18446744073709551616 else 0 end, 10) = 0`), "whoever has the seed can tell later why a case was looked at")
		require.Equal(t, 400, b.Count(`select count(*) from exception_uses u join exception_classes c using (class_id) where c.rule_id = 'some'`))
	})

	t.Run("AWrongSampleStopsTheClassForGood", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("wrong", 3)
		b.Claim(claims...)
		each := excepted(t, b.Policy, classOf("wrong", 1), claims...)
		decide(t, b.Policy, each[0])
		require.False(t, judge(t, b, "wrong-0", ledger.VerdictRight).Stopped)
		decide(t, b.Policy, each[1])
		require.True(t, judge(t, b, "wrong-1", ledger.VerdictWrong).Stopped)
		decide(t, b.Policy, each[2])
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("wrong-2").State)
		require.Equal(t, `["wrong nora 0"]`, b.Text(`select reasons::text from policy_decisions where run_id = $1`,
			ledger.RunID(ledgertest.Tenant, "wrong-2")))

		other := ledgertest.Proposal("wrong-other")
		b.Claim(other)
		renewed := classOf("wrong", 1)
		renewed[0].Evaluation = "e-2"
		decide(t, b.Policy, excepted(t, b.Policy, renewed, other)...)
		require.Equal(t, ledger.RunApproved, b.Run("wrong-other").State, "another evaluation is another class")
	})

	t.Run("ASampleThatNobodyLookedAtInTimePausesTheClass", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("late", 3)
		b.Claim(claims...)
		each := excepted(t, b.Policy, classOf("late", 1), claims...)
		decide(t, b.Policy, each[0])
		b.Exec(`update exception_uses set review_by = clock_timestamp() where run_id = $1`, ledger.RunID(ledgertest.Tenant, "late-0"))
		decide(t, b.Policy, each[1])
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("late-1").State)
		judge(t, b, "late-0", ledger.VerdictRight)
		decide(t, b.Policy, each[2])
		require.Equal(t, ledger.RunApproved, b.Run("late-2").State)
	})

	t.Run("NothingIsAuthorizedByAClassAfterItWasStopped", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		const events = 80
		claims := numbered("stop", events)
		b.Claim(claims...)
		each := excepted(t, b.Policy, classOf("stop", 1), claims...)
		decide(t, b.Policy, each[0])
		var stopped atomic.Bool
		var all sync.WaitGroup
		after := make([]bool, events)
		for i := 1; i < events; i++ {
			all.Go(func() {
				after[i] = stopped.Load()
				if _, err := b.Policy.Decide(t.Context(), each[i:i+1], func(_ *ledger.Decision, err error) { t.Error(err) }); err != nil {
					t.Error(err)
				}
			})
			if i == events/2 {
				all.Go(func() {
					judge(t, b, "stop-0", ledger.VerdictWrong)
					stopped.Store(true)
				})
			}
		}
		all.Wait()
		for i := 1; i < events; i++ {
			if after[i] {
				require.Equal(t, ledger.RunAwaitingHuman, b.Run(fmt.Sprintf("stop-%d", i)).State)
			}
		}
		require.Zero(t, b.Count(`select count(*) from exception_uses u join exception_classes c using (class_id)
where c.rule_id = 'stop' and u.used_at > c.stopped_at`))
	})

	t.Run("ASampleIsJudgedOnceAndASecondJudgementIsToldWhatStands", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("once", 1)
		b.Claim(claims...)
		decide(t, b.Policy, excepted(t, b.Policy, classOf("once", 1), claims...)...)
		first := judgement(b, "once-0", ledger.VerdictRight)
		for range 2 {
			done, err := b.Approval.JudgeSample(t.Context(), first)
			require.NoError(t, err)
			require.True(t, done.Stored)
		}
		second := judgement(b, "once-0", ledger.VerdictWrong)
		done, err := b.Approval.JudgeSample(t.Context(), second)
		require.NoError(t, err)
		require.False(t, done.Stored)
		require.Equal(t, []any{ledger.VerdictRight, "nora", false}, []any{done.Verdict, done.By, done.Stopped})
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'judge_sample' and run_id = $1`, first.RunID))

		second.SampleID = uuid.New()
		_, err = b.Approval.JudgeSample(t.Context(), second)
		require.ErrorIs(t, err, ledger.ErrNoSample)
	})

	t.Run("ARepeatedDecisionIsOneUse", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("again", 1)
		b.Claim(claims...)
		d := excepted(t, b.Policy, classOf("again", 1), claims...)[0]
		decide(t, b.Policy, d)
		decide(t, b.Policy, d)
		require.Equal(t, 1, b.Count(`select count(*) from exception_uses where run_id = $1`, d.Intent.RunID))
	})

	t.Run("WhatWaitsToBeSentSaysThatItsClassWasStopped", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("queued", 2)
		b.Claim(claims...)
		decide(t, b.Policy, excepted(t, b.Policy, classOf("queued", 1), claims...)...)
		require.Empty(t, b.Lease(time.Minute, effectOf("queued-0"))[0].StoppedRules)
		judge(t, b, "queued-0", ledger.VerdictWrong)
		require.Equal(t, []string{"queued"}, b.Lease(time.Minute, effectOf("queued-1"))[0].StoppedRules)
	})

	t.Run("SamplesAreListedForTheirAudience", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		claims := numbered("list", 1)
		b.Claim(claims...)
		decide(t, b.Policy, excepted(t, b.Policy, classOf("list", 1), claims...)...)
		mine := func(audience ...string) (found []ledger.Unattended) {
			list, err := b.Approval.Samples(t.Context(), []string{ledgertest.Tenant}, audience, 1000)
			require.NoError(t, err)
			for _, u := range list {
				if u.Key == "list-0" {
					found = append(found, u)
				}
			}
			return found
		}
		require.Empty(t, mine("finance"))
		require.Len(t, mine("finance", "reviewer"), 1)
		require.Equal(t, "list", mine("reviewer")[0].Samples[0].Rule)
		judge(t, b, "list-0", ledger.VerdictRight)
		require.Empty(t, mine("reviewer"))
		one, err := b.Approval.UnattendedOf(t.Context(), ledger.RunID(ledgertest.Tenant, "list-0"))
		require.NoError(t, err)
		require.Equal(t, "nora", *one.Samples[0].By)
		_, err = b.Approval.UnattendedOf(t.Context(), uuid.New())
		require.ErrorIs(t, err, ledger.ErrNoUnattended)
	})
}

// effectOf is the one effect of a run's first intent.
func effectOf(key string) ledger.EffectKey {
	return ledger.EffectKey{TenantID: ledgertest.Tenant, RunID: ledger.RunID(ledgertest.Tenant, key), Revision: 1, Ordinal: 1}
}
