package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// owning claims a run for a worker and is what that worker shows for its next move.
func owning(b *ledgertest.Bench, key string) ledger.Owned {
	c := ledgertest.Worker(key, time.Minute)
	run := b.Claim(c)[0].Run
	return ledger.Owned{TenantID: c.TenantID, RunID: run.RunID, Owner: c.Lease.Owner, Version: run.Version,
		Ref: contracts.RunRef{TenantID: c.TenantID, RunID: run.RunID.String(), IdempotencyKey: key, CorrelationID: c.CorrelationID}}
}

func own(t *testing.T, b *ledgertest.Bench, requests ...ledger.Owned) []ledger.Claimed {
	t.Helper()
	answers, err := b.Intake.Own(t.Context(), requests)
	require.NoError(t, err)
	return answers
}

func TestOwn(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)
	seconds := func(b *ledgertest.Bench, o ledger.Owned, expression string) string {
		return b.Text(`select round(extract(epoch from `+expression+`))::text from runs where run_id = $1`, o.RunID)
	}

	t.Run("RenewalLengthensTheLease", func(t *testing.T) { // K7
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "renew")
		o.Renew = 10 * time.Minute
		answer := own(t, b, o)[0]
		require.Equal(t, contracts.ResultAccepted, answer.Result)
		require.Equal(t, int64(2), answer.Run.Version)
		require.Equal(t, "600", seconds(b, o, "lease_expires_at - updated_at"))
		o.Version = 2
		require.Equal(t, contracts.ResultAccepted, own(t, b, o)[0].Result, "with the version of the renewal")
	})

	t.Run("RenewalNeverPassesTheCap", func(t *testing.T) { // K7
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "cap")
		o.Renew = 24 * time.Hour // the cap is one hour after the claim
		require.Equal(t, contracts.ResultAccepted, own(t, b, o)[0].Result)
		require.Equal(t, "3600", seconds(b, o, "lease_expires_at - created_at"))
		require.Equal(t, "0", seconds(b, o, "lease_cap_at - lease_expires_at"))
	})

	t.Run("FirstLeaseNeverPassesTheCap", func(t *testing.T) { // K7
		t.Parallel()
		b := shared.For(t)
		c := ledgertest.Worker("short-cap", time.Hour)
		c.Lease.MaxLifetime = time.Minute
		answer := b.Claim(c)[0]
		require.Equal(t, "0", b.Text(`select extract(epoch from lease_cap_at - lease_expires_at)::int::text from runs where run_id = $1`, answer.Run.RunID))
		require.WithinDuration(t, time.Now().Add(time.Minute), answer.Run.LeaseExpiresAt(), 30*time.Second)
	})

	t.Run("SubmissionEndsTheLease", func(t *testing.T) { // K6
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "submit")
		o.Submit = ledgertest.Intent("submit", "c-1")
		answer := own(t, b, o)[0]
		require.Equal(t, contracts.ResultAccepted, answer.Result)
		require.Equal(t, uuid.Nil, answer.Run.LeaseOwner)
		require.Equal(t, 1, answer.Run.IntentRevision)
		require.Equal(t, string(o.Submit.Canonical), b.Text(`select convert_from(canonical, 'UTF8') from intents where run_id = $1`, o.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from event_log join pending using (event_id) where run_id = $1
and convert_from(payload, 'UTF8')::json->>'type' = 'holdpoint.intent.submitted.v1'`, o.RunID))

		require.Equal(t, contracts.ResultAccepted, own(t, b, o)[0].Result, "who repeats the submission is answered as the first time")
		renewal := o
		renewal.Submit, renewal.Renew, renewal.Version = nil, time.Minute, 2
		require.Equal(t, contracts.ResultOwnershipLost, own(t, b, renewal)[0].Result)
		require.Equal(t, contracts.ResultDuplicate, b.Claim(ledgertest.Worker("submit", time.Minute))[0].Result, "nobody can reclaim it")
	})

	t.Run("RunThatWasGivenBackCanBeClaimedAgain", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "retry")
		o.Fail = &ledger.Failure{Retryable: true, Reason: "the model is down"}
		answer := own(t, b, o)[0]
		require.Equal(t, ledger.RunFailedRetryable, answer.Run.State)
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1`, o.RunID), "nobody is told of a run that goes on")
		require.Equal(t, contracts.ResultAccepted, b.Claim(ledgertest.Worker("retry", time.Minute))[0].Result)
		require.Equal(t, 0, b.Run("retry").Takeovers, "nothing was taken from anybody")
	})

	for name, invalid := range map[string]bool{ledger.OutcomeFailed: false, ledger.OutcomeInvalid: true} {
		t.Run("RunEndsAs"+name, func(t *testing.T) { // K9
			t.Parallel()
			b := shared.For(t)
			o := owning(b, name)
			o.Fail = &ledger.Failure{Invalid: invalid, Reason: "no valid proposal"}
			answer := own(t, b, o)[0]
			require.Equal(t, contracts.ResultAccepted, answer.Result)
			require.Equal(t, ledger.RunFailedTerminal, answer.Run.State)
			require.Equal(t, name, answer.Run.Outcome)
			require.Equal(t, name, b.Text(`select convert_from(payload, 'UTF8')::json->'data'->>'outcome' from event_log where run_id = $1
and convert_from(payload, 'UTF8')::json->>'type' = 'holdpoint.run.ended.v1'`, o.RunID))
			require.Equal(t, contracts.ResultDuplicateWithResult, b.Claim(ledgertest.Worker(name, time.Minute))[0].Result)
		})
	}

	t.Run("RequestsOfOneRunAreMadeOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		first := owning(b, "twice")
		first.Renew = time.Minute
		second := first
		second.Version, second.Renew, second.Submit = 2, 0, ledgertest.Intent("twice", "c-1")
		answers := own(t, b, first, second)
		require.Equal(t, contracts.ResultAccepted, answers[1].Result)
		require.Equal(t, 1, b.Run("twice").IntentRevision)
	})

	t.Run("BadRequestStandsAlone", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		good, bad, nothing, lost := owning(b, "good"), owning(b, "bad"), owning(b, "nothing"), owning(b, "lost")
		good.Submit, bad.Submit = ledgertest.Intent("good", "c-1"), ledgertest.Intent("bad", "c-1")
		bad.Submit.Canonical = []byte(`{}`) // not what the hash is of
		lost.RunID, lost.Renew = uuid.New(), time.Minute
		answers := own(t, b, bad, good, nothing, lost)
		require.Error(t, answers[0].Err)
		require.Empty(t, answers[0].Result)
		require.Equal(t, contracts.ResultAccepted, answers[1].Result)
		require.ErrorContains(t, answers[2].Err, "nothing to do")
		require.ErrorIs(t, answers[3].Err, ledger.ErrNoSuchRun)
		require.Equal(t, ledger.RunProcessing, b.Run("bad").State)
		require.Equal(t, int64(1), b.Run("bad").Version)
	})
}

