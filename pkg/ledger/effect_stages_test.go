package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// failing is a settlement after a refusal.
func failing(e ledger.Leased) ledger.Settlement {
	s := succeed(e, "")
	s.Move, s.MaybeSent, s.Reason = "refuse", false, "the provider refused"
	s.Outcome = &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "refused", HTTPStatus: 422}
	return s
}

// losing is a settlement after a call that nobody knows the end of.
func losing(e ledger.Leased) ledger.Settlement {
	s := succeed(e, "")
	s.Move, s.NextCheck = "lose", 0
	s.Outcome = &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "ambiguous", Sent: true}
	return s
}

// returning is a settlement that asks people again.
func returning(b *ledgertest.Bench, e ledger.Leased) ledger.Settlement {
	s := succeed(e, "")
	s.Move, s.HoldReason, s.MaybeSent = "review", ledger.HoldReview, false
	s.Outcome = &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: "version_conflict", HTTPStatus: 412}
	s.Review = &ledger.Review{Audience: []string{"reviewer"}, ReasonCodes: []string{"target_changed"}, DecideWithin: time.Hour,
		ExecuteWithin: time.Hour, Revision: 1,
		IntentHash: b.Text(`select encode(intent_hash, 'hex') from intents where run_id = $1`, e.RunID)}
	return s
}

func settled(t *testing.T, b *ledgertest.Bench, settlements ...ledger.Settlement) {
	t.Helper()
	moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", settlements)
	require.NoError(t, err)
	require.NotContains(t, moved, false)
}

// askedAboutTheRest makes a run of two effects, of which one is done, or on its way, and people are asked about the other again.
func askedAboutTheRest(t *testing.T, b *ledgertest.Bench, key string, done bool) []ledger.EffectKey {
	t.Helper()
	effects := b.ApprovedStages(key, 1, 1)
	leased := b.Lease(time.Minute, effects...)
	require.Len(t, leased, 2)
	if done {
		settled(t, b, succeed(leased[0], "x-1"))
	}
	settled(t, b, returning(b, leased[1]))
	return effects
}

func states(b *ledgertest.Bench, key string) string {
	return b.Text(`select string_agg(state, ' ' order by ordinal) from effects where run_id = $1`, ledger.RunID(ledgertest.Tenant, key))
}

// ends are the types and outcomes of the events that told of the end of a run.
func ends(t *testing.T, b *ledgertest.Bench, key string) (told []string) {
	rows, err := b.Owner.Query(t.Context(), `select payload from event_log where run_id = $1 and subject ~ 'run\.(completed|ended)$'`,
		ledger.RunID(ledgertest.Tenant, key))
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var payload []byte
		require.NoError(t, rows.Scan(&payload))
		event, err := contracts.Decode(payload)
		require.NoError(t, err)
		switch data := event.Data.(type) {
		case *contracts.RunCompleted:
			told = append(told, "completed "+data.Outcome+" "+data.TargetReceipt)
		case *contracts.RunEnded:
			told = append(told, "ended "+data.Outcome)
		}
	}
	return told
}

