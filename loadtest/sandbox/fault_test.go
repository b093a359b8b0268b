package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// onWrites applies the fault to the next write to payments.
func onWrites(f sandbox.Fault) sandbox.Rule {
	return sandbox.Rule{Match: sandbox.Match{System: sandbox.Payments, Operation: sandbox.Create, Count: 1}, Fault: f}
}

func TestFaultsBeforeAcceptance(t *testing.T) {
	t.Parallel()

	t.Run("HungRequestIsNeverAccepted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		id := w.fault(onWrites(sandbox.Fault{Kind: sandbox.HangBeforeAccept}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.do(ctx, http.MethodPost, "/payments/refunds", refundBody, "Idempotency-Key", "k")
			ended <- err
		}()
		require.NoError(t, w.AwaitFault(t.Context(), id, 1))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		w.written(0)
		require.Equal(t, http.StatusCreated, w.refund("Idempotency-Key", "k").status, "the key was never taken")
	})

	t.Run("BoundedHangEndsInAReset", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.HangBeforeAccept, Duration: sandbox.Duration(time.Millisecond)}))
		_, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		w.written(0)
	})

	t.Run("ResetCutsTheConnection", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.ResetBeforeAccept}))
		_, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		w.written(0)
	})

	t.Run("ErrorAnswersItsStatusAndCode", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{
			Kind: sandbox.ErrorBeforeAccept, Status: 422, Code: "account_closed", Message: "closed",
		}))
		got := w.refund()
		require.Equal(t, 422, got.status)
		require.Equal(t, map[string]any{"error": map[string]any{"code": "account_closed", "message": "closed"}}, got.body)
		w.written(0)
	})

	t.Run("RedirectNamesItsLocation", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.Redirect, Status: 307, Location: "http://other.example/refunds"}))
		got := w.refund()
		require.Equal(t, 307, got.status)
		require.Equal(t, "http://other.example/refunds", got.header.Get("Location"))
		w.written(0)
	})

	t.Run("RateLimitSendsRetryAfterAsGiven", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "soon"}))
		got := w.refund()
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, "soon", got.header.Get("Retry-After"))
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.RateLimit}))
		require.NotContains(t, w.refund().header, "Retry-After")
		w.written(0)
	})

	t.Run("RefusedConnectionsCannotBeDialledUntilTheTimeIsOver", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(sandbox.Rule{Fault: sandbox.Fault{
			Kind: sandbox.RefuseConnection, Duration: sandbox.Duration(300 * time.Millisecond),
		}})
		_, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Eventually(t, func() bool { return w.Healthy(t.Context()) == nil }, 10*time.Second, 5*time.Millisecond)
		w.refund()
		w.written(1)
	})

	t.Run("SandboxStopsWhileRefusingAndWhileHanging", func(t *testing.T) {
		t.Parallel()
		client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: t.TempDir()})
		w := world{Client: client, t: t, http: caller()}
		id := w.fault(onWrites(sandbox.Fault{Kind: sandbox.HangBeforeAccept}))
		ended := make(chan error, 1)
		go func() {
			_, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
			ended <- err
		}()
		require.NoError(t, w.AwaitFault(t.Context(), id, 1))
		w.fault(sandbox.Rule{Fault: sandbox.Fault{Kind: sandbox.RefuseConnection, Duration: sandbox.Duration(time.Hour)}})
		stop() // requires a clean end
		require.ErrorIs(t, <-ended, syscall.ECONNRESET)
	})
}

