package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/services/mcp"
)

// script is an API that answers as a test says.
type script func(call int, r *http.Request) (answer any, err error)

// api counts the calls of a script.
type api struct {
	script script
	mu     sync.Mutex
	calls  int
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.calls++
	call := a.calls
	a.mu.Unlock()
	answer, err := a.script(call, r)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if p, ok := answer.(*contracts.Problem); ok {
		w.Header().Set("Content-Type", contracts.ProblemContentType)
		w.WriteHeader(p.Status)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// told is the progress that an agent was told of.
type told func() []*sdk.ProgressNotificationParams

// scripted runs a test with an agent before a script, in a bubble where time passes by itself.
func scripted(t *testing.T, s script, check func(t *testing.T, a *agent, progress told)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []*sdk.ProgressNotificationParams
		a := inMemory(t, mcp.Config{URL: "http://api", APIKey: "k", HTTPClient: &http.Client{Transport: &api{script: s}}},
			func(p *sdk.ProgressNotificationParams) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, p)
			})
		check(t, a, func() []*sdk.ProgressNotificationParams {
			mu.Lock()
			defer mu.Unlock()
			return all
		})
	})
}

// standing is an answer of the API.
func standing(result, state string) *contracts.Answer {
	return &contracts.Answer{Result: result, RunID: "r", IdempotencyKey: "k", State: state}
}

func lost(int, *http.Request) (any, error) { return nil, io.ErrUnexpectedEOF }

func down(int, *http.Request) (any, error) {
	return contracts.NewProblem(contracts.CodeUnavailable, ""), nil
}

const (
	anEvent = `{"source":"s","key":"k","event":{}}`
	aRun    = `{"key":"k","wait_seconds":50}`
)