func TestEffectStages(t *testing.T) { // D10
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("ALaterStageWaitsUntilAllOfTheEarlierAreDone", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("wait", 1, 1, 2, 5)
		leased := b.Lease(time.Minute, effects...)
		require.Len(t, leased, 2, "those of one stage go out beside each other")
		settled(t, b, succeed(leased[0], "x-1"))
		require.Empty(t, b.Lease(time.Minute, effects...))
		require.Equal(t, ledger.RunApproved, b.Run("wait").State)
		settled(t, b, succeed(leased[1], "x-2"))
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject = 'holdpoint.internal.effect.requested'
and convert_from(payload, 'UTF8')::json->'data'->>'operation_id' = $2`, effects[2].RunID, effects[2].OperationID()),
			"the dispatcher is asked for the next stage at once")
		for i := 2; i < 4; i++ {
			leased = b.Lease(time.Minute, effects...)
			require.Len(t, leased, 1)
			require.Equal(t, effects[i], leased[0].EffectKey)
			require.Empty(t, ends(t, b, "wait"))
			settled(t, b, succeed(leased[0], fmt.Sprint("x-", i+1)))
		}
		run := b.Run("wait")
		require.Equal(t, []string{ledger.RunCompleted, ledger.OutcomeExecuted}, []string{run.State, run.Outcome})
		require.Equal(t, []string{"completed executed x-4"}, ends(t, b, "wait"))
	})

	t.Run("WhatIsUnknownOrHeldHoldsTheLaterStages", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("unknown", 1, 2)
		settled(t, b, losing(b.Lease(time.Minute, effects...)[0]))
		require.Empty(t, b.Lease(time.Minute, effects...))
		b.Exec(`update effects set next_check_at = clock_timestamp(), execute_by = clock_timestamp() where run_id = $1`, effects[0].RunID)
		late, err := b.Reconciler.Due(t.Context(), []string{ledgertest.Tenant + "/" + ledgertest.Connector}, ledger.Overdue, 100, time.Minute)
		require.NoError(t, err)
		for _, e := range late {
			require.NotEqual(t, effects[1], e.EffectKey, "what waits for its stage is not late")
		}
		b.Exec(`update effects set execute_by = clock_timestamp() + interval '1 hour' where run_id = $1`, effects[0].RunID)
		require.Empty(t, b.Lease(time.Minute, effects...))
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: effects[0], Move: "find",
			ExternalID: "found", NextCheck: ledger.Never, MaybeSent: true, RunKey: "unknown", CorrelationID: "c",
			Looked: &ledger.Looked{Verdict: "found", Conclusive: true, ExternalID: "found", Evidence: "it is there"}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		require.Len(t, b.Lease(time.Minute, effects...), 1, "once it is found, the next stage goes")
	})

	t.Run("AFailureCancelsTheLaterStages", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("partial", 1, 2, 3)
		settled(t, b, succeed(b.Lease(time.Minute, effects...)[0], "x-1"))
		settled(t, b, failing(b.Lease(time.Minute, effects...)[0]))
		require.Equal(t, "completed failed cancelled", states(b, "partial"))
		run := b.Run("partial")
		require.Equal(t, []string{ledger.RunCompleted, ledger.OutcomePartial}, []string{run.State, run.Outcome})
		require.Equal(t, []string{"completed partial x-1"}, ends(t, b, "partial"))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'drop'`, effects[0].RunID))

		effects = b.ApprovedStages("failed", 1, 2, 3)
		settled(t, b, failing(b.Lease(time.Minute, effects...)[0]))
		require.Equal(t, "failed cancelled cancelled", states(b, "failed"))
		require.Equal(t, ledger.OutcomeFailed, b.Run("failed").Outcome, "nothing of it was done")
		require.Equal(t, []string{"ended failed"}, ends(t, b, "failed"))
		require.Empty(t, b.Lease(time.Minute, effects...))
	})

	t.Run("AFailureLeavesWhatIsOnItsWayAlone", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("beside", 1, 1, 2)
		leased := b.Lease(time.Minute, effects...)
		settled(t, b, failing(leased[0]))
		require.Equal(t, "failed sending cancelled", states(b, "beside"))
		require.Equal(t, ledger.RunApproved, b.Run("beside").State, "nobody knows yet what the run comes to")
		settled(t, b, succeed(leased[1], "x-2"))
		require.Equal(t, []string{"completed partial x-2"}, ends(t, b, "beside"))
	})

	t.Run("AnOperatorWhoGivesUpCancelsTheLaterStages", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("given-up", 1, 2)
		settled(t, b, losing(b.Lease(time.Minute, effects...)[0]))
		done, err := b.Operator.Resolve(t.Context(), resolution(effects[0], "give_up"))
		require.NoError(t, err)
		require.True(t, done.Made())
		require.Equal(t, "failed cancelled", states(b, "given-up"))
		require.Equal(t, []string{"ended failed"}, ends(t, b, "given-up"))
	})

	t.Run("OfManyThatEndAtOnceOneEndsTheRun", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		var group errgroup.Group
		for n := range 20 {
			key := fmt.Sprint("race-", n)
			for i, e := range b.Lease(time.Minute, b.ApprovedStages(key, 1, 1, 1, 1)...) {
				s := succeed(e, fmt.Sprint("x-", i))
				group.Go(func() error {
					_, err := b.Dispatcher.Settle(context.WithoutCancel(t.Context()), "record_outcomes", []ledger.Settlement{s})
					return err
				})
			}
		}
		require.NoError(t, group.Wait())
		for n := range 20 {
			key := fmt.Sprint("race-", n)
			require.Equal(t, ledger.OutcomeExecuted, b.Run(key).Outcome, key)
			require.Len(t, ends(t, b, key), 1, key)
		}
	})

	t.Run("ARepeatedSettlementChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("again", 1, 2)
		s := succeed(b.Lease(time.Minute, effects...)[0], "x-1")
		settled(t, b, s)
		moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, moved)
		require.Equal(t, "completed pending", states(b, "again"))
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1 and convert_from(payload, 'UTF8')::json->'data'->>
'operation_id' = $2`, effects[0].RunID, effects[1].OperationID()))
	})
}

func TestReviewOfTheRest(t *testing.T) { // D10, D2, A14
	t.Parallel()
	shared := ledgertest.New(t)
	asked := func(t *testing.T, key string, done bool) (*ledgertest.Bench, []ledger.EffectKey, ledgertest.Asked) {
		b := shared.For(t)
		effects := askedAboutTheRest(t, b, key, done)
		return b, effects, b.Pending(key)
	}
	vote := func(a ledgertest.Asked, key, decision string) ledger.Vote {
		v := a.Vote("nora", decision)
		v.Effects = ledgertest.EffectsOf(key, 1, 1)
		return v
	}

	t.Run("OnlyWhatWasNotSentIsAuthorizedAgain", func(t *testing.T) {
		t.Parallel()
		b, effects, again := asked(t, "approve", true)
		first := b.Text(`select authorization_id from effects where run_id = $1 and ordinal = 1`, effects[0].RunID)
		require.Equal(t, ledger.VoteApproved, b.Vote(vote(again, "approve", ledger.Approve))[0].Result)
		require.Equal(t, "completed pending", states(b, "approve"))
		require.Equal(t, first, b.Text(`select authorization_id from effects where run_id = $1 and ordinal = 1`, effects[0].RunID))
		leased := b.Lease(time.Minute, effects...)
		require.Len(t, leased, 1)
		settled(t, b, succeed(leased[0], "x-2"))
		require.Equal(t, []string{"completed executed x-2"}, ends(t, b, "approve"))
	})

	t.Run("WhatWaitedForItsStageIsAuthorizedWithIt", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("later", 1, 2)
		settled(t, b, returning(b, b.Lease(time.Minute, effects...)[0]))
		b.Exec(`update effects set execute_by = clock_timestamp() where run_id = $1`, effects[0].RunID)
		v := b.Pending("later").Vote("nora", ledger.Approve)
		v.Effects = ledgertest.EffectsOf("later", 1, 2)
		require.Equal(t, ledger.VoteApproved, b.Vote(v)[0].Result)
		require.Equal(t, 2, b.Count(`select count(*) from effects e join authorizations a using (run_id, tenant_id, intent_hash, authorization_id)
