package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// rounds let a proposal be sent back once.
var rounds = ledger.Revisions{Rounds: 1, Within: time.Hour}

// repaired decides that a run's proposal has to be better.
func repaired(t *testing.T, b *ledgertest.Bench, u *ledger.Undecided) {
	t.Helper()
	d := ledgertest.Decision(u, newID(), config.RouteRepair)
	d.Revisions = rounds
	d.Reasons = []byte(`[{"code":"rule_matched","rule_id":"r","message":"Name the contact."}]`)
	decide(t, b.Policy, d)
}

// given takes the one run that waits at a source.
func given(t *testing.T, b *ledgertest.Bench, source string) (ledger.Task, uuid.UUID) {
	t.Helper()
	owner := uuid.New()
	tasks, spent, err := b.Intake.Take(t.Context(), ledger.Take{TenantID: ledgertest.Tenant, Source: source, Max: 10, Attempts: 5,
		Lease: ledger.LeaseTerms{Owner: owner, Duration: time.Minute, MaxLifetime: time.Hour}})
	require.NoError(t, err)
	require.Empty(t, spent)
	require.Len(t, tasks, 1)
	return tasks[0], owner
}

// sourceOf is a claim of a source of its own, so that its workers are given nobody else's runs.
func sourceOf(b *ledgertest.Bench, key string) string {
	b.Claim(ledgertest.Proposal(key))
	b.Exec(`update runs set source = 'source-' || idempotency_key where run_id = $1`, ledger.RunID(ledgertest.Tenant, key))
	return "source-" + key
}

// revised is the second intent of a run, which waits for policy.
func revised(t *testing.T, b *ledgertest.Bench, key string) *ledger.Undecided {
	t.Helper()
	waiting, err := b.Policy.Undecided(t.Context(), []ledger.IntentRef{{EventID: newID(), TenantID: ledgertest.Tenant,
		RunID: ledger.RunID(ledgertest.Tenant, key), IntentHash: better(key, 2).Hash}})
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	return &waiting[0]
}

// better is a second intent of a run.
func better(key string, revision int) *ledger.Intent {
	i := ledgertest.Intent(key, fmt.Sprintf("c-%d", revision))
	i.Revision = revision
	return i
}

// revisedBy is a run whose proposal was sent back, and who has it now.
func revisedBy(t *testing.T, b *ledgertest.Bench, key string) (ledger.Task, uuid.UUID) {
	t.Helper()
	source := sourceOf(b, key)
	repaired(t, b, undecided(t, b, key))
	return given(t, b, source)
}

func under(task ledger.Task, owner uuid.UUID) ledger.Owned {
	return ledger.Owned{TenantID: task.Run.TenantID, RunID: task.Run.RunID, Owner: owner, Version: task.Run.Version, Revising: true}
}

func ownOne(t *testing.T, b *ledgertest.Bench, o ledger.Owned) ledger.Claimed {
	t.Helper()
	answers, err := b.Intake.Own(t.Context(), []ledger.Owned{o})
	require.NoError(t, err)
	require.NoError(t, answers[0].Err)
	return answers[0]
}