func TestStaleOwner(t *testing.T) { // K8
	t.Parallel()
	shared := ledgertest.New(t)
	expire := func(b *ledgertest.Bench, o ledger.Owned) {
		b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, o.RunID)
	}
	for name, stale := range map[string]func(b *ledgertest.Bench, o *ledger.Owned, key string){
		"AnotherOwner":   func(_ *ledgertest.Bench, o *ledger.Owned, _ string) { o.Owner = uuid.New() },
		"AnotherVersion": func(_ *ledgertest.Bench, o *ledger.Owned, _ string) { o.Version++ },
		"NoOwner":        func(_ *ledgertest.Bench, o *ledger.Owned, _ string) { o.Owner = uuid.Nil },
		"LeaseHasEnded":  func(b *ledgertest.Bench, o *ledger.Owned, _ string) { expire(b, *o) },
		"RunWasTakenOver": func(b *ledgertest.Bench, o *ledger.Owned, key string) {
			expire(b, *o)
			b.Claim(ledgertest.Worker(key, time.Minute))
		},
		"RunWasSubmitted": func(b *ledgertest.Bench, o *ledger.Owned, key string) {
			b.Exec(`update runs set intent_revision = 1, lease_owner = null, lease_expires_at = null where run_id = $1`, o.RunID)
		},
		"RunHasBeenEnded": func(b *ledgertest.Bench, o *ledger.Owned, key string) {
			b.Exec(`update runs set state = 'failed_terminal', outcome = 'failed', ended_at = now(), lease_owner = null where run_id = $1`, o.RunID)
		},
		"RunWasGivenBack": func(b *ledgertest.Bench, o *ledger.Owned, key string) {
			b.Exec(`update runs set state = 'failed_retryable', lease_owner = null where run_id = $1`, o.RunID)
		},
	} {
		for move, with := range map[string]func(*ledger.Owned){
			"Renew":        func(o *ledger.Owned) { o.Renew = time.Minute },
			"Submit":       func(o *ledger.Owned) { o.Submit = ledgertest.Intent(name, "c-1") },
			"FailRetry":    func(o *ledger.Owned) { o.Fail = &ledger.Failure{Retryable: true, Reason: "x"} },
			"FailTerminal": func(o *ledger.Owned) { o.Fail = &ledger.Failure{Reason: "x"} },
		} {
			t.Run(name+"Cannot"+move, func(t *testing.T) {
				t.Parallel()
				b := shared.For(t)
				key := name + move
				o := owning(b, key)
				stale(b, &o, key)
				row := `select to_jsonb(r)::text from runs r where run_id = $1`
				before, events := b.Text(row, o.RunID), b.Count(`select count(*) from event_log where run_id = $1`, o.RunID)
				with(&o)
				answer := own(t, b, o)[0]
				require.NoError(t, answer.Err)
				require.Equal(t, contracts.ResultOwnershipLost, answer.Result)
				require.Equal(t, before, b.Text(row, o.RunID), "nothing has changed")
				require.Equal(t, events, b.Count(`select count(*) from event_log where run_id = $1`, o.RunID))
				require.Zero(t, b.Count(`select count(*) from intents where run_id = $1`, o.RunID))
			})
		}
	}

	t.Run("SameProposalOfTheNextOwnerIsNotTheFormersOwn", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		former := owning(b, "same")
		expire(b, former)
		next := ledgertest.Worker("same", time.Minute)
		run := b.Claim(next)[0].Run
		now := former
		now.Owner, now.Version, now.Submit = next.Lease.Owner, run.Version, ledgertest.Intent("same", "c-1")
		require.Equal(t, contracts.ResultAccepted, own(t, b, now)[0].Result)
		former.Submit = ledgertest.Intent("same", "c-1")
		require.Equal(t, contracts.ResultOwnershipLost, own(t, b, former)[0].Result)
	})

	t.Run("LeaseThatEndsWhileTheRowIsLockedHasEnded", func(t *testing.T) { // STO-06
		t.Parallel()
		b := shared.For(t)
		o := owning(b, "locked")
		b.Exec(`update runs set lease_expires_at = clock_timestamp() + interval '700 milliseconds' where run_id = $1`, o.RunID)
		holder, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		defer holder.Rollback(t.Context())
		_, err = holder.Exec(t.Context(), `select from runs where run_id = $1 for update`, o.RunID)
		require.NoError(t, err)
		o.Renew = time.Minute
		done := make(chan string, 1)
		go func() {
			answers, err := b.Intake.Own(t.Context(), []ledger.Owned{o})
			if err != nil {
				done <- err.Error()
			} else {
				done <- answers[0].Result
			}
		}()
		// The server itself waits until the lease is over, and changes nothing: only the clock moves.
		_, err = holder.Exec(t.Context(), `select pg_sleep_until(lease_expires_at + interval '1 millisecond') from runs where run_id = $1`, o.RunID)
		require.NoError(t, err)
		require.Empty(t, done)
		require.NoError(t, holder.Rollback(t.Context()))
		require.Equal(t, contracts.ResultOwnershipLost, <-done)
	})
}
