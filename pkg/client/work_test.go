package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// handler makes proposals.
type handler = func(ctx context.Context, t *client.Task) (contracts.Proposal, error)

// loop is a running Work.
type loop struct {
	*intake
	stop  func()
	ended chan error

	mu      sync.Mutex
	reports []error
}

// reported is what Report was told.
func (l *loop) reported() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reports
}

// failure is the one that was given back.
func (l *loop) failure(t *testing.T) (f contracts.Failure) {
	t.Helper()
	require.Len(t, l.stored(), 1)
	require.NoError(t, json.Unmarshal([]byte(l.stored()[0]), &f))
	return f
}

// working runs a test with a loop that handles runs, of which some wait, in a bubble.
func working(t *testing.T, waiting int, handle handler, check func(*testing.T, *loop),
	change ...func(*client.WorkConfig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &loop{intake: newIntake(t), ended: make(chan error, 1)}
		l.waiting = waiting
		config := client.WorkConfig{Handle: handle, Report: func(_ *client.Task, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reports = append(l.reports, err)
		}}
		for _, c := range change {
			c(&config)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l.stop = cancel
		go func() { l.ended <- l.inBubble().Work(ctx, "orders", config) }()
		synctest.Wait()
		check(t, l)
		cancel()
		synctest.Wait()
	})
}

func propose(context.Context, *client.Task) (contracts.Proposal, error) { return aProposal, nil }

// slow proposes after a while, unless it is stopped.
func slow(d time.Duration) handler {
	return func(ctx context.Context, _ *client.Task) (contracts.Proposal, error) {
		select {
		case <-ctx.Done():
			return contracts.Proposal{}, context.Cause(ctx)
		case <-time.After(d):
			return aProposal, nil
		}
	}
}

func failing(err error) handler {
	return func(context.Context, *client.Task) (contracts.Proposal, error) { return contracts.Proposal{}, err }
}