func TestFaultsAfterAcceptance(t *testing.T) {
	t.Parallel()

	t.Run("DelayedWriteIsAcceptedThoughItsCallerGaveUp", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		id := w.fault(onWrites(sandbox.Fault{Kind: sandbox.Delay, Duration: sandbox.Duration(50 * time.Millisecond)}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.do(ctx, http.MethodPost, "/payments/refunds", refundBody)
			ended <- err
		}()
		require.NoError(t, w.AwaitFault(t.Context(), id, 1))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err := w.AwaitWrites(t.Context(), sandbox.Filter{Reference: "op-1"}, 1)
		require.NoError(t, err)
	})

	t.Run("HungAnswerLeavesADurableWriteThatASameKeyRetryFinds", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.AcceptThenHang}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.do(ctx, http.MethodPost, "/payments/refunds", refundBody, "Idempotency-Key", "k")
			ended <- err
		}()
		_, err := w.AwaitWrites(t.Context(), sandbox.Filter{Reference: "op-1"}, 1)
		require.NoError(t, err)
		require.Equal(t, "true", w.refund("Idempotency-Key", "k").header.Get("Idempotent-Replayed"))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		w.written(1)
	})

	t.Run("ResetLeavesTheWrite", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.AcceptThenReset}))
		_, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		w.written(1)
	})

	t.Run("ErrorLeavesTheWriteAndTheKeyReplaysSuccess", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 502}))
		require.Equal(t, 502, w.refund("Idempotency-Key", "k").status)
		require.Equal(t, http.StatusCreated, w.refund("Idempotency-Key", "k").status)
		w.written(1)
	})

	t.Run("StickyErrorIsWhatTheKeyReplays", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 500, Code: "oops", Sticky: true}))
		require.Equal(t, 500, w.refund("Idempotency-Key", "k").status)
		again := w.refund("Idempotency-Key", "k")
		require.Equal(t, 500, again.status)
		require.Equal(t, "oops", again.code())
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.Len(t, w.must(http.MethodGet, "/payments/refunds?reference=op-1", "").items(), 1)
		w.written(1)
	})

	t.Run("TruncatedBodyStopsInTheMiddleOfAnAnnouncedAnswer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.TruncateBody}))
		got, err := w.do(t.Context(), http.MethodPost, "/payments/refunds", refundBody)
		require.True(t, errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
		require.Equal(t, http.StatusCreated, got.status)
		w.written(1)
	})

	t.Run("SignalSeesADurableWriteBeforeTheCallerSeesAnAnswer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		answered := make(chan reply, 1)
		signalled := make(chan sandbox.Write, 1)
		early := make(chan bool, 1)
		callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var write sandbox.Write
			if json.NewDecoder(r.Body).Decode(&write) == nil {
				early <- len(answered) == 0
				found, _ := w.Writes(r.Context(), sandbox.Filter{Reference: write.Reference})
				if len(found) == 1 {
					signalled <- found[0]
				}
			}
		}))
		t.Cleanup(callback.Close)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.Signal, URL: callback.URL + "/kill"}))
		answered <- w.refund()
		require.True(t, <-early)
		require.Equal(t, "op-1", (<-signalled).Reference)
	})

	t.Run("UnansweredSignalChangesNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.Signal, URL: "http://127.0.0.1:1/nobody"}))
		require.Equal(t, http.StatusCreated, w.refund().status)
		w.written(1)
	})
}

func TestFaultsOfReading(t *testing.T) {
	t.Parallel()
	lookup := func(w world, path string) []any {
		got := w.must(http.MethodGet, path, "")
		require.Equal(w.t, http.StatusOK, got.status)
		return got.items()
	}
	const refunds, updates = "/payments/refunds?reference=op-1", "/crm/updates?reference=op-1"

	t.Run("LaggingIndexMissesYoungWritesThatTheObjectShows", func(t *testing.T) {
		t.Parallel()
		c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		w := newWorld(t, c.use)
		id := w.refund().body["id"].(string)
		w.patch("c-1", "1", "op-1")
		w.fault(sandbox.Rule{
			Match: sandbox.Match{System: sandbox.Payments, Operation: sandbox.Lookup},
			Fault: sandbox.Fault{Kind: sandbox.LookupLag, Duration: sandbox.Duration(30 * time.Second)},
		})
		require.Empty(t, lookup(w, refunds))
		require.Len(t, lookup(w, updates), 1)
		require.Equal(t, http.StatusOK, w.must(http.MethodGet, "/payments/refunds/"+id, "").status)
		c.now = c.now.Add(30 * time.Second)
		require.Len(t, lookup(w, refunds), 1)
	})

	t.Run("PersonalityLagsOrLacksLookup", func(t *testing.T) {
		t.Parallel()
		c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		w := newWorld(t, c.use, func(cfg *sandbox.Config) { cfg.CRM.IndexLag = sandbox.Duration(time.Minute) })
		w.patch("c-1", "1", "op-1")
		require.Empty(t, lookup(w, updates))
		c.now = c.now.Add(time.Minute)
		require.Len(t, lookup(w, updates), 1)
		require.NoError(t, w.SetPersonality(t.Context(), sandbox.CRM, sandbox.Personality{NoLookup: true}))
		require.Equal(t, "lookup_unsupported", w.must(http.MethodGet, updates, "").code())
	})

	t.Run("EmptyLookupFindsNothingThatIsThere", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.refund()
		w.fault(sandbox.Rule{Match: sandbox.Match{Count: 1}, Fault: sandbox.Fault{Kind: sandbox.LookupEmpty}})
		require.Empty(t, lookup(w, refunds))
		require.Len(t, lookup(w, refunds), 1)
	})

	t.Run("DuplicateLookupShowsTwoIds", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.refund()
		w.patch("c-1", "1", "op-1")
		w.fault(sandbox.Rule{Fault: sandbox.Fault{Kind: sandbox.LookupDuplicate}})
		for _, path := range []string{refunds, updates} {
			items := lookup(w, path)
			require.Len(t, items, 2, path)
			require.NotEqual(t, items[0].(map[string]any)["id"], items[1].(map[string]any)["id"], path)
		}
	})

	t.Run("ReadsFeelFaultsToo", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, path := range []string{"/crm/contacts/c-1", "/payments/refunds/re_1", refunds, "/crm/contacts?external_id=x"} {
			w.fault(sandbox.Rule{
				Match: sandbox.Match{Count: 1}, Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 503},
			})
			require.Equal(t, 503, w.must(http.MethodGet, path, "").status, path)
		}
		w.fault(sandbox.Rule{Fault: sandbox.Fault{Kind: sandbox.AcceptThenReset}})
		_, err := w.do(t.Context(), http.MethodGet, "/crm/contacts/c-1", "")
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}
