package sandbox_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// hook sends one webhook and returns the status.
func (w world) hook(name, body string, header ...string) (int, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.URL()+"/hooks/"+name, strings.NewReader(body))
	require.NoError(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// hooked requires that the endpoint received exactly n webhooks.
func (w world) hooked(name string, n int) []sandbox.Hook {
	w.t.Helper()
	found, err := w.Hooks(w.t.Context(), name)
	require.NoError(w.t, err)
	require.Len(w.t, found, n)
	return found
}

func onHooks(f sandbox.Fault) sandbox.Rule {
	return sandbox.Rule{
		Match: sandbox.Match{System: sandbox.Webhooks, Operation: sandbox.Receive, Reference: "msg-1", Count: 1}, Fault: f,
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()

	t.Run("BodyAndSignatureAreKeptAsTheyCame", func(t *testing.T) {
		t.Parallel()
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		w := newWorld(t, (&clock{now: now}).use)
		body := "{ \"type\" : \"run.settled\" }\n\xff"
		status, err := w.hook("shop", body, "webhook-id", "msg-1", "webhook-timestamp", "1772600767",
			"webhook-signature", "v1,a v1,b", "Content-Type", "application/json", "Authorization", "secret")
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, status)
		require.Equal(t, []sandbox.Hook{{
			ID: 1, Name: "shop", ReceivedAt: now, Body: []byte(body),
			Header: http.Header{
				"Webhook-Id": {"msg-1"}, "Webhook-Timestamp": {"1772600767"}, "Webhook-Signature": {"v1,a v1,b"},
				"Content-Type": {"application/json"},
			},
		}}, w.hooked("shop", 1))
		w.written(0)
	})

	t.Run("RepeatsAreReceivedAgainAndEndpointsKeptApart", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, name := range []string{"shop", "shop", "books"} {
			_, err := w.hook(name, `{}`, "Webhook-Id", "msg-1")
			require.NoError(t, err)
		}
		w.hooked("shop", 2)
		w.hooked("books", 1)
		w.hooked("", 3)
		w.hooked("sho", 0)
	})

	t.Run("WaitingEndsWithTheWebhook", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		sent := make(chan error, 1)
		go func() { _, err := w.hook("shop", `{}`); sent <- err }()
		found, err := w.AwaitHooks(t.Context(), "shop", 1)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NoError(t, <-sent)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = w.AwaitHooks(ended, "shop", 2)
		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("OddNamesAndLargeBodiesAreRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(cfg *sandbox.Config) { cfg.MaxBody = 10 })
		for name, want := range map[string]int{
			"a%20b": http.StatusBadRequest, "%3Cscript%3E": http.StatusBadRequest,
			strings.Repeat("x", 101): http.StatusBadRequest, "shop": http.StatusNoContent,
		} {
			status, err := w.hook(name, `{}`)
			require.NoError(t, err)
			require.Equal(t, want, status, name)
		}
		status, err := w.hook("shop", `{"long":"body"}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, status)
		w.hooked("", 1)
	})

	t.Run("FaultBeforeAcceptanceStoresNothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onHooks(sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 503}))
		status, err := w.hook("shop", `{}`, "Webhook-Id", "msg-1")
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, status)
		for _, fault := range []sandbox.Fault{
			{Kind: sandbox.ResetBeforeAccept}, {Kind: sandbox.HangBeforeAccept, Duration: 1},
		} {
			w.fault(onHooks(fault))
			_, err = w.hook("shop", `{}`, "Webhook-Id", "msg-1")
			require.Error(t, err)
		}
		w.hooked("shop", 0)
	})

	t.Run("FaultAfterAcceptanceHasStoredIt", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fault(onHooks(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 500}))
		status, err := w.hook("shop", `{}`, "Webhook-Id", "msg-1")
		require.NoError(t, err)
		require.Equal(t, http.StatusInternalServerError, status)
		w.fault(onHooks(sandbox.Fault{Kind: sandbox.AcceptThenReset}))
		_, err = w.hook("shop", `{}`, "Webhook-Id", "msg-1")
		require.Error(t, err)
		w.fault(onHooks(sandbox.Fault{Kind: sandbox.Delay, Duration: 1}))
		status, err = w.hook("shop", `{}`, "Webhook-Id", "msg-1")
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, status)
		w.hooked("shop", 3)
	})
}