where e.run_id = $1 and e.execute_by > clock_timestamp() and a.approval_id is not null`, effects[0].RunID))
		settled(t, b, succeed(b.Lease(time.Minute, effects...)[0], "x-1"))
		require.Len(t, b.Lease(time.Minute, effects...), 1)
	})

	t.Run("RejectedWhatIsDoneStays", func(t *testing.T) {
		t.Parallel()
		b, _, again := asked(t, "reject", true)
		require.Equal(t, ledger.VoteRejected, b.Vote(vote(again, "reject", ledger.Reject))[0].Result)
		require.Equal(t, "completed cancelled", states(b, "reject"))
		run := b.Run("reject")
		require.Equal(t, []string{ledger.RunCompleted, ledger.OutcomePartial}, []string{run.State, run.Outcome})
		require.Contains(t, run.OutcomeReason, "because")
		require.Equal(t, []string{"completed partial x-1"}, ends(t, b, "reject"))
	})

	t.Run("RejectedWhatIsOnItsWayGoesOn", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("resume", 1, 1)
		leased := b.Lease(time.Minute, effects...)
		settled(t, b, returning(b, leased[1]))
		require.Equal(t, ledger.VoteRejected, b.Vote(vote(b.Pending("resume"), "resume", ledger.Reject))[0].Result)
		require.Equal(t, ledger.RunApproved, b.Run("resume").State)
		require.Empty(t, ends(t, b, "resume"))
		settled(t, b, succeed(leased[0], "x-1"))
		require.Equal(t, []string{"completed partial x-1"}, ends(t, b, "resume"))
		require.Contains(t, b.Run("resume").OutcomeReason, "because", "the run says why it is not whole")
	})

	t.Run("ExpiredItIsPartial", func(t *testing.T) {
		t.Parallel()
		b, _, again := asked(t, "expire", true)
		b.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, again.ApprovalID)
		_, err := b.Approval.ExpireApprovals(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, "completed cancelled", states(b, "expire"))
		require.Equal(t, ledger.OutcomePartial, b.Run("expire").Outcome)
	})

	t.Run("AnotherRevisionCannotTakeThePlaceOfWhatIsDone", func(t *testing.T) {
		t.Parallel()
		b, _, again := asked(t, "back", true)
		v := vote(again, "back", ledger.SendBack)
		v.Revisions = rounds
		require.Equal(t, ledger.VoteNoRounds, b.Vote(v)[0].Result)
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("back").State)
	})
}

func TestTakeBackOfSeveral(t *testing.T) { // D14
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("AllOfThemAreTakenBack", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		b.ApprovedStages("all", 1, 2)
		require.True(t, takeBack(t, b, "all").Done)
		require.Equal(t, "cancelled cancelled", states(b, "all"))
		require.Equal(t, []string{"ended rejected"}, ends(t, b, "all"))
	})

	t.Run("NoneIsWhereOneHasBegun", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.ApprovedStages("none", 1, 2)
		require.Len(t, b.Lease(time.Minute, effects...), 1)
		require.False(t, takeBack(t, b, "none").Done)
		require.Equal(t, "sending pending", states(b, "none"))
	})
}

func TestLimitsOfSeveral(t *testing.T) { // P8, D10
	t.Parallel()
	b := ledgertest.New(t)
	claim := ledgertest.Proposal("limited")
	b.Claim(claim)
	waiting, err := b.Policy.Undecided(t.Context(), []ledger.IntentRef{ledgertest.Ref(claim)})
	require.NoError(t, err)
	d := ledgertest.Decision(&waiting[0], uuid.Must(uuid.NewV7()), config.RouteAuto)
	d.PolicyVersion, d.Effects = b.PolicyVersion, ledgertest.EffectsOf("limited", 1, 2)
	draw := ledger.Draw{Limit: "crm.contact.update/daily", Window: time.Hour, Count: 1}
	other := draw
	draw.Ordinal, other.Ordinal = 1, 2
	var over *ledger.Exceeded
	d.Limits = &ledger.LimitCheck{Draws: []ledger.Draw{draw, other}, Review: func(e *ledger.Exceeded) ledger.Decision {
		over = e
		review := d
		review.Route, review.Limits, review.Reasons = config.RouteHumanReview, nil, json.RawMessage(`[]`)
		return review
	}}
	_, err = b.Policy.Decide(t.Context(), []ledger.Decision{d}, func(_ *ledger.Decision, err error) { require.NoError(t, err) })
	require.NoError(t, err)
	require.NotNil(t, over, "the second effect of one intent finds the budget used up by the first")
	require.Equal(t, int64(1), over.UsedCount)
	require.Equal(t, ledger.RunAwaitingHuman, b.Run("limited").State)
	require.Zero(t, b.Count(`select count(*) from limit_draws`))
}
