package proposer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/proposer/modeltest"
)

func soon(p *config.Proposer) { p.Timeout = 100 * time.Millisecond }

// TestNotSentOrBusy is the matrix's row "not sent / 429 / 503".
func TestNotSentOrBusy(t *testing.T) {
	t.Parallel()
	requireBackoff := func(t *testing.T, waits []time.Duration) {
		t.Helper()
		require.Len(t, waits, 3)
		for i, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			require.Less(t, waits[i], most)
		}
	}

	t.Run("AnEndpointThatIsNotThereIsTriedAgainUnderTheSameLeaseAndThenTheRunWaits", func(t *testing.T) {
		t.Parallel()
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, free.Close())
		w := newWorld(t, nil)
		w.build(func(p *config.Proposer) {
			p.BaseURL, p.AllowedHosts = "http://"+free.Addr().String(), []string{free.Addr().String()}
		})
		f := w.fails()
		require.Equal(t, &client.Failure{Retryable: true, Class: contracts.FailedNotSent,
			Reason: "after 4 calls: the model endpoint could not be reached; see the proposer's log"}, f)
		requireBackoff(t, w.waits)
		require.Contains(t, w.logs.String(), free.Addr().String(), "the operator reads where")
	})

	t.Run("AHostThatIsNotAllowedIsNeverDialled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.build(func(p *config.Proposer) { p.AllowedHosts = []string{"127.0.0.1"} })
		w.endpoint().url = "http://127.0.0.2:1/v1/chat/completions"
		require.Equal(t, contracts.FailedNotSent, w.fails().Class)
		require.Contains(t, w.logs.String(), "is not among the connector's allowed hosts")
	})

	for name, status := range map[string]int{"TooManyRequests": http.StatusTooManyRequests,
		"ServiceUnavailable": http.StatusServiceUnavailable, "Overloaded": statusOverloaded} {
		t.Run(name+"IsTriedAgainUnderTheSameLeaseAndThenTheRunWaits", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, repeat(4, modeltest.Fails(status, "rate_limit_exceeded")))
			f := w.fails()
			require.True(t, f.Retryable)
			require.Equal(t, contracts.FailedBusy, f.Class)
			require.Zero(t, f.RetryAfter, "the source's own backoff decides")
			requireBackoff(t, w.waits)
		})
	}

	t.Run("AnEndpointThatIsFreeAgainIsAskedInTheSameLease", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(503, ""), modeltest.Fails(429, ""), modeltest.Says(lisbon)))
		p := w.proposes()
		require.Equal(t, 3, p.Model.Attempts)
		require.Equal(t, contracts.ValidationValid, p.Model.Validation)
		require.Equal(t, w.server.Calls()[0].Body, w.server.Calls()[2].Body, "the same request")
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	waits := func(t *testing.T, header string) time.Duration {
		t.Helper()
		w := newWorld(t, script(modeltest.Fails(429, "", "Retry-After", header), modeltest.Says(lisbon)))
		w.proposes()
		require.Len(t, w.waits, 1)
		return w.waits[0]
	}

	t.Run("SecondsAreHonoured", func(t *testing.T) {
		t.Parallel()
		require.InDelta(t, 20.5, waits(t, "20").Seconds(), 0.5)
	})

	t.Run("AnHTTPDateIsHonoured", func(t *testing.T) {
		t.Parallel()
		require.InDelta(t, 20, waits(t, time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat)).Seconds(), 2)
	})

	t.Run("NonsenseLeavesItToTheBackoff", func(t *testing.T) {
		t.Parallel()
		for _, header := range []string{"soon", "-5", "99999999999999999999", "1767225600", "Mon, 01 Jan 1990 00:00:00 GMT"} {
			require.Less(t, waits(t, header), time.Second, header)
		}
	})

	t.Run("WhatDoesNotFitIntoTheLeaseIsWaitedForByTheRun", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(503, "", "Retry-After", "120")))
		f := w.fails()
		require.Empty(t, w.waits)
		require.True(t, f.Retryable)
		require.Equal(t, 2*time.Minute, f.RetryAfter)
	})

	t.Run("ItIsCapped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(503, "", "Retry-After", "86400")))
		require.Equal(t, longestRetryAfter, w.fails().RetryAfter)
	})
}