func TestWork(t *testing.T) {
	t.Parallel()

	t.Run("WhatWaitsIsHandledAndSubmitted", func(t *testing.T) {
		working(t, 3, propose, func(t *testing.T, l *loop) {
			time.Sleep(10 * time.Second)
			require.Len(t, l.stored(), 3)
			require.Empty(t, l.reported())
			l.stop()
			require.NoError(t, <-l.ended)
		})
	})

	t.Run("AnIdleLoopAsksRarely", func(t *testing.T) {
		working(t, 0, propose, func(t *testing.T, l *loop) {
			time.Sleep(time.Minute)
			require.LessOrEqual(t, len(l.arrived("work")), 61, "also of a server that does not wait")
			require.Contains(t, l.arrived("work")[0].body, `"max":1,"wait_seconds":20`)
		})
	})

	t.Run("NoMoreRunThanWereAskedFor", func(t *testing.T) {
		var now, most atomic.Int64
		working(t, 12, func(ctx context.Context, _ *client.Task) (contracts.Proposal, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			return aProposal, ctx.Err()
		}, func(t *testing.T, l *loop) {
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 4, now.Load())
			time.Sleep(time.Minute)
			require.EqualValues(t, 4, most.Load())
			require.Contains(t, l.arrived("work")[0].body, `"max":4`)
		}, func(c *client.WorkConfig) { c.Concurrency = 4 })
	})

	t.Run("AFailureIsToldInTheHandlersWords", func(t *testing.T) {
		told := &client.Failure{Retryable: true, Class: contracts.FailedTimeout, Reason: "The model did not answer.",
			RetryAfter: time.Minute}
		working(t, 1, failing(errors.Join(errors.New("more"), told)), func(t *testing.T, l *loop) {
			f := l.failure(t)
			require.Equal(t, "The model did not answer.", f.Reason)
			require.Equal(t, contracts.FailedTimeout, f.Class)
			require.Equal(t, 60, f.RetryAfterSeconds)
			require.True(t, f.Retryable)
			require.ErrorContains(t, l.reported()[0], "more")
		})
	})

	// An error may hold secrets and host names (M5).
	t.Run("AnyOtherErrorIsNotToldToTheServer", func(t *testing.T) {
		working(t, 1, failing(errors.New("POST https://inside.example: token 1234")), func(t *testing.T, l *loop) {
			f := l.failure(t)
			require.Equal(t, "The worker's handler failed.", f.Reason)
			require.True(t, f.Retryable)
			require.Equal(t, contracts.FailedInternal, f.Class)
			require.ErrorContains(t, l.reported()[0], "token 1234")
		})
	})

	t.Run("APanicIsAFailureAndTheLoopGoesOn", func(t *testing.T) {
		working(t, 2, func(context.Context, *client.Task) (contracts.Proposal, error) { panic("no") },
			func(t *testing.T, l *loop) {
				time.Sleep(10 * time.Second)
				require.Len(t, l.stored(), 2)
				require.ErrorContains(t, l.reported()[0], "panicked: no")
			})
	})

	// What the action's schema refuses will be refused again (M3).
	t.Run("AProposalThatDoesNotFitEndsTheRunAsInvalid", func(t *testing.T) {
		working(t, 1, slow(time.Second), func(t *testing.T, l *loop) {
			l.fault("proposal", fault{status: 422, problem: contracts.CodeSchemaInvalid})
			time.Sleep(2 * time.Second)
			f := l.failure(t)
			require.True(t, f.Invalid)
			require.False(t, f.Retryable)
			require.Equal(t, contracts.FailedInvalidOutput, f.Class)
			require.Contains(t, f.Reason, "as the test says")
		})
	})

	t.Run("ALostRunIsDroppedWithoutAWord", func(t *testing.T) {
		working(t, 1, func(ctx context.Context, t *client.Task) (contracts.Proposal, error) {
			<-ctx.Done()
			return aProposal, context.Cause(ctx)
		}, func(t *testing.T, l *loop) {
			l.takeOver()
			time.Sleep(time.Minute)
			require.Empty(t, l.arrived("failure"))
			require.Empty(t, l.arrived("proposal"))
			require.ErrorIs(t, l.reported()[0], client.ErrOwnershipLost)
		})
	})

	t.Run("AnOutageIsWaitedOut", func(t *testing.T) {
		working(t, 0, propose, func(t *testing.T, l *loop) {
			l.fault("work", forever(fault{status: 503})[:20]...)
			time.Sleep(5 * time.Minute)
			require.Greater(t, len(l.arrived("work")), 40)
			require.Empty(t, l.ended)
		})
	})

	t.Run("AKeyWithoutTheScopeEndsIt", func(t *testing.T) {
		working(t, 0, propose, func(t *testing.T, l *loop) {
			l.fault("work", fault{status: 403, problem: contracts.CodeForbidden})
			var problem *contracts.Problem
			require.ErrorAs(t, <-l.ended, &problem)
			require.Equal(t, contracts.CodeForbidden, problem.Code)
		})
	})

	t.Run("AllComplaintsComeAtOnce", func(t *testing.T) {
		t.Parallel()
		err := newIntake(t).client().Work(t.Context(), "orders", client.WorkConfig{Concurrency: 101, Wait: time.Hour})
		require.ErrorContains(t, err, "there is no Handle")
		require.ErrorContains(t, err, "Concurrency is 101")
		require.ErrorContains(t, err, "the Wait must be at most 30s")
	})
}

// A stop takes no more, and lets what was begun come to its end (O6).
func TestDraining(t *testing.T) {
	t.Parallel()
	t.Run("HandlersFinishAndNothingMoreIsTaken", func(t *testing.T) {
		working(t, 2, slow(25*time.Second), func(t *testing.T, l *loop) {
			l.stop()
			began := time.Now()
			require.NoError(t, <-l.ended)
			require.Equal(t, 25*time.Second, time.Since(began))
			require.Len(t, l.arrived("work"), 1)
			require.Len(t, l.arrived("proposal"), 1)
			require.NotEmpty(t, l.arrived("renewal"), "a lease is kept meanwhile")
		})
	})

	t.Run("WhatTakesTooLongIsGivenBack", func(t *testing.T) {
		working(t, 1, slow(time.Hour), func(t *testing.T, l *loop) {
			l.stop()
			began := time.Now()
			require.NoError(t, <-l.ended)
			require.Equal(t, 30*time.Second, time.Since(began))
			f := l.failure(t)
			require.True(t, f.Retryable, "another worker takes it at once, and need not wait for the lease's end")
		})
	})

	t.Run("AWaitForWorkEndsAtOnce", func(t *testing.T) {
		working(t, 0, propose, func(t *testing.T, l *loop) {
			l.fault("work", fault{doFor: 20 * time.Second})
			time.Sleep(2 * time.Second)
			l.stop()
			began := time.Now()
			require.NoError(t, <-l.ended)
			require.Zero(t, time.Since(began))
		})
	})
}
