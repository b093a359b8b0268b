package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// stopsBeforeTheLease requires that the task ends as lost, and before anybody else can have the run.
func stopsBeforeTheLease(t *testing.T, f *intake, task *client.Task) {
	t.Helper()
	<-task.Context().Done()
	require.ErrorIs(t, context.Cause(task.Context()), client.ErrOwnershipLost)
	require.Less(t, time.Now(), f.leaseEnds())
}

// The lease is the database's, and what this process believes may only be less (K7, STO-06).
func TestLease(t *testing.T) {
	t.Parallel()

	t.Run("ItIsRenewedAtAThirdForAsLongAsTheWorkTakes", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			time.Sleep(10 * time.Minute)
			require.NoError(t, task.Context().Err())
			renewals := f.arrived("renewal")
			require.InDelta(t, 60, len(renewals), 5)
			for i, r := range renewals {
				require.EqualValues(t, i+1, shown(t, r))
			}
			_, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
		})
	})

	for name, skew := range map[string]time.Duration{"ItsClockMayBeAhead": 40 * time.Second,
		"ItsClockMayBeBehind": -40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
				time.Sleep(2 * time.Minute)
				require.NoError(t, task.Context().Err(), "a healthy lease is not given up")
				f.fault("renewal", forever(fault{status: 503})...)
				stopsBeforeTheLease(t, f, task)
			}, func(f *intake) { f.skew = skew })
		})
	}

	for name, drift := range map[string]time.Duration{"AheadOfItsServers": 40 * time.Second,
		"BehindItsServers": -40 * time.Second} {
		t.Run("TheDatabasesClockMayBe"+name, func(t *testing.T) {
			bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
				time.Sleep(2 * time.Minute)
				require.NoError(t, task.Context().Err(), "a healthy lease is not given up")
				f.fault("renewal", forever(fault{status: 503})...)
				stopsBeforeTheLease(t, f, task)
			}, func(f *intake) { f.drift = drift })
		})
	}

	for name, what := range map[string]fault{
		"Refused": {status: 503, problem: contracts.CodeUnavailable, retryAfter: "1"}, "Lost": {loseRequest: true},
		"Hanging": {doFor: time.Hour}, "ToldToWaitTooLong": {status: 503, retryAfter: "3600"},
	} {
		t.Run("WhenRenewalsAre"+name+"TheWorkStopsBeforeTheLeaseEnds", func(t *testing.T) {
			bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
				f.fault("renewal", forever(what)...)
				stopsBeforeTheLease(t, f, task)
				require.Greater(t, time.Until(f.leaseEnds()), 4*time.Second, "with time to stop")
				_, err := task.Submit(t.Context(), aProposal)
				require.ErrorIs(t, err, client.ErrOwnershipLost)
				require.Empty(t, f.arrived("proposal"), "what was made without a lease is dropped")
			})
		})
	}

	t.Run("AHangingRenewalLeavesTimeForAnother", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("renewal", []fault{{doFor: time.Hour}, {loseAnswer: true}}...)
			time.Sleep(2 * time.Minute)
			require.NoError(t, task.Context().Err())
		})
	})

	// An answer that was long on its way says what was left when it was written, not when it came.
	t.Run("ALateAnswerIsCountedFromWhenItWasAskedFor", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("renewal", append([]fault{{answerFor: 4 * time.Second}}, forever(fault{status: 503})...)...)
			stopsBeforeTheLease(t, f, task)
		})
	})

	t.Run("ARefusedRenewalStopsTheWorkAtOnce", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.takeOver()
			<-task.Context().Done()
			cause := context.Cause(task.Context())
			require.ErrorIs(t, cause, client.ErrOwnershipLost)
			var problem *contracts.Problem
			require.ErrorAs(t, cause, &problem)
			require.Equal(t, contracts.CodeOwnershipLost, problem.Code)
			require.Len(t, f.arrived("renewal"), 1)
		})
	})

	t.Run("AKeyThatIsTakenAwayStopsTheWork", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("renewal", []fault{{status: 401, problem: contracts.CodeUnauthenticated}}...)
			stopsBeforeTheLease(t, f, task)
			require.Len(t, f.arrived("renewal"), 1)
		})
	})

	t.Run("AStaleOwnerIsToldSoByTheServer", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.takeOver()
			_, err := task.Submit(t.Context(), aProposal)
			require.ErrorIs(t, err, client.ErrOwnershipLost)
			var problem *contracts.Problem
			require.ErrorAs(t, err, &problem)
			require.ErrorIs(t, context.Cause(task.Context()), client.ErrOwnershipLost)
			require.Empty(t, f.stored())
		})
	})

	t.Run("ThereIsACapThatNoRenewalPasses", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			stopsBeforeTheLease(t, f, task)
			require.InDelta(t, 6, len(f.arrived("renewal")), 1, "what cannot be lengthened is not asked for again")
		}, func(f *intake) { f.cap = 65 * time.Second })
	})

	t.Run("ATaskEndsWithTheContextThatItWasTakenUnder", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			ctx, cancel := context.WithCancel(t.Context())
			task, err := f.inBubble().Claim(ctx, "orders", anEvent)
			require.NoError(t, err)
			cancel()
			<-task.Context().Done()
			require.NotErrorIs(t, context.Cause(task.Context()), client.ErrOwnershipLost)
			time.Sleep(time.Hour)
			require.Empty(t, f.arrived("renewal"))
		})
	})
}

