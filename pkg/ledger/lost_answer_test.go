package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// racerPool is a pool of intake's whose sessions can be told from all others.
func racerPool(t *testing.T, b *ledgertest.Bench) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: b.DB.URL, Role: "holdpoint_intake", ApplicationName: "racer"})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// TestLostAnswer cuts the connection under every command, before the server sees the work and after it has committed it. The
// command is repeated by itself and must end as if nothing had happened: done once, and answered as done (STO-04, INT-04).
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	statement := map[string]int{"BeforeTheWork": ledgertest.BeforeExecute, "AfterTheCommit": ledgertest.AfterExecute}
	transaction := map[string]int{"BeforeTheCommit": ledgertest.BeforeCommit, "AfterTheCommit": ledgertest.AfterCommit}
	each := func(t *testing.T, cuts map[string]int, service string, run func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(skip int))) {
		for name, at := range cuts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := ledgertest.New(t)
				l, cut := b.Cut(service)
				armed := false
				run(t, b, l, func(skip int) { cut.Arm(at, skip); armed = true })
				require.True(t, armed && cut.Fired(), "the connection was cut")
			})
		}
	}

	t.Run("ClaimIsAccepted", func(t *testing.T) {
		t.Parallel()
		each(t, statement, ledger.Intake, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			arm(0)
			answers, err := l.Claim(t.Context(), []ledger.Claim{ledgertest.Worker("k1", time.Minute), ledgertest.Proposal("k2")})
			require.NoError(t, err)
			require.Equal(t, []string{contracts.ResultAccepted, contracts.ResultAccepted}, results(answers))
			require.Equal(t, b.Run("k1").LeaseOwner, answers[0].Run.LeaseOwner, "the worker owns its run")
			require.Positive(t, answers[0].Run.LeaseExpiresAt())
			require.Equal(t, 2, b.Count(`select count(*) from event_log join pending using (event_id)`))
			require.Equal(t, 2, b.Count(`select count(*) from audit_events`))
		})
	})

	t.Run("ReclaimIsAccepted", func(t *testing.T) {
		t.Parallel()
		each(t, statement, ledger.Intake, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			former := ledgertest.Worker("k1", time.Minute)
			require.Equal(t, contracts.ResultAccepted, b.Claim(former)[0].Result)
			b.Exec(`update runs set lease_expires_at = clock_timestamp() - interval '1 second'`)
			arm(2) // the insert and the look at the run come first
			answers, err := l.Claim(t.Context(), []ledger.Claim{ledgertest.Worker("k1", time.Minute)})
			require.NoError(t, err)
			require.Equal(t, contracts.ResultAccepted, answers[0].Result)
			require.Equal(t, 1, b.Run("k1").Takeovers)
		})
	})

	t.Run("OwnersMoveIsAccepted", func(t *testing.T) {
		t.Parallel()
		each(t, statement, ledger.Intake, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			var requests []ledger.Owned
			for key, with := range map[string]func(*ledger.Owned){
				"renew":  func(o *ledger.Owned) { o.Renew = time.Minute },
				"submit": func(o *ledger.Owned) { o.Submit = ledgertest.Intent("submit", "c-1") },
				"retry":  func(o *ledger.Owned) { o.Fail = &ledger.Failure{Retryable: true, Reason: "the model is down"} },
				"fail":   func(o *ledger.Owned) { o.Fail = &ledger.Failure{Reason: "no proposal"} },
			} {
				o := owning(b, key)
				with(&o)
				requests = append(requests, o)
			}
			arm(0)
			answers, err := l.Own(t.Context(), requests)
			require.NoError(t, err)
			for i, a := range answers {
				require.NoError(t, a.Err)
				require.Equal(t, contracts.ResultAccepted, a.Result, "%+v", requests[i])
				require.Equal(t, int64(2), a.Run.Version, "moved once")
			}
			require.Equal(t, 1, b.Count(`select count(*) from intents`))
		})
	})

	t.Run("DecisionCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, statement, ledger.Policy, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			c := ledgertest.Proposal("k1")
			b.Claim(c)
			waiting, err := l.Undecided(t.Context(), []ledger.IntentRef{ledgertest.Ref(c)})
			require.NoError(t, err)
			arm(0)
			moved, err := l.Decide(t.Context(), []ledger.Decision{ledgertest.Decision(&waiting[0], uuid.Must(uuid.NewV7()), config.RouteAuto)},
				func(_ *ledger.Decision, err error) { require.NoError(t, err) })
			require.NoError(t, err)
			require.Equal(t, 1, moved)
			require.Equal(t, 1, b.Count(`select count(*) from effects`))
			require.Equal(t, 1, b.Count(`select count(*) from policy_decisions`))
		})
	})

	t.Run("LeaseFindsItsEffects", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Dispatcher, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			effects := b.Approved("k1", "k2")
			owner := uuid.New()
			arm(0)
			leased, err := l.Lease(t.Context(), ledger.LeaseRequest{Owner: owner, Duration: time.Minute, Requested: effects,
				Free: map[string]int{ledgertest.Tenant + "/" + ledgertest.Connector: 10}})
			require.NoError(t, err)
			require.Len(t, leased, 2)
			require.Equal(t, 2, b.Count(`select count(*) from effect_attempts where owner = $1`, owner))
			require.Equal(t, 2, b.Count(`select count(*) from effects where state = 'sending' and attempts = 1 and lease_owner = $1`, owner))
		})
	})

	t.Run("SettlementCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, statement, ledger.Dispatcher, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			leased := b.Lease(time.Minute, b.Approved("k1", "k2")...)
			back := succeed(leased[1], "")
			back.Move = "retry"
			arm(0)
			moved, err := l.Settle(t.Context(), "record_outcomes", []ledger.Settlement{succeed(leased[0], "ext-1"), back})
			require.NoError(t, err)
			require.Equal(t, []bool{true, true}, moved)
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'succeed'`))
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'retry'`))
			require.Equal(t, 1, b.Count(`select count(*) from event_log where convert_from(payload, 'UTF8')::json->>'type' = $1`, contracts.TypeRunCompleted))
		})
	})

	t.Run("VoteCountsOnce", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			asked := b.Asked("k1", "k2", "k3")
			short := asked[2].Vote("nora", ledger.Approve)
			short.Quorum = 2
			arm(0)
			voted, err := l.Vote(t.Context(), []ledger.Vote{asked[0].Vote("nora", ledger.Approve), asked[1].Vote("nora", ledger.Reject), short})
			require.NoError(t, err)
			require.Equal(t, []string{ledger.VoteApproved, ledger.VoteRejected, ledger.VoteCounted},
				[]string{voted[0].Result, voted[1].Result, voted[2].Result})
			require.Equal(t, 3, b.Count(`select count(*) from reviews`))
			require.Equal(t, 1, b.Count(`select count(*) from effects`))
			require.Equal(t, 3, b.Count(`select count(*) from event_log where convert_from(payload, 'UTF8')::json->>'type' = $1`,
				contracts.TypeApprovalDecided))
		})
	})

	t.Run("WithdrawalCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			a := b.Asked("k1")[0]
			arm(0)
			voted, err := l.Withdraw(t.Context(), ledger.Withdrawal{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
				ApprovalID: a.ApprovalID, By: "rita", Reason: "a mistake"})
			require.NoError(t, err)
			require.Equal(t, ledger.VoteRejected, voted.Result)
		})
	})

	t.Run("TakingBackCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			held(t, b, "k1", time.Hour)
			arm(0)
			done, err := l.TakeBack(t.Context(), wish("k1"))
			require.NoError(t, err)
			require.True(t, done.Done)
		})
	})

	t.Run("JudgementCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			b.Claim(ledgertest.Proposal("k1"))
			decide(t, b.Policy, excepted(t, b.Policy, classOf("r", 1), ledgertest.Proposal("k1"))...)
			arm(0)
			done, err := l.JudgeSample(t.Context(), judgement(b, "k1", ledger.VerdictWrong))
			require.NoError(t, err)
			require.True(t, done.Stored)
			require.True(t, done.Stopped)
		})
	})

	t.Run("JudgementOfABrokenGlassCountsAsMade", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			a := b.Asked("k1")[0]
			b.Vote(broken(a, "otto"))
			arm(0)
			done, err := l.JudgeGlass(t.Context(), ledger.GlassJudgement{CommandID: uuid.New(), TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
				ApprovalID: a.ApprovalID, Verdict: ledger.VerdictRight, Channel: "web",
				Reviewer: ledger.Reviewer{Issuer: "https://id", Subject: "nora", ID: "nora"}})
			require.NoError(t, err)
			require.True(t, done.Stored)
		})
	})

	t.Run("RefusalIsKeptOnce", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			a := b.Asked("k1")[0]
			arm(0)
			require.NoError(t, l.RecordRefusal(t.Context(), ledger.Refused{TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
				ApprovalID: a.ApprovalID, By: "carl", Issuer: "i", Subject: "carl", Decision: ledger.Approve, Code: "wrong_role", Channel: "api"}))
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'refuse_vote'`))
		})
	})

	t.Run("TokenIsMintedOnce", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Approval, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			a := b.Asked("k1")[0]
			arm(0)
			minted, err := l.MintTokens(t.Context(), []ledger.Token{{Hash: make([]byte, 32), TenantID: a.Effect.TenantID, RunID: a.Effect.RunID,
				ApprovalID: a.ApprovalID, Recipient: "mail a@example", Decisions: []string{ledger.Approve}}})
			require.NoError(t, err)
			require.Equal(t, []bool{true}, minted)
			require.Equal(t, 1, b.Count(`select count(*) from approval_tokens where spent_at is null`))
		})
	})

	t.Run("SwitchIsClosed", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Operator, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			arm(0)
			_, err := l.SetSwitch(t.Context(), ledger.Switch{Scope: ledger.ScopeGlobal, Closed: true, ChangedBy: "olga", Reason: "test"})
			require.NoError(t, err)
			switches, err := b.Dispatcher.Switches(t.Context())
			require.NoError(t, err)
			require.NotNil(t, switches.Stops(ledgertest.Tenant, ledgertest.ActionType, ledgertest.Connector))
		})
	})

	t.Run("PolicyIsActivatedOnce", func(t *testing.T) {
		t.Parallel()
		each(t, transaction, ledger.Operator, func(t *testing.T, b *ledgertest.Bench, l *ledger.Ledger, arm func(int)) {
			arm(0)
			active, changed, err := l.ActivatePolicy(t.Context(), activation("one"))
			require.NoError(t, err)
			require.True(t, changed)
			require.EqualValues(t, 1, active.Ordinal)
			require.Equal(t, 1, b.Count(`select count(*) from policy_activations where tenant_id = 'acme'`))
		})
	})

	t.Run("CallerWhoGoesAwayUndoesNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		answers, err := b.Intake.Claim(ctx, []ledger.Claim{ledgertest.Proposal("k1")})
		require.NoError(t, err)
		require.Equal(t, contracts.ResultAccepted, answers[0].Result)
	})

	t.Run("OutageIsToldAsOneAndBlamesNoItem", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		pool := racerPool(t, b)
		l, err := ledger.New(ledger.Config{Pool: pool, Service: ledger.Intake})
		require.NoError(t, err)
		pool.Close()
		answers, err := l.Claim(t.Context(), []ledger.Claim{ledgertest.Proposal("k1")})
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.Empty(t, answers)
	})
}