// TestTimeoutAfterSending is the matrix's row of that name, with all that ends without a whole answer.
func TestTimeoutAfterSending(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]modeltest.Reply{
		"ASilentEndpoint":               modeltest.Hangs(),
		"AnAnswerThatStops":             modeltest.HangsInside(),
		"AnAnswerThatIsTruncated":       modeltest.BreaksOff(),
		"AConnectionThatBreaks":         modeltest.HangsUp(),
		"AnInternalError":               modeltest.Fails(500, "server_error"),
		"ABadGateway":                   modeltest.Fails(502, ""),
		"AnAnswerThatIsNoJSON":          modeltest.Sends("<html>Welcome to the hotel</html>"),
		"AnErrorInASuccess":             modeltest.Completes(map[string]any{"error": map[string]any{"code": "upstream"}}),
		"ACompletionThatEndsInAnError":  modeltest.Finishes("error", map[string]any{"content": lisbon}),
		"AnAnswerAfterTheTimeIsDropped": modeltest.IsLate(make(chan struct{}), modeltest.Says(lisbon)),
	} {
		t.Run(name+"IsAskedOnceMoreAndThenTheRunWaits", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, repeat(2, reply), soon)
			f := w.fails()
			require.True(t, f.Retryable)
			require.Equal(t, contracts.FailedTimeout, f.Class)
			require.Len(t, w.server.Calls(), 2)
		})
	}

	t.Run("AnAnswerBeyondTheSizeLimitIsNotReadToItsEnd", func(t *testing.T) {
		t.Parallel()
		f := newWorld(t, repeat(2, modeltest.IsHuge(maxAnswer))).fails()
		require.Equal(t, contracts.FailedTimeout, f.Class)
		require.Contains(t, f.Reason, "the answer of the model endpoint has more than 4194304 bytes")
	})

	t.Run("AnAnswerToTheSecondCallIsTaken", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(500, ""), modeltest.Says(lisbon)))
		require.Equal(t, 2, w.proposes().Model.Attempts)
	})

	t.Run("NoCallBeginsThatCannotEndInTime", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(500, "")), func(p *config.Proposer) { p.TotalTime = p.Timeout })
		f := w.fails()
		require.True(t, f.Retryable, "%v", f)
		require.Empty(t, w.waits, "nor is it waited for")
	})

	t.Run("NoRepairBeginsThatCannotEndInTime", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Says("no")))
		ask := w.endpoint().client.Transport
		w.endpoint().client.Transport = through(func(r *http.Request) (*http.Response, error) {
			w.clock = w.clock.Add(w.limits.total - w.limits.timeout + 1)
			return ask.RoundTrip(r)
		})
		f := w.fails()
		require.True(t, f.Invalid)
		require.Contains(t, f.Reason, "no time is left for another call")
	})
}

