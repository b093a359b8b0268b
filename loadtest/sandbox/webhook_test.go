package sandbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

const toldSecret = "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk="

// receiver keeps what it is told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	told   []string // ids
	bodies []string
	signed []bool
	refuse int // so many answers are 503
}

func listen(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	verifier, err := standardwebhooks.NewWebhook(toldSecret)
	require.NoError(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told, r.bodies = append(r.told, request.Header.Get("Webhook-Id")), append(r.bodies, string(body))
		r.signed = append(r.signed, verifier.Verify(body, request.Header) == nil)
		if r.refuse > 0 {
			r.refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.told...)
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	const refund = `{"amount":"1.00","currency":"EUR","payment_id":"p","reference":"op-1"}`
	setup := func(t *testing.T, faults ...sandbox.Fault) (world, *receiver) {
		t.Helper()
		r := listen(t)
		w := newWorld(t, func(c *sandbox.Config) {
			c.Webhooks = map[string]sandbox.Destination{sandbox.Payments: {URL: r.URL, Secret: toldSecret}}
		})
		for _, f := range faults {
			_, err := w.Fault(t.Context(), sandbox.Rule{Match: sandbox.Match{System: sandbox.Payments}, Fault: f})
			require.NoError(t, err)
		}
		return w, r
	}
	arrive := func(t *testing.T, r *receiver, ids ...string) {
		t.Helper()
		require.Eventually(t, func() bool { return len(r.ids()) >= len(ids) }, 10*time.Second, time.Millisecond)
		require.Equal(t, ids, r.ids())
	}

	t.Run("AWriteIsToldOfSignedAndTheSameBytesAgain", func(t *testing.T) {
		t.Parallel()
		w, r := setup(t)
		w.must(http.MethodPost, "/payments/refunds", refund)
		arrive(t, r, "evt_1_succeeded")
		statuses, err := w.TellAgain(t.Context(), "op-1")
		require.NoError(t, err)
		require.Equal(t, []int{http.StatusNoContent}, statuses)
		require.Equal(t, []bool{true, true}, r.signed)
		require.Equal(t, r.bodies[0], r.bodies[1])
		require.Contains(t, r.bodies[0], `"data":{"id":"re_1","reference":"op-1","status":"succeeded"}`)
	})

	t.Run("ARepeatedKeyWritesNothingAndTellsNothing", func(t *testing.T) {
		t.Parallel()
		w, r := setup(t)
		for range 2 {
			w.must(http.MethodPost, "/payments/refunds", refund, "Idempotency-Key", "k")
		}
		arrive(t, r, "evt_1_succeeded")
	})

	for name, c := range map[string]struct {
		fault sandbox.Fault
		told  []string
	}{
		"TellsNobody":    {sandbox.Fault{Kind: sandbox.WebhookNone}, []string{}},
		"Repeats":        {sandbox.Fault{Kind: sandbox.WebhookRepeat, Copies: 2}, []string{"evt_1_succeeded", "evt_1_succeeded"}},
		"RepeatsAtOnce":  {sandbox.Fault{Kind: sandbox.WebhookConcurrent, Copies: 2}, []string{"evt_1_succeeded", "evt_1_succeeded"}},
		"TellsBackwards": {sandbox.Fault{Kind: sandbox.WebhookReorder}, []string{"evt_1_succeeded", "evt_1_pending"}},
		"TellsAFailure":  {sandbox.Fault{Kind: sandbox.WebhookStatus, Code: "failed"}, []string{"evt_1_failed"}},
		"Early":          {sandbox.Fault{Kind: sandbox.WebhookEarly}, []string{"evt_1_succeeded"}},
		"Late":           {sandbox.Fault{Kind: sandbox.WebhookLate, Duration: sandbox.Duration(time.Millisecond)}, []string{"evt_1_succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := setup(t, c.fault)
			w.must(http.MethodPost, "/payments/refunds", refund)
			if c.fault.Kind == sandbox.WebhookEarly {
				require.Equal(t, c.told, r.ids(), "before the answer")
			}
			arrive(t, r, c.told...)
		})
	}

	t.Run("ForgedAndStaleOnesDoNotVerify", func(t *testing.T) {
		t.Parallel()
		w, r := setup(t, sandbox.Fault{Kind: sandbox.WebhookNone})
		w.must(http.MethodPost, "/payments/refunds", refund)
		for _, f := range []sandbox.Fault{{Kind: sandbox.WebhookForged}, {Kind: sandbox.WebhookStale, Duration: sandbox.Duration(time.Hour)}} {
			_, err := w.TellAgain(t.Context(), "op-1", f)
			require.NoError(t, err)
		}
		require.Equal(t, []bool{false, false}, r.signed)
		_, err := w.TellAgain(t.Context(), "op-1", sandbox.Fault{Kind: sandbox.AcceptThenHang})
		require.ErrorContains(t, err, "not about webhooks")
	})

	t.Run("WhatIsNotTakenIsToldAgain", func(t *testing.T) {
		t.Parallel()
		w, r := setup(t)
		r.refuse = 1
		w.must(http.MethodPost, "/payments/refunds", refund)
		arrive(t, r, "evt_1_succeeded", "evt_1_succeeded")
	})

	t.Run("ADestinationIsCheckedAndCanBeTakenAway", func(t *testing.T) {
		t.Parallel()
		w, r := setup(t)
		require.ErrorContains(t, w.SetWebhook(t.Context(), sandbox.Payments, sandbox.Destination{URL: "nowhere", Secret: toldSecret}), "400")
		require.ErrorContains(t, w.SetWebhook(t.Context(), sandbox.Mailbox, sandbox.Destination{}), "404")
		require.NoError(t, w.SetWebhook(t.Context(), sandbox.Payments, sandbox.Destination{}))
		w.must(http.MethodPost, "/payments/refunds", refund)
		require.Empty(t, r.ids())
	})
}