// Unknown is never told as done or as not done (K14).
func TestWhatIsNotKnown(t *testing.T) {
	t.Parallel()

	t.Run("ALostAnswerIsUnknownAndTheSameCallFindsOut", func(t *testing.T) {
		scripted(t, lost, func(t *testing.T, a *agent, _ told) {
			began := time.Now()
			r := a.call("propose_action", anEvent)
			require.True(t, r.failed)
			require.Equal(t, "unanswered", r.Code)
			require.Equal(t, "same_key", r.Retry)
			require.Contains(t, r.text, "The outcome is unknown")
			require.Contains(t, r.text, "same key")
			require.LessOrEqual(t, time.Since(began), 30*time.Second)
		})
	})

	t.Run("AnOutageThatStoredNothingSaysSo", func(t *testing.T) {
		scripted(t, down, func(t *testing.T, a *agent, _ told) {
			r := a.call("propose_action", anEvent)
			require.Equal(t, contracts.CodeUnavailable, r.Code)
			require.Equal(t, "same_key", r.Retry)
			require.Contains(t, r.text, "Nothing was stored")
			require.NotContains(t, r.text, "unknown")
		})
	})

	t.Run("AnOutageSaysNothingAboutTheRun", func(t *testing.T) {
		for _, s := range []script{lost, down} {
			t.Run("", func(t *testing.T) {
				scripted(t, s, func(t *testing.T, a *agent, _ told) {
					r := a.call("get_status", `{"key":"k"}`)
					require.Equal(t, contracts.CodeUnavailable, r.Code)
					require.Contains(t, r.text, "It says nothing about any run")
				})
			})
		}
	})

	t.Run("AnUnknownOutcomeIsToldAtOnceAsUnknown", func(t *testing.T) {
		scripted(t, func(int, *http.Request) (any, error) {
			return standing(contracts.ResultOutcomeUnknown, contracts.StateApproved), nil
		}, func(t *testing.T, a *agent, _ told) {
			began := time.Now()
			r := a.call("wait_for_decision", aRun)
			require.False(t, r.failed)
			require.False(t, r.Ended)
			require.Contains(t, r.text, "may or may not have taken place")
			require.Contains(t, r.Next, "it could happen twice")
			require.Less(t, time.Since(began), time.Second)
		})
	})
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	// held holds an answer as it is asked to, as the real API does.
	held := func(result, state string) script {
		return func(_ int, r *http.Request) (any, error) {
			wait, err := time.ParseDuration(r.Header.Get("Prefer")[len("wait="):] + "s")
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return standing(result, state), nil
		}
	}
	pending := held(contracts.ResultDuplicate, contracts.StateAwaitingHuman)

	t.Run("ItEndsInTimeAndTellsOfItsProgress", func(t *testing.T) {
		scripted(t, pending, func(t *testing.T, a *agent, progress told) {
			began := time.Now()
			params := &sdk.CallToolParams{Name: "wait_for_decision", Arguments: json.RawMessage(aRun)}
			params.SetProgressToken("mine")
			r := a.callWith(params)
			require.False(t, r.failed)
			require.False(t, r.Ended)
			require.Equal(t, contracts.StateAwaitingHuman, r.State)
			require.Equal(t, 50*time.Second, time.Since(began))
			synctest.Wait()
			require.Len(t, progress(), 9)
			for i, p := range progress() {
				require.Equal(t, "mine", p.ProgressToken)
				require.InDelta(t, 5*(i+1), p.Progress, 0.1)
				require.InDelta(t, 50, p.Total, 0)
				require.Contains(t, p.Message, "A person has to decide")
			}
		})
	})

	t.Run("WhoDoesNotAskIsNotTold", func(t *testing.T) {
		scripted(t, pending, func(t *testing.T, a *agent, progress told) {
			a.call("wait_for_decision", aRun)
			synctest.Wait()
			require.Empty(t, progress())
		})
	})

	t.Run("AnAPIThatAnswersAtOnceIsNotHammered", func(t *testing.T) {
		var calls int
		scripted(t, func(call int, _ *http.Request) (any, error) {
			calls = call
			return standing(contracts.ResultDuplicate, contracts.StateProcessing), nil
		}, func(t *testing.T, a *agent, _ told) {
			a.call("wait_for_decision", aRun)
			require.LessOrEqual(t, calls, 51)
		})
	})

	t.Run("AnOutageOnTheWayLosesNothingThatWasSeen", func(t *testing.T) {
		scripted(t, func(call int, r *http.Request) (any, error) {
			if call > 2 {
				return lost(call, r)
			}
			return pending(call, r)
		}, func(t *testing.T, a *agent, _ told) {
			began := time.Now()
			r := a.call("wait_for_decision", aRun)
			require.False(t, r.failed, r.text)
			require.Equal(t, contracts.StateAwaitingHuman, r.State)
			require.LessOrEqual(t, time.Since(began), 56*time.Second)
		})
	})

	t.Run("ACallThatTheAgentCancelsEnds", func(t *testing.T) {
		scripted(t, pending, func(t *testing.T, a *agent, _ told) {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			defer cancel()
			_, err := a.session.CallTool(ctx, &sdk.CallToolParams{Name: "wait_for_decision", Arguments: json.RawMessage(aRun)})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

// Every outcome has words of its own, and none of them is told as done that was not.
func TestEndings(t *testing.T) {
	t.Parallel()
	for outcome, says := range map[string]string{
		contracts.OutcomeExecuted: "It was carried out, once", contracts.OutcomePartial: "Only a part of it",
		contracts.OutcomeRejected: "A person said no", contracts.OutcomeExpired: "Nobody decided in time",
		contracts.OutcomeDenied: "The rules do not allow it", contracts.OutcomeInvalid: "No valid proposal",
		contracts.OutcomeFailed: "ended without being carried out", "newer": `It has ended as "newer"`,
	} {
		t.Run(outcome, func(t *testing.T) {
			scripted(t, func(int, *http.Request) (any, error) {
				a := standing(contracts.ResultDuplicateWithResult, contracts.StateFailedTerminal)
				a.Outcome = outcome
				return a, nil
			}, func(t *testing.T, a *agent, _ told) {
				r := a.call("get_status", `{"key":"k"}`)
				require.True(t, r.Ended)
				require.Contains(t, r.text, says)
				require.Equal(t, outcome == contracts.OutcomeExecuted, strings.Contains(r.Meaning, "was carried out, once"))
			})
		})
	}
}