// TestInvalidOutput is the matrix's row "prose instead of JSON, schema-invalid" (M3).
func TestInvalidOutput(t *testing.T) {
	t.Parallel()
	wrong := map[string]modeltest.Reply{
		"Prose":                   modeltest.Says("Sure! Here is the change: " + lisbon),
		"TextAfterTheJSON":        modeltest.Says(lisbon + "\nDone."),
		"AFencedBlock":            modeltest.Says("```json\n" + lisbon + "\n```"),
		"TwoDocuments":            modeltest.Says(lisbon + lisbon),
		"ARepeatedMember":         modeltest.Says(change(`{"city":"Lisbon","city":"Porto"}`)),
		"ACaseTwin":               modeltest.Says(change(`{"city":"Lisbon","City":"Porto"}`)),
		"NotANumber":              modeltest.Says(change(`{"city":NaN}`)),
		"AnEndlessNumber":         modeltest.Says(change(`{"city":1e400}`)),
		"ANulCharacter":           modeltest.Says(change(`{"city":"a\u0000b"}`)),
		"ALoneSurrogate":          modeltest.Says(change(`{"city":"\ud800"}`)),
		"AWrongType":              modeltest.Says(change(`{"city":7}`)),
		"ATextThatIsTooLong":      modeltest.Says(change(`{"city":"` + long(121) + `"}`)),
		"AnUnknownField":          modeltest.Says(change(`{"iban":"x"}`)),
		"AnotherActionType":       modeltest.Says(replace(lisbon, "crm.contact.update", "payment.refund")),
		"AConfidence":             modeltest.Says(replace(lisbon, `"uncertainty"`, `"confidence":0.99,"uncertainty"`)),
		"AWishNotToBeReviewed":    modeltest.Says(replace(lisbon, `"uncertainty"`, `"auto_reply":true,"uncertainty"`)),
		"APriority":               modeltest.Says(replace(lisbon, `"action_type"`, `"priority":"low","action_type"`)),
		"ATargetOfItsOwn":         modeltest.Says(replace(lisbon, `"action_type"`, `"target":{},"action_type"`)),
		"EvidenceOfItsOwn":        modeltest.Says(replace(lisbon, `"uncertainty"`, `"evidence":[],"uncertainty"`)),
		"AnUncertaintyOfItsOwn":   modeltest.Says(replace(lisbon, `"medium"`, `"none"`)),
		"AToolCall":               modeltest.CallsATool(),
		"AToolCallBesideAnAnswer": modeltest.CallsAToolBeside(lisbon),
		"AnAnswerThatIsCutOff":    modeltest.CutsOff(lisbon),
		"NoText":                  modeltest.Says(""),
		"NoChoices":               modeltest.Completes(map[string]any{"choices": []any{}}),
		"NoCompletion":            modeltest.Completes(map[string]any{"object": "list"}),
		"ARepeatedMemberOutside":  modeltest.Sends(`{"choices":[],` + completion(lisbon)[1:]),
		"ALoneSurrogateOutside":   modeltest.Sends(replace(completion(lisbon), "Lisbon", `Lis\ud800bon`)),
	}
	for name, reply := range wrong {
		t.Run(name+"IsRepairedOnceAndThenTheRunIsInvalid", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, repeat(2, reply))
			f := w.fails()
			require.Equal(t, client.Failure{Invalid: true, Class: contracts.FailedInvalidOutput, Reason: f.Reason}, *f)
			require.Empty(t, w.waits)
			require.Len(t, w.messages(1), 4)
		})
	}

	t.Run("TheRepairTurnCarriesTheAnswerAndItsMistakes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Says(change(`{"city":7,"iban":"x"}`)), modeltest.Says(lisbon)))
		p := w.proposes()
		require.Equal(t, contracts.ValidationRepaired, p.Model.Validation)
		require.Equal(t, 2, p.Model.Attempts)
		turns := w.messages(1)
		require.Equal(t, w.messages(0), turns[:2])
		require.Equal(t, change(`{"city":7,"iban":"x"}`), turns[2])
		require.Contains(t, turns[3], "/proposal/proposed_change/fields/city must be string, found number\n"+
			"/proposal/proposed_change/fields/iban is not a known field")
	})

	t.Run("ARepairTurnIsBoundedHoweverLongTheAnswer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Says(long(40_000)), modeltest.Says(change(`{"`+long(40_000)+`":1}`)),
			modeltest.Says(lisbon)), func(p *config.Proposer) { p.Repair = 2 })
		w.proposes()
		for call := 1; call <= 2; call++ {
			turns := w.messages(call)
			require.Len(t, turns, 4, "earlier answers are dropped")
			require.LessOrEqual(t, len(turns[2]), longestEcho)
			require.Less(t, len(turns[3]), longestMistakes+len(correction))
		}
	})

	t.Run("RepairsAreAsManyAsDeclared", func(t *testing.T) {
		t.Parallel()
		for _, declared := range []int{0, 1, 3} {
			w := newWorld(t, repeat(declared+1, modeltest.Says("no")), func(p *config.Proposer) { p.Repair = declared })
			require.True(t, w.fails().Invalid)
		}
	})

	t.Run("ClassesTogetherAreBounded", func(t *testing.T) {
		t.Parallel()
		all := append(repeat(3, modeltest.Fails(429, "")), modeltest.Fails(500, ""))
		all = append(all, repeat(2, modeltest.Says("no"))...)
		require.True(t, newWorld(t, all).fails().Invalid)
	})
}

// TestValidButWrong is the matrix's row "valid JSON, wrong meaning".
func TestValidButWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(modeltest.Says(change(`{"city":"Atlantis"}`))))
	p := w.proposes()
	require.JSONEq(t, `{"fields":{"city":"Atlantis"}}`, string(p.ProposedChange), "policy and people decide")
	require.Len(t, w.server.Calls(), 1)
}

