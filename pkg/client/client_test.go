package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("AllComplaintsComeAtOnceAndNoneShowsTheKey", func(t *testing.T) {
		t.Parallel()
		_, err := client.New(client.Config{BaseURL: "ftp://x", APIKey: "a secret\n", AttemptTimeout: -1})
		require.ErrorContains(t, err, "BaseURL must be")
		require.ErrorContains(t, err, "APIKey has a space")
		require.ErrorContains(t, err, "durations must not be negative")
		require.NotContains(t, err.Error(), "secret")
		_, err = client.New(client.Config{BaseURL: "https://me:secret@holdpoint.example.com"})
		require.ErrorContains(t, err, "no user")
		require.ErrorContains(t, err, "APIKey is missing")
		require.NotContains(t, err.Error(), "secret")
	})

	// A key is for one host.
	t.Run("NoRedirectIsFollowed", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		elsewhere := httptest.NewServer(f)
		t.Cleanup(elsewhere.Close)
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
		t.Cleanup(server.Close)
		c, err := client.New(client.Config{BaseURL: server.URL, APIKey: theKey})
		require.NoError(t, err)
		_, err = c.Publish(t.Context(), "orders", anEvent)
		require.ErrorContains(t, err, "HTTP 307, which is no answer of Holdpoint's")
		require.Empty(t, f.arrived("events"))
	})
}

func TestPublish(t *testing.T) {
	t.Parallel()

	t.Run("TheEventArrivesAsItIsUnderItsKey", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		answer, err := f.client().Publish(t.Context(), "orders/1", anEvent)
		require.NoError(t, err)
		require.Equal(t, theRun, answer.RunID)
		calls := f.arrived("events")
		require.Len(t, calls, 1)
		require.Equal(t, "/v1/sources/orders%2F1/events", calls[0].path)
		require.Equal(t, string(anEvent.Body), calls[0].body, "byte for byte")
		require.Equal(t, []string{"key-1"}, calls[0].header["Idempotency-Key"])
		require.Equal(t, []string{"application/json"}, calls[0].header["Content-Type"])
		require.Equal(t, []string{"Bearer " + theKey}, calls[0].header["Authorization"])
		require.Equal(t, []string{"a"}, calls[0].header["X-Tenant-Note"])
	})

	// Never under another key: an attempt that was not answered may have been stored (K3).
	t.Run("WhatWasNotAnsweredIsSentAgainUnderTheSameKey", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		f.faults["events"] = []fault{{loseRequest: true}, {loseAnswer: true}, {status: 500, problem: contracts.CodeInternal},
			{status: 503, problem: contracts.CodeUnavailable}, {status: 502}, {status: 504}, {status: 429}}
		_, err := f.client().Publish(t.Context(), "orders", anEvent)
		require.NoError(t, err)
		calls := f.arrived("events")
		require.Len(t, calls, 8)
		for _, call := range calls {
			require.Equal(t, []string{"key-1"}, call.header["Idempotency-Key"])
			require.Equal(t, calls[0].body, call.body)
		}
	})

	t.Run("ARefusalIsAProblemAndIsNotRepeated", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		for _, code := range []string{contracts.CodePayloadMismatch, contracts.CodeSchemaInvalid, contracts.CodeForbidden} {
			f.fault("events", []fault{{status: 400, problem: code}}...)
			before := len(f.arrived("events"))
			_, err := f.client().Publish(t.Context(), "orders", anEvent)
			var problem *contracts.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, code, problem.Code)
			require.NotErrorIs(t, err, client.ErrUnanswered)
			require.Len(t, f.arrived("events"), before+1, code)
		}
	})
}

// A call ends with its context, and says what is known then.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	publish := func(t *testing.T, faults ...fault) error {
		f := newIntake(t)
		f.fault("events", faults...)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := f.inBubble().Publish(ctx, "orders", anEvent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), theKey)
		return err
	}
	unavailable := fault{status: 503, problem: contracts.CodeUnavailable, retryAfter: "1"}
	late := fault{answerFor: time.Minute}
	busy := []fault{unavailable, unavailable, unavailable, unavailable}
	for name, tc := range map[string]struct {
		faults  []fault
		unknown bool
	}{
		"NothingWasStoredWhereTheServerSaidSoEachTime": {busy, false},
		"OneLostAnswerBeforeIsEnoughNotToKnow":         {append([]fault{{loseAnswer: true}}, busy...), true},
		"A503OfSomebodyElseSaysNothing":                {[]fault{{status: 503, retryAfter: "5"}}, true},
		"AnInternalErrorMayHaveStoredIt":               {[]fault{{status: 500, retryAfter: "5"}}, true},
		"AnAnswerThatDoesNotComeInTimeMayHaveStoredIt": {[]fault{late}, true},
		"AnAnswerThatCannotBeReadMayHaveStoredIt":      {[]fault{{status: 200, retryAfter: "5"}, late}, true},
		"TooManyRequestsSaysThatNothingWasDone":        {[]fault{{status: 429, retryAfter: "5"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, tc.unknown, errors.Is(publish(t, tc.faults...), client.ErrUnanswered))
			})
		})
	}

	t.Run("AContextThatHasEndedSendsNothing", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.client().Publish(ctx, "orders", anEvent)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, client.ErrUnanswered)
		require.Empty(t, f.arrived("events"))
	})

	t.Run("ASilentServerWhoWasNeverReachedStoredNothing", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(nil)
		server.Close()
		c, err := client.New(client.Config{BaseURL: server.URL, APIKey: theKey, BackoffBase: time.Hour,
			BackoffCap: time.Hour})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = c.Publish(ctx, "orders", anEvent)
		require.Error(t, err)
		require.NotErrorIs(t, err, client.ErrUnanswered)
	})
}