// A lease whose answer took long may be nearly over, and nobody may begin to work under what is left of it.
func TestALateLease(t *testing.T) {
	t.Parallel()
	claim := func(t *testing.T, check func(*testing.T, *intake, *client.Task, error), faults func(*intake)) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			faults(f)
			task, err := f.inBubble().Claim(t.Context(), "orders", anEvent)
			check(t, f, task, err)
			if task != nil {
				task.Close()
			}
		})
	}

	t.Run("OneThatIsAskedForAgainHasLessLeft", func(t *testing.T) {
		claim(t, func(t *testing.T, f *intake, task *client.Task, err error) {
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			require.Len(t, f.arrived("renewal"), 1, "a third of what was left, not of the whole lease")
			time.Sleep(time.Minute)
			require.NoError(t, task.Context().Err())
		}, func(f *intake) { f.fault("claims", []fault{{loseAnswer: true}, {status: 503, retryAfter: "25"}}...) })
	})

	t.Run("OneThatHasEndedIsNotHandedOut", func(t *testing.T) {
		claim(t, func(t *testing.T, f *intake, task *client.Task, err error) {
			require.ErrorIs(t, err, client.ErrOwnershipLost)
			require.Nil(t, task)
		}, func(f *intake) { f.fault("claims", []fault{{loseAnswer: true}, {status: 503, retryAfter: "31"}}...) })
	})

	t.Run("AfterALongWaitForWorkItIsRenewedFirst", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			f.waiting = 1
			f.fault("work", []fault{{doFor: 25 * time.Second}}...)
			tasks, err := f.inBubble().Take(t.Context(), "orders", 5, 30*time.Second)
			require.NoError(t, err)
			require.Len(t, tasks, 1)
			defer tasks[0].Close()
			require.Equal(t, 2, tasks[0].Attempt)
			require.JSONEq(t, `{"task":1}`, string(tasks[0].Event.Body))
			require.Len(t, f.arrived("renewal"), 1)
			require.Contains(t, f.arrived("work")[0].body, `"max":5,"wait_seconds":30`)
			time.Sleep(time.Minute)
			require.NoError(t, tasks[0].Context().Err())
		})
	})

	t.Run("AWaitIsHeldAndItsLostAnswerIsAskedForAsTheSameOwner", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			f.fault("work", []fault{{loseAnswer: true}}...)
			tasks, err := f.inBubble().Take(t.Context(), "orders", 1, time.Hour)
			require.NoError(t, err)
			require.Empty(t, tasks)
			calls := f.arrived("work")
			require.Len(t, calls, 2)
			require.Equal(t, calls[0].body, calls[1].body)
		})
	})
}

// forever is a fault that does not go away.
func forever(what fault) []fault {
	all := make([]fault, 1000)
	for i := range all {
		all[i] = what
	}
	return all
}
