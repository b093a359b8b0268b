package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestVote is A7: one transaction decides, with everything that follows, or nothing moves.
func TestVote(t *testing.T) {
	t.Parallel()

	t.Run("TheLastVoteNeededAuthorizesAndQueuesTheEffect", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		voted := b.Vote(asked.Vote("nora", ledger.Approve))[0]
		require.Equal(t, ledger.VoteApproved, voted.Result)
		require.Equal(t, ledger.RunApproved, b.Run("k").State)
		require.Equal(t, 1, b.Count(`select count(*) from effects e join authorizations a using (run_id, tenant_id, intent_hash, authorization_id)
where e.run_id = $1 and e.state = 'pending' and a.approval_id = $2 and a.approval_state = 'approved' and a.decision_id is null`,
			asked.Effect.RunID, asked.ApprovalID))
		require.Equal(t, asked.Effect.OperationID(), b.Text(`select operation_id from effects where run_id = $1`, asked.Effect.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from pending p join event_log e using (event_id) where e.run_id = $1
and e.subject = 'holdpoint.internal.effect.requested'`, asked.Effect.RunID))
		require.Len(t, b.Lease(time.Minute, asked.Effect), 1, "it can be sent now")
	})

	t.Run("ARejectionEndsTheRunAndQueuesNothing", func(t *testing.T) { // A9
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		require.Equal(t, ledger.VoteRejected, b.Vote(asked.Vote("nora", ledger.Reject))[0].Result)
		run := b.Run("k")
		require.Equal(t, ledger.RunFailedTerminal, run.State)
		require.Equal(t, ledger.OutcomeRejected, run.Outcome)
		require.Contains(t, b.Text(`select outcome_reason from runs where run_id = $1`, asked.Effect.RunID), "because")
		require.Zero(t, b.Count(`select count(*) from effects`))
		require.Zero(t, b.Count(`select count(*) from authorizations`))
	})

	t.Run("WhoComesLateIsToldWhatStands", func(t *testing.T) { // A8
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		b.Vote(asked.Vote("nora", ledger.Approve))
		late := b.Vote(asked.Vote("sam", ledger.Reject))[0]
		require.Equal(t, ledger.VoteLate, late.Result)
		require.Equal(t, ledger.ApprovalApproved, late.State)
		require.Len(t, late.Cast, 1)
		require.Equal(t, "nora", late.Cast[0].ReviewerID)
		require.Equal(t, ledger.RunApproved, b.Run("k").State)
	})

	t.Run("TheSameVoteSentAgainIsToldWhatItCameTo", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		vote := asked.Vote("nora", ledger.Approve)
		for _, voted := range b.Vote(vote, vote, vote) {
			require.Equal(t, ledger.VoteApproved, voted.Result)
		}
		require.Equal(t, 1, b.Count(`select count(*) from reviews`))
		require.Equal(t, 1, b.Count(`select count(*) from authorizations`))
	})

	t.Run("ShortOfTheQuorumNothingMoves", func(t *testing.T) { // A5
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		two := func(subject string) ledger.Vote {
			v := asked.Vote(subject, ledger.Approve)
			v.Quorum = 2
			return v
		}
		require.Equal(t, ledger.VoteCounted, b.Vote(two("nora"))[0].Result)
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
		require.Zero(t, b.Count(`select count(*) from effects`))
		require.Equal(t, ledger.VoteRepeated, b.Vote(two("nora"))[0].Result, "one person, one vote")
		require.Equal(t, ledger.VoteApproved, b.Vote(two("sam"))[0].Result)
	})

	t.Run("OneRejectionEndsItWhoeverHasApproved", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		first := asked.Vote("nora", ledger.Approve)
		first.Quorum = 3
		last := asked.Vote("sam", ledger.Reject)
		last.Quorum = 3
		b.Vote(first)
		require.Equal(t, ledger.VoteRejected, b.Vote(last)[0].Result)
	})

	t.Run("WhatWasShownMustBeWhatWouldRun", func(t *testing.T) { // A11, APR-03
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		vote := asked.Vote("nora", ledger.Approve)
		vote.Shown = canonical.Digest{1}
		require.Equal(t, ledger.VoteChanged, b.Vote(vote)[0].Result)
		require.Zero(t, b.Count(`select count(*) from reviews`))
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
	})

	t.Run("AWithdrawalThatIsMadeAgainIsToldThatItStands", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		w := ledger.Withdrawal{TenantID: asked.Effect.TenantID, RunID: asked.Effect.RunID, ApprovalID: asked.ApprovalID, By: "rita", Reason: "a mistake"}
		for range 3 {
			voted, err := b.Approval.Withdraw(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, ledger.VoteRejected, voted.Result)
		}
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'withdraw'`))
		w.By = "otto"
		voted, err := b.Approval.Withdraw(t.Context(), w)
		require.NoError(t, err)
		require.Equal(t, ledger.VoteLate, voted.Result)
	})

	t.Run("AnUnknownApprovalIsSaidToBeUnknown", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		vote := asked.Vote("nora", ledger.Approve)
		vote.TenantID = "another"
		require.Equal(t, ledger.VoteUnknown, b.Vote(vote)[0].Result, "another tenant's approval does not exist")
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
	})

	t.Run("AFailureRollsAllOfItBack", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		b.Exec(`revoke insert on pending from holdpoint_approval`)
		_, err := b.Approval.Vote(t.Context(), []ledger.Vote{asked.Vote("nora", ledger.Approve)})
		require.Error(t, err)
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
		for _, table := range []string{"reviews", "authorizations", "effects"} {
			require.Zero(t, b.Count(`select count(*) from `+table), table)
		}
		b.Exec(`grant insert on pending to holdpoint_approval`)
		require.Equal(t, ledger.VoteApproved, b.Vote(asked.Vote("nora", ledger.Approve))[0].Result)
	})
}