// TestRefused is the matrix's row "400 / 401 / 403 / context too long", with what else is never asked again.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply modeltest.Reply
		says  string
	}{
		"ABadRequest":         {modeltest.Fails(400, ""), "the model endpoint answered 400"},
		"AContextTooLong":     {modeltest.Fails(400, "context_length_exceeded"), "answered 400 (context_length_exceeded)"},
		"AnUnknownKey":        {modeltest.Fails(401, "invalid_api_key"), "answered 401 (invalid_api_key)"},
		"AForbiddenModel":     {modeltest.Fails(403, "sk-XYZ 1"), "answered 403"},
		"AnUnknownModel":      {modeltest.Fails(404, "model_not_found"), "answered 404"},
		"ARequestTooLarge":    {modeltest.Fails(413, ""), "answered 413"},
		"ARedirect":           {modeltest.Redirects("http://169.254.169.254/"), "307, a redirect, which is never followed"},
		"ARefusalOfTheModel":  {modeltest.Refuses(), "the model refused"},
		"AFilterOfTheContent": {modeltest.Filters(), "the provider's content filter stopped the answer"},
	} {
		t.Run(name+"EndsTheRunAtOnce", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script(tc.reply))
			f := w.fails()
			require.False(t, f.Retryable)
			require.False(t, f.Invalid)
			require.Equal(t, contracts.FailedRefused, f.Class)
			require.Contains(t, f.Reason, tc.says)
			require.NotContains(t, f.Reason, "sk-", "messages of providers quote keys")
		})
	}
}

// TestLeaseLost is the matrix's row "lease lost while waiting".
func TestLeaseLost(t *testing.T) {
	t.Parallel()

	t.Run("TheAnswerOfALostRunIsDropped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Hangs()))
		ctx, lose := context.WithCancelCause(t.Context())
		go func() {
			<-w.server.Arrived()
			lose(client.ErrOwnershipLost)
		}()
		p, err := w.handle(ctx, task(event))
		require.Zero(t, p)
		require.ErrorIs(t, err, client.ErrOwnershipLost)
		require.False(t, errors.As(err, new(*client.Failure)), "nothing is said about a run that is another's")
	})

	t.Run("AnAnswerThatArrivesTogetherWithTheLossIsDropped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Says(lisbon)))
		ctx, lose := context.WithCancelCause(t.Context())
		ask := w.endpoint().client.Transport
		w.endpoint().client.Transport = through(func(r *http.Request) (*http.Response, error) {
			answer, err := ask.RoundTrip(r)
			if err == nil {
				answer.Body = whole(t, answer.Body)
			}
			lose(client.ErrOwnershipLost)
			return answer, err
		})
		_, err := w.handle(ctx, task(event))
		require.ErrorIs(t, err, client.ErrOwnershipLost)
	})

	t.Run("NoCallFollowsAWaitInWhichTheLeaseWasLost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, script(modeltest.Fails(429, "", "Retry-After", "30")))
		ctx, lose := context.WithCancelCause(t.Context())
		w.pause = func(ctx context.Context, d time.Duration) error {
			lose(client.ErrOwnershipLost)
			return sleep(ctx, d)
		}
		_, err := w.handle(ctx, task(event))
		require.ErrorIs(t, err, client.ErrOwnershipLost)
	})
}

// TestMatrix holds the table itself to what every row needs.
func TestMatrix(t *testing.T) {
	t.Parallel()
	all := []class{notSent, busy, unclear, invalid, refused, declined}
	for _, c := range all {
		rule, ok := matrix[c]
		require.True(t, ok, "class %s has no row", c)
		require.NotEmpty(t, rule.then.Class, "class %s has no end", c)
		require.False(t, rule.then.Retryable && rule.then.Invalid, c)
		require.Equal(t, rule.again == never, rule.bound == 0, c)
	}
	require.Len(t, matrix, len(all))
	for c, rule := range agentMatrix { // an agent, unlike a model, cannot decline other than by a status
		require.Contains(t, all, c)
		require.True(t, rule.again == never || c == notSent || c == busy, "an agent may have begun")
		require.False(t, rule.again == never && rule.then.Retryable, "nor may another worker ask it")
	}
	require.Len(t, agentMatrix, len(all)-1)
}