func TestRevisions(t *testing.T) { // P2, A18
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("WhatARuleSendsBackIsGivenToAWorkerWithWhyAndABetterOneIsDecidedAnew", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		source := sourceOf(b, "repair")
		repaired(t, b, undecided(t, b, "repair"))
		run := b.Run("repair")
		require.Equal(t, ledger.RunProcessing, run.State)
		require.NotNil(t, run.ReviseBy)
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1 and convert_from(payload, 'UTF8')::json->>'type' = $2`,
			run.RunID, contracts.TypeRunSentBack))

		task, owner := given(t, b, source)
		require.Equal(t, []any{1, "policy"}, []any{task.SentBack.Revision, task.SentBack.By})
		require.Contains(t, string(task.SentBack.Reasons), "Name the contact.")
		require.NotEmpty(t, task.SentBack.Canonical)
		o := under(task, owner)
		o.Submit = better("repair", 2)
		require.Equal(t, contracts.ResultAccepted, ownOne(t, b, o).Result)
		run = b.Run("repair")
		require.Nil(t, run.ReviseBy)
		require.Equal(t, 2, run.IntentRevision)
		repaired(t, b, revised(t, b, "repair"))
		require.Equal(t, []string{ledger.RunFailedTerminal, ledger.OutcomeInvalid}, []string{b.Run("repair").State, b.Run("repair").Outcome},
			"the rounds are used up")
	})

	t.Run("WhatWaitsForABetterProposalIsDecidedByNobody", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		sourceOf(b, "waits")
		u := undecided(t, b, "waits")
		repaired(t, b, undecided(t, b, "waits"))
		decide(t, b.Policy, ledgertest.Decision(u, newID(), config.RouteAuto))
		require.Equal(t, ledger.RunProcessing, b.Run("waits").State)
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, u.RunID))
	})

	t.Run("TheFirstProposalCannotComeAgainAndOneRevisionIsOne", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		source := sourceOf(b, "race")
		repaired(t, b, undecided(t, b, "race"))
		task, owner := given(t, b, source)
		o := under(task, owner)
		o.Submit = better("race", 1)
		require.Equal(t, contracts.ResultOwnershipLost, ownOne(t, b, o).Result)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				o := under(task, owner)
				o.Submit = better("race", 2)
				if _, err := b.Intake.Own(t.Context(), []ledger.Owned{o}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 2, b.Count(`select count(*) from intents where run_id = $1`, task.Run.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'submit'`, task.Run.RunID))
	})

	t.Run("AWorkerThatGivesUpPutsItBackAndItNeverBecomesRetryable", func(t *testing.T) { // K6
		t.Parallel()
		b := shared.For(t)
		source := sourceOf(b, "put")
		repaired(t, b, undecided(t, b, "put"))
		task, owner := given(t, b, source)
		o := under(task, owner)
		o.Fail = &ledger.Failure{Retryable: true, Reason: "no model"}
		require.Equal(t, contracts.ResultAccepted, ownOne(t, b, o).Result)
		require.Equal(t, ledger.RunProcessing, b.Run("put").State)
		claimed := b.Claim(ledgertest.Worker("put", time.Minute))
		require.NotEqual(t, contracts.ResultAccepted, claimed[0].Result, "a duplicate is given no lease")
		again, _ := given(t, b, source)
		require.Equal(t, 2, again.Run.Attempts)
	})

	t.Run("APersonSendsItBackAndNothingOfItIsSent", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		asked := b.Asked("person")[0]
		b.Exec(`update runs set source = 'source-person' where run_id = $1`, asked.Effect.RunID)
		v := asked.Vote("nora", ledger.SendBack)
		v.Reason, v.Revisions = "Another amount.", rounds
		for range 2 {
			require.Equal(t, ledger.VoteSentBack, b.Vote(v)[0].Result, "the same vote again is told the same")
		}
		late := asked.Vote("sam", ledger.Approve)
		require.Equal(t, ledger.VoteLate, b.Vote(late)[0].Result)
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, asked.Effect.RunID))
		task, owner := given(t, b, "source-person")
		require.Contains(t, string(task.SentBack.Reasons), "Another amount.")
		require.Equal(t, "nora", task.SentBack.By)
		o := under(task, owner)
		o.Submit = better("person", 2)
		require.Equal(t, contracts.ResultAccepted, ownOne(t, b, o).Result)
		decide(t, b.Policy, ledgertest.Decision(revised(t, b, "person"), newID(), config.RouteHumanReview))
		second := b.Pending("person")
		require.NotEqual(t, asked.ApprovalID, second.ApprovalID)
		v = second.Vote("nora", ledger.SendBack)
		v.Revisions = rounds
		require.Equal(t, ledger.VoteNoRounds, b.Vote(v)[0].Result)
		require.Equal(t, ledger.VoteApproved, b.Vote(second.Vote("nora", ledger.Approve))[0].Result)
		require.Equal(t, 1, b.Count(`select count(*) from effects where run_id = $1 and revision = 2`, asked.Effect.RunID))
	})

	t.Run("WhatNobodyRevisesInTimeEnds", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t) // of its own: all that is overdue ends together
		for _, key := range []string{"lapsed", "leased", "young"} {
			sourceOf(b, key)
			repaired(t, b, undecided(t, b, key))
		}
		given(t, b, "source-leased")
		b.Exec(`update runs set revise_by = clock_timestamp() where idempotency_key in ('lapsed', 'leased')`)
		n, err := b.Approval.Lapse(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		run := b.Run("lapsed")
		require.Equal(t, []string{ledger.RunFailedTerminal, ledger.OutcomeExpired}, []string{run.State, run.Outcome})
		require.Zero(t, b.Count(`select count(*) from waiting_runs where run_id = $1`, run.RunID))
		require.Equal(t, ledger.RunProcessing, b.Run("leased").State, "its worker may still submit")
		require.Equal(t, ledger.RunProcessing, b.Run("young").State)
	})
}
