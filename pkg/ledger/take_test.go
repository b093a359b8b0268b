package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// waiting makes runs of a source of their own that wait for a worker.
func waiting(t *testing.T, b *ledgertest.Bench, source string, keys ...string) {
	t.Helper()
	_, err := b.Intake.ActivateRules(t.Context(), ledgertest.Tenant, source, 1)
	require.NoError(t, err)
	claims := make([]ledger.Claim, len(keys))
	for i, key := range keys {
		claims[i] = ledgertest.Event(key)
		claims[i].Source = source
	}
	b.Claim(claims...)
}

func takeAs(t *testing.T, l *ledger.Ledger, owner uuid.UUID, source string, most, attempts int) ([]ledger.Task, []ledger.Run) {
	t.Helper()
	tasks, spent, err := l.Take(t.Context(), ledger.Take{TenantID: ledgertest.Tenant, Source: source, Max: most, Attempts: attempts,
		Lease: ledger.LeaseTerms{Owner: owner, Duration: time.Minute, MaxLifetime: time.Hour}})
	require.NoError(t, err)
	return tasks, spent
}

func take(t *testing.T, l *ledger.Ledger, source string, most, attempts int) ([]ledger.Task, []ledger.Run) {
	t.Helper()
	return takeAs(t, l, uuid.New(), source, most, attempts)
}

func keysOf(tasks []ledger.Task) []string {
	return column(tasks, func(task ledger.Task) string { return task.Run.Key })
}