func TestPauses(t *testing.T) {
	t.Parallel()
	// after is how long the second attempt waited for.
	after := func(t *testing.T, retryAfter string) (waited time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			f.fault("events", []fault{{status: 503, retryAfter: retryAfter}}...)
			_, err := f.inBubble().Publish(t.Context(), "orders", anEvent)
			require.NoError(t, err)
			calls := f.arrived("events")
			waited = calls[1].at.Sub(calls[0].at)
		})
		return waited
	}

	t.Run("TheServersHintIsKeptWithJitterOnTop", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			waited := after(t, "7")
			require.GreaterOrEqual(t, waited, 7*time.Second)
			require.LessOrEqual(t, waited, 7200*time.Millisecond)
		}
	})

	t.Run("ADateIsAHintToo", func(t *testing.T) {
		t.Parallel() // a bubble begins at the same time always
		require.InDelta(t, 9, after(t, "Sat, 01 Jan 2000 00:00:09 GMT").Seconds(), 0.3)
	})

	t.Run("NoHintIsHonouredForEver", func(t *testing.T) {
		t.Parallel()
		for _, hint := range []string{"86400", "Sun, 01 Jan 2090 00:00:00 GMT"} {
			require.InDelta(t, 60, after(t, hint).Seconds(), 0.3)
		}
		for _, hint := range []string{"", "-5", "soon", "99999999999999999999", "Sat, 01 Jan 1990 00:00:00 GMT"} {
			require.LessOrEqual(t, after(t, hint), 200*time.Millisecond, hint)
		}
	})

	t.Run("TheyGrowUpToACapAndAreRandom", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			for range 60 {
				f.faults["events"] = append(f.faults["events"], fault{status: 502})
			}
			_, err := f.inBubble().Publish(t.Context(), "orders", anEvent)
			require.NoError(t, err)
			calls := f.arrived("events")
			lengths := map[time.Duration]bool{}
			for i, call := range calls[1:] {
				waited := call.at.Sub(calls[i].at)
				require.LessOrEqual(t, waited, min(10*time.Second, 200*time.Millisecond<<min(i, 10)))
				lengths[waited] = true
			}
			require.Greater(t, len(lengths), 50)
		})
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()

	t.Run("AWaitIsAPreference", func(t *testing.T) {
		t.Parallel()
		f := newIntake(t)
		c := f.client()
		_, err := c.Get(t.Context(), theRun, 1500*time.Millisecond)
		require.NoError(t, err)
		_, err = c.Find(t.Context(), "a key/é", time.Hour)
		require.NoError(t, err)
		_, err = c.Get(t.Context(), theRun, 0)
		require.NoError(t, err)
		byID, byKey := f.arrived(theRun), f.arrived("runs?key=a+key%2F%C3%A9")
		require.Equal(t, []string{"wait=1"}, byID[0].header["Prefer"])
		require.Empty(t, byID[1].header["Prefer"])
		require.Equal(t, []string{"wait=60"}, byKey[0].header["Prefer"], "the longest that the server takes")
	})

	// "Unknown" is neither success nor failure (K14).
	t.Run("AwaitReturnsWhenTheRunHasEndedAndDoesNotHurry", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			f.runs = []string{contracts.ResultDuplicate, contracts.ResultOutcomeUnknown, contracts.ResultDuplicateWithResult}
			began := time.Now()
			answer, err := f.inBubble().Await(t.Context(), theRun)
			require.NoError(t, err)
			require.Equal(t, contracts.ResultDuplicateWithResult, answer.Result)
			require.Len(t, f.arrived(theRun), 3)
			require.Equal(t, 2*time.Second, time.Since(began), "a server that answers at once is not hammered")
		})
	})

	t.Run("AwaitEndsWithItsContextAndTellsWhatItSawLast", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newIntake(t)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			answer, err := f.inBubble().Await(ctx, theRun)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, contracts.StateProcessing, answer.State)
		})
	})
}
