package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// shown is the version under which a call was made.
func shown(t *testing.T, call seen) int64 {
	t.Helper()
	var body contracts.Renewal
	require.NoError(t, json.Unmarshal([]byte(call.body), &body))
	return body.Version
}

// bubbled runs a test with a task whose clocks are the test's to move.
func bubbled(t *testing.T, check func(t *testing.T, f *intake, task *client.Task), change ...func(*intake)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newIntake(t)
		for _, c := range change {
			c(f)
		}
		task, err := f.inBubble().Claim(t.Context(), "orders", anEvent)
		require.NoError(t, err)
		defer task.Close()
		check(t, f, task)
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("ALostAnswerIsAskedForAgainAsTheSameOwner", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		f.fault("claims", []fault{{loseAnswer: true}, {status: 503, problem: contracts.CodeUnavailable}}...)
		task, err := f.client().Claim(t.Context(), "orders", anEvent)
		require.NoError(t, err)
		defer task.Close()
		require.Equal(t, theRun, task.Run.RunID)
		require.JSONEq(t, string(anEvent.Body), string(task.Event.Body))
		require.Equal(t, "a", task.Event.Headers["x-tenant-note"])
		calls := f.arrived("claims")
		require.Len(t, calls, 3)
		require.NotEmpty(t, calls[0].header.Get("Holdpoint-Owner"))
		require.Equal(t, calls[0].header["Holdpoint-Owner"], calls[2].header["Holdpoint-Owner"])
	})

	t.Run("EveryClaimIsAnExecutionOfItsOwn", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		c := f.client()
		task, err := c.Claim(t.Context(), "orders", anEvent)
		require.NoError(t, err)
		defer task.Close()
		f.fault("claims", []fault{{}}...)
		_, err = c.Claim(t.Context(), "orders", anEvent)
		var taken *client.TakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, contracts.ResultDuplicate, taken.Answer.Result)
		calls := f.arrived("claims")
		require.NotEqual(t, calls[0].header["Holdpoint-Owner"], calls[1].header["Holdpoint-Owner"])
	})

	t.Run("AnAnswerWithoutADateIsNoLease", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		c := f.client(func(c *client.Config) { c.HTTPClient = &http.Client{Transport: dateless{}} })
		_, err := c.Claim(t.Context(), "orders", anEvent)
		require.ErrorContains(t, err, "no Date header")
	})
}

// dateless is a proxy that takes the date away.
type dateless struct{}

func (dateless) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		response.Header.Del("Date")
	}
	return response, err
}

// The version of the lease is one thing that renewals and the last call share (K8).
func TestFinishing(t *testing.T) {
	t.Parallel()

	t.Run("ASubmissionEndsTheTask", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			answer, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.Equal(t, contracts.ResultAccepted, answer.Result)
			require.ErrorIs(t, context.Cause(task.Context()), context.Canceled)
			require.Len(t, f.stored(), 1)
			require.Contains(t, f.stored()[0], `"version":1`)
			time.Sleep(time.Hour)
			require.Empty(t, f.arrived("renewal"), "nobody renews it any more")
		})
	})

	t.Run("ALostAnswerOfASubmissionIsAskedForAgain", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("proposal", []fault{{loseAnswer: true}, {status: 503}}...)
			_, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.Len(t, f.stored(), 1)
			again, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err, "the caller may ask again too")
			require.Equal(t, contracts.ResultAccepted, again.Result)
			require.Len(t, f.stored(), 1)
		})
	})

	// The answer of the first is found out even when the lease is over: only then is anything known.
	t.Run("ASubmissionThatOutlastsItsLeaseIsStillAnswered", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("proposal", []fault{{loseAnswer: true}, {status: 503, retryAfter: "50"}}...)
			_, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.True(t, time.Now().After(f.leaseEnds()))
		})
	})

	t.Run("AnUnansweredSubmissionIsUnknownAndCanBeRepeated", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("proposal", []fault{{loseAnswer: true}, {loseRequest: true}, {answerFor: time.Minute}}...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := task.Submit(ctx, aProposal)
			require.ErrorIs(t, err, client.ErrUnanswered)
			<-task.Context().Done() // the next renewal is refused: the lease has ended with the submission
			require.ErrorIs(t, context.Cause(task.Context()), client.ErrOwnershipLost)
			answer, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.Equal(t, contracts.ResultAccepted, answer.Result)
			require.Len(t, f.stored(), 1)
		})
	})

	t.Run("ASubmissionWaitsForTheRenewalThatIsOnItsWay", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("renewal", []fault{{loseAnswer: true}, {answerFor: 3 * time.Second}}...)
			for len(f.arrived("renewal")) < 2 {
				time.Sleep(100 * time.Millisecond)
			}
			_, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.EqualValues(t, 2, shown(t, f.arrived("proposal")[0]))
		})
	})

	t.Run("ARenewalWaitsForTheSubmissionThatIsOnItsWay", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			time.Sleep(9 * time.Second) // shortly before the renewal is due
			f.fault("proposal", []fault{{doFor: 8 * time.Second}}...)
			_, err := task.Submit(t.Context(), aProposal)
			require.NoError(t, err)
			require.Empty(t, f.arrived("renewal"))
		})
	})

	t.Run("AProposalThatDoesNotFitLeavesTheLease", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("proposal", []fault{{status: 422, problem: contracts.CodeSchemaInvalid}}...)
			_, err := task.Submit(t.Context(), aProposal)
			var problem *contracts.Problem
			require.ErrorAs(t, err, &problem)
			require.NoError(t, task.Context().Err())
			time.Sleep(time.Minute)
			require.NotEmpty(t, f.arrived("renewal"))
			_, err = task.Submit(t.Context(), aProposal)
			require.NoError(t, err, "a repaired one is taken")
		})
	})

	t.Run("WhatIsNoJSONIsNotSent", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			broken := aProposal
			broken.ProposedChange = json.RawMessage(`{`)
			_, err := task.Submit(t.Context(), broken)
			require.ErrorContains(t, err, "no JSON")
			require.Empty(t, f.arrived("proposal"))
		})
	})

	t.Run("AFailureSaysAllThatItIsGiven", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			_, err := task.Fail(t.Context(), client.Failure{Retryable: true, Class: contracts.FailedBusy,
				Reason: strings.Repeat("é", 1500), RetryAfter: 1500 * time.Millisecond})
			require.NoError(t, err)
			var sent contracts.Failure
			require.NoError(t, json.Unmarshal([]byte(f.stored()[0]), &sent))
			require.True(t, sent.Retryable)
			require.False(t, sent.Invalid)
			require.Equal(t, contracts.FailedBusy, sent.Class)
			require.Equal(t, 2, sent.RetryAfterSeconds)
			require.Equal(t, strings.Repeat("é", 1000), sent.Reason)
			require.Error(t, task.Context().Err())
		})
	})

	t.Run("ATurnIsWaitedForNoLongerThanTheCallersContext", func(t *testing.T) {
		bubbled(t, func(t *testing.T, f *intake, task *client.Task) {
			f.fault("renewal", []fault{{answerFor: 4 * time.Second}}...)
			for len(f.arrived("renewal")) < 1 {
				time.Sleep(100 * time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := task.Submit(ctx, aProposal)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, client.ErrUnanswered, "nothing was sent")
			require.Empty(t, f.arrived("proposal"))
		})
	})
}