func TestTake(t *testing.T) { // K6, K7, K8
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("GivesTheLongestWaitingRunsWithTheirEvents", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "oldest", "first")
		waiting(t, b, "oldest", "second", "third")
		tasks, _ := take(t, b.Intake, "oldest", 1, 5)
		require.Equal(t, []string{"first"}, keysOf(tasks))
		require.Equal(t, string(ledgertest.Event("first").Payload), string(tasks[0].Payload))
		require.Equal(t, 1, tasks[0].Run.Attempts)
		require.Greater(t, tasks[0].Run.LeaseLeft(), 50*time.Second)
		rest, _ := take(t, b.Intake, "oldest", 10, 5)
		require.ElementsMatch(t, []string{"second", "third"}, keysOf(rest))
		none, _ := take(t, b.Intake, "oldest", 10, 5)
		require.Empty(t, none)
	})

	t.Run("OneRunGoesToOneOfManyWorkers", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		var keys []string
		for range 60 {
			keys = append(keys, uuid.NewString())
		}
		waiting(t, b, "many", keys...)
		replicas := []*ledger.Ledger{b.Intake, b.Replica(ledger.Intake)}
		var mu sync.Mutex
		var got []string
		var wait sync.WaitGroup
		for i := range 24 {
			wait.Go(func() {
				for {
					tasks, _ := take(t, replicas[i%2], "many", 3, 5)
					if len(tasks) == 0 && b.Count(`select count(*) from waiting_runs where source = 'many' and owner is null`) == 0 {
						return
					}
					mu.Lock()
					got = append(got, keysOf(tasks)...)
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		require.ElementsMatch(t, keys, got, "each once")
	})

	t.Run("ARepeatedRequestGetsTheLeasesThatItHas", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "repeated", "r1", "r2", "r3")
		owner := uuid.New()
		first, _ := takeAs(t, b.Intake, owner, "repeated", 2, 5)
		again, _ := takeAs(t, b.Intake, owner, "repeated", 2, 5)
		require.ElementsMatch(t, keysOf(first), keysOf(again))
		require.Equal(t, 1, again[0].Run.Attempts)
	})

	t.Run("ALostAnswerLeasesNoSecondRun", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "lost", "l1", "l2")
		cut, point := b.Cut(ledger.Intake)
		point.Arm(ledgertest.AfterExecute, 0)
		tasks, _ := take(t, cut, "lost", 1, 5)
		require.Len(t, tasks, 1)
		require.Equal(t, 1, b.Count(`select count(*) from waiting_runs where source = 'lost' and owner is not null`))
	})

	t.Run("ARunWhoseLeaseHasEndedComesAgainAndARenewedOneDoesNot", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "ended", "e1", "e2")
		tasks, _ := take(t, b.Intake, "ended", 2, 5)
		require.Len(t, tasks, 2)
		b.Exec(`update waiting_runs set available_at = clock_timestamp() where source = 'ended'`)
		b.Exec(`update runs set lease_expires_at = clock_timestamp() where run_id = $1`, tasks[0].Run.RunID)
		again, _ := take(t, b.Intake, "ended", 2, 5)
		require.Equal(t, keysOf(tasks[:1]), keysOf(again))
		require.True(t, again[0].TookOver)
		require.Equal(t, 2, again[0].Run.Attempts)
		require.Equal(t, 1, again[0].Run.Takeovers)
		require.Equal(t, 1, b.Count(`select count(*) from waiting_runs w join runs r using (run_id) where w.source = 'ended'
and r.idempotency_key = $1 and w.available_at > r.lease_expires_at`, tasks[1].Run.Key), "it is looked at after its lease")
	})

	t.Run("WhatWasGivenBackWaitsItsTimeAndSaysWhatFailed", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "back", "b1")
		owner := uuid.New()
		tasks, _ := takeAs(t, b.Intake, owner, "back", 1, 5)
		own(t, b, ledger.Owned{TenantID: ledgertest.Tenant, RunID: tasks[0].Run.RunID, Owner: owner, Version: tasks[0].Run.Version,
			Fail: &ledger.Failure{Retryable: true, Reason: "busy", Class: contracts.FailedBusy, RetryAfter: time.Minute}})
		none, _ := take(t, b.Intake, "back", 1, 5)
		require.Empty(t, none)
		require.Equal(t, `{"class": "busy", "reason": "busy"}`,
			b.Text(`select detail::text from audit_events where move = 'fail_retryable' and run_id = $1`, tasks[0].Run.RunID))
		b.Exec(`update waiting_runs set available_at = clock_timestamp() where source = 'back'`)
		again, _ := take(t, b.Intake, "back", 1, 5)
		require.Equal(t, []string{"b1"}, keysOf(again))
	})

	t.Run("ASubmittedRunWaitsForNobody", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "submitted", "s1")
		owner := uuid.New()
		tasks, _ := takeAs(t, b.Intake, owner, "submitted", 1, 5)
		own(t, b, ledger.Owned{TenantID: ledgertest.Tenant, RunID: tasks[0].Run.RunID, Owner: owner, Version: tasks[0].Run.Version,
			Submit: ledgertest.Intent("s1", "c-1")})
		require.Zero(t, b.Count(`select count(*) from waiting_runs where source = 'submitted'`))
	})

	t.Run("ARunThatWasGivenOutOftenEnoughEndsOnceAndTells", func(t *testing.T) { // M4
		t.Parallel()
		b := shared.For(t)
		waiting(t, b, "spent", "x1")
		take(t, b.Intake, "spent", 1, 1)
		b.Exec(`update waiting_runs set available_at = clock_timestamp() where source = 'spent'`)
		b.Exec(`update runs set lease_expires_at = clock_timestamp() where idempotency_key = 'x1'`)
		tasks, spent := take(t, b.Intake, "spent", 1, 1)
		require.Empty(t, tasks)
		require.Len(t, spent, 1)
		run := b.Run("x1")
		require.Equal(t, ledger.RunFailedTerminal, run.State)
		require.Equal(t, ledger.OutcomeFailed, run.Outcome)
		require.Equal(t, "No proposal after 1 attempts.", run.OutcomeReason)
		require.Equal(t, 1, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.ended'`, run.RunID))
		_, spent = take(t, b.Intake, "spent", 1, 1)
		require.Empty(t, spent)
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	want := []time.Duration{2, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for attempt, seconds := range want {
		require.Equal(t, seconds*time.Second, ledger.Backoff(attempt), attempt)
	}
}