// TestDecideBy: a decision counts while now < decide-by, by the database's clock, whether or not anybody has expired it (APR-06).
func TestDecideBy(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("early", "late", "swept")
	b.Exec(`update approvals set decide_by = clock_timestamp() + interval '1 hour' where approval_id = $1`, asked[0].ApprovalID)
	b.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = any($1)`, []uuid.UUID{asked[1].ApprovalID, asked[2].ApprovalID})
	voted := b.Vote(asked[0].Vote("nora", ledger.Approve), asked[1].Vote("nora", ledger.Approve))
	require.Equal(t, ledger.VoteApproved, voted[0].Result)
	require.Equal(t, ledger.VoteExpired, voted[1].Result)
	require.Equal(t, ledger.RunAwaitingHuman, b.Run("late").State, "a late vote changes nothing")

	n, err := b.Approval.ExpireApprovals(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for _, key := range []string{"late", "swept"} {
		require.Equal(t, ledger.OutcomeExpired, b.Run(key).Outcome)
	}
	require.Equal(t, 1, b.Count(`select count(*) from effects`))
	n, err = b.Approval.ExpireApprovals(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n, "what has expired has expired")
}

// TestSentBack is D2 and A14: an approval whose effect was certainly not sent is asked for again; approved again, the same row is
// authorized again, and rejected, it is cancelled.
func TestSentBack(t *testing.T) {
	t.Parallel()
	back := func(t *testing.T) (*ledgertest.Bench, ledgertest.Asked) {
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		b.Vote(asked.Vote("nora", ledger.Approve))
		s := ledger.Settlement{EffectKey: asked.Effect, Move: "expire", HoldReason: ledger.HoldReview, NextCheck: ledger.Never,
			Review: &ledger.Review{Audience: []string{"reviewer"}, ReasonCodes: []string{"execute_by_passed"}, DecideWithin: time.Hour,
				ExecuteWithin: time.Hour, IntentHash: asked.IntentHash.String(), Revision: 1}, RunKey: "k", CorrelationID: "c"}
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{s})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
		return b, b.Pending("k")
	}

	t.Run("ApprovedAgainTheSameRowIsAuthorizedAgain", func(t *testing.T) {
		t.Parallel()
		b, again := back(t)
		operation := b.Text(`select operation_id from effects`)
		require.Equal(t, ledger.VoteApproved, b.Vote(again.Vote("nora", ledger.Approve))[0].Result)
		require.Equal(t, 1, b.Count(`select count(*) from effects where state = 'pending' and hold_reason is null`))
		require.Equal(t, operation, b.Text(`select operation_id from effects`))
		require.Equal(t, again.ApprovalID.String(), b.Text(`select a.approval_id from effects e join authorizations a using (run_id, tenant_id,
intent_hash, authorization_id)`))
		require.Len(t, b.Lease(time.Minute, again.Effect), 1)
	})

	t.Run("RejectedItIsCancelled", func(t *testing.T) {
		t.Parallel()
		b, again := back(t)
		require.Equal(t, ledger.VoteRejected, b.Vote(again.Vote("nora", ledger.Reject))[0].Result)
		require.Equal(t, ledger.EffectCancelled, b.Text(`select state from effects`))
	})

	t.Run("WhatMayHaveBeenSentIsNotApprovedAgain", func(t *testing.T) { // D6
		t.Parallel()
		b, again := back(t)
		b.Exec(`update effects set maybe_sent = true, first_sent_at = clock_timestamp()`)
		require.Equal(t, ledger.VoteChanged, b.Vote(again.Vote("nora", ledger.Approve))[0].Result)
		require.Equal(t, ledger.EffectHeld, b.Text(`select state from effects`))
	})
}

// TestToken is A2: a token is known by its hash, replaced by the next, and spent by a decision.
func TestToken(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	hash := func(text string) []byte { sum := sha256.Sum256([]byte(text)); return sum[:] }
	mint := func(a ledgertest.Asked, text, to string, decisions ...string) {
		minted, err := b.Approval.MintTokens(t.Context(), []ledger.Token{{Hash: hash(text), TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
			ApprovalID: a.ApprovalID, Recipient: to, Decisions: decisions}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, minted)
	}
	with := func(a ledgertest.Asked, subject, decision, token string) string {
		v := a.Vote(subject, decision)
		v.Token = hash(token)
		return b.Vote(v)[0].Result
	}
	asked := b.Asked("used", "other", "narrow", "old", "final")

	mint(asked[0], "first", "mail a@example", ledger.Approve, ledger.Reject)
	mint(asked[0], "second", "mail a@example", ledger.Approve, ledger.Reject)
	_, err := b.Approval.FindToken(t.Context(), hash("first"))
	require.ErrorIs(t, err, ledger.ErrNoToken, "a repeat revokes the one before")
	require.Equal(t, ledger.VoteTokenSpent, with(asked[0], "nora", ledger.Approve, "first"))
	found, err := b.Approval.FindToken(t.Context(), hash("second"))
	require.NoError(t, err)
	require.Equal(t, asked[0].ApprovalID, found.ApprovalID)
	require.Equal(t, ledger.VoteTokenSpent, with(asked[1], "nora", ledger.Approve, "second"), "it belongs to another approval")
	require.Equal(t, ledger.VoteApproved, with(asked[0], "nora", ledger.Approve, "second"))
	_, err = b.Approval.FindToken(t.Context(), hash("second"))
	require.ErrorIs(t, err, ledger.ErrNoToken, "it is used once")

	mint(asked[2], "narrow", "mail b@example", ledger.Reject)
	require.Equal(t, ledger.VoteTokenSpent, with(asked[2], "nora", ledger.Approve, "narrow"), "only for what it was minted for")

	mint(asked[3], "old", "mail c@example", ledger.Approve)
	b.Exec(`update approval_tokens set expires_at = clock_timestamp() where approval_id = $1`, asked[3].ApprovalID)
	require.Equal(t, ledger.VoteTokenSpent, with(asked[3], "nora", ledger.Approve, "old"))

	mint(asked[4], "one", "mail d@example", ledger.Approve)
	mint(asked[4], "two", "mail e@example", ledger.Approve)
	b.Vote(asked[4].Vote("nora", ledger.Reject))
	require.Zero(t, b.Count(`select count(*) from approval_tokens where approval_id = $1 and spent_at is null`, asked[4].ApprovalID))
	minted, err := b.Approval.MintTokens(t.Context(), []ledger.Token{{Hash: hash("late"), TenantID: asked[4].Effect.TenantID,
		RunID: asked[4].Effect.RunID, ApprovalID: asked[4].ApprovalID, Recipient: "mail d@example", Decisions: []string{ledger.Approve}}})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, minted, "nobody is sent a link to what is decided")
}

// TestRacingDecisions is A8 and APR-04, APR-05: of approve, reject, send back, expire and withdraw at once exactly one stands, a thousand times.
func TestRacingDecisions(t *testing.T) {
	t.Parallel()
	const races = 1000
	b := ledgertest.New(t)
	keys := make([]string, races)
	for i := range keys {
		keys[i] = fmt.Sprintf("race-%d", i)
	}
	asked := b.Asked(keys...)
	replicas := []*ledger.Ledger{b.Approval, b.Replica(ledger.Approval)}
	results := make([][4]string, races)
	b.Exec(`update approvals set decide_by = clock_timestamp() + (random() * interval '6 seconds')`)

	var group sync.WaitGroup
	race := func(way int, run func(i int) (ledger.Voted, error)) {
		group.Go(func() {
			for i := range races {
				voted, err := run(i)
				if err != nil {
					t.Errorf("race %d: %v", i, err)
					return
				}
				results[i][way] = voted.Result
			}
		})
	}
	vote := func(l *ledger.Ledger, subject, decision string) func(int) (ledger.Voted, error) {
		return func(i int) (ledger.Voted, error) {
			voted, err := l.Vote(t.Context(), []ledger.Vote{asked[i].Vote(subject, decision)})
			if err != nil {
				return ledger.Voted{}, err
			}
			return voted[0], nil
		}
	}
	race(0, vote(replicas[0], "nora", ledger.Approve))
	race(1, vote(replicas[1], "sam", ledger.Reject))
	race(3, func(i int) (ledger.Voted, error) {
		v := asked[i].Vote("lea", ledger.SendBack)
		v.Reason, v.Revisions = "once more", rounds
		voted, err := replicas[1].Vote(t.Context(), []ledger.Vote{v})
		if err != nil {
			return ledger.Voted{}, err
		}
		return voted[0], nil
	})
	race(2, func(i int) (ledger.Voted, error) {
		a := asked[i]
		return replicas[1].Withdraw(t.Context(), ledger.Withdrawal{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
			ApprovalID: a.ApprovalID, By: "rita", Reason: "a mistake"})
	})
	group.Go(func() {
		for range races {
			if _, err := replicas[0].ExpireApprovals(t.Context(), 50); err != nil {
				t.Errorf("expire: %v", err)
				return
			}
		}
	})
	group.Wait()
	b.Exec(`update approvals set decide_by = clock_timestamp() where state = 'pending'`)
	for n := 1; n > 0; {
		var err error
		n, err = b.Approval.ExpireApprovals(t.Context(), 200)
		require.NoError(t, err)
	}

	for i, r := range results {
		won := 0
		for _, result := range r {
			if result == ledger.VoteApproved || result == ledger.VoteRejected || result == ledger.VoteSentBack {
				won++
			}
		}
		require.LessOrEqual(t, won, 1, "race %d: %v", i, r)
	}
	require.Equal(t, races, b.Count(`select count(*) from approvals where state <> 'pending'`))
	require.Equal(t, races, b.Count(`select count(*) from approvals a join runs r using (run_id, tenant_id) where
  a.state = 'approved' and r.state = 'approved' or
  a.state = 'superseded' and r.state = 'processing' and r.revise_by is not null or r.state = 'failed_terminal' and (
    a.state = 'expired' and r.outcome = 'expired' or a.state in ('rejected', 'superseded') and r.outcome = 'rejected')`))
	require.Zero(t, b.Count(`select count(*) from approvals a left join effects e using (run_id, tenant_id)
  where (a.state = 'approved') <> (e.run_id is not null)`), "an effect exactly where it was approved")
	require.Equal(t, races, b.Count(`select count(*) from audit_events where move in ('approve', 'reject', 'send_back', 'expire', 'withdraw')`))
	for _, state := range []string{"approved", "rejected", "expired", "superseded"} {
		t.Logf("%s: %d", state, b.Count(`select count(*) from approvals where state = $1`, state))
	}
}

// TestGateGrants is D1 and A7: the gate can queue effects and do nothing else with them.
func TestGateGrants(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("k", "other")
	b.Vote(asked[0].Vote("nora", ledger.Approve))
	gate := b.DB.Pool("holdpoint_approval")
	for what, statement := range map[string]string{
		"lease":             `update effects set state = 'sending', lease_owner = gen_random_uuid(), lease_expires_at = now()`,
		"attempt":           `insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch) select tenant_id, run_id, revision, ordinal, 1, gen_random_uuid(), 1 from effects`,
		"decide as policy":  `insert into policy_decisions (tenant_id, run_id, intent_hash, decision_id, route, policy_version, inputs_hash, reasons) select tenant_id, run_id, intent_hash, gen_random_uuid(), 'auto', '', '', '[]' from intents`,
		"change a vote":     `update reviews set decision = 'reject'`,
		"change an intent":  `update intents set canonical = ''`,
		"rewrite the audit": `delete from audit_events`,
		"auto authorize":    `insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, execute_by) select tenant_id, run_id, intent_hash, gen_random_uuid(), gen_random_uuid(), 'auto', now() from intents`,
	} {
		_, err := gate.Exec(t.Context(), statement)
		require.ErrorContains(t, err, "permission denied", what)
	}
	_, err := gate.Exec(t.Context(), `insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, approval_id, approval_state, execute_by)
select tenant_id, run_id, intent_hash, gen_random_uuid(), approval_id, 'approved', now() from approvals where state = 'pending'`)
	require.ErrorContains(t, err, "authorizations_approval", "no authorization without an approval in state approved")
	policy := b.DB.Pool("holdpoint_policy")
	_, err = policy.Exec(t.Context(), `update approvals set state = 'approved', decided_at = now()`)
	require.ErrorContains(t, err, "permission denied", "nobody but the gate decides")
}
