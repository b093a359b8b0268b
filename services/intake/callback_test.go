package intake_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// call that a receiver got.
type called struct {
	path, id, body string
	signed         bool
}

// receiver is an integrator's endpoint that refuses the first calls.
func receiver(t *testing.T, secret string, refuse int32) (*httptest.Server, <-chan called) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	calls := make(chan called, 100)
	var left atomic.Int32
	left.Store(refuse)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/gone" {
			http.Error(w, "not here", http.StatusGone)
			return
		}
		if left.Add(-1) >= 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		calls <- called{r.URL.RequestURI(), r.Header.Get("Webhook-Id"), string(body), verifier.Verify(body, r.Header) == nil}
	}))
	t.Cleanup(server.Close)
	return server, calls
}

func nextCall(t *testing.T, calls <-chan called) called {
	t.Helper()
	select {
	case c := <-calls:
		return c
	case <-time.After(patience):
		require.Fail(t, "nobody was called")
		return called{}
	}
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	server, calls := receiver(t, secret, 2)
	host := strings.TrimPrefix(server.URL, "http://")
	w := newWorld(t)
	for _, tenant := range w.config.Tenants {
		if tenant.ID == demo {
			tenant.Callbacks = &config.Callbacks{AllowedHosts: []string{host}, Secret: secret, Timeout: 5 * time.Second}
		}
	}
	r := w.start()
	post := func(key, address string) answer {
		return r.send(call{path: "/v1/sources/drafts/events", body: `{"task":"t"}`,
			header: http.Header{"Idempotency-Key": {key}, "Holdpoint-Callback": {address}}})
	}
	end := func(key string) {
		r.exec(`update runs set state = 'failed_terminal', outcome = 'rejected', ended_at = now() where idempotency_key = $1`, key)
		r.exec(`update callbacks set next_at = clock_timestamp() where run_id in (select run_id from runs where idempotency_key = $1)`, key)
	}

	t.Run("WhenTheRunHasEndedEveryAddressIsCalledOnceAndSigned", func(t *testing.T) {
		posted := post("c1", server.URL+"/resume/1?s=x")
		require.Equal(t, contracts.ResultAccepted, posted.result())
		require.Equal(t, contracts.ResultDuplicate, post("c1", server.URL+"/resume/1?s=x").result())
		require.Equal(t, contracts.ResultDuplicate, post("c1", server.URL+"/resume/2").result(), "a second execution waits as well")
		require.Equal(t, contracts.ResultDuplicate, next(w, w.publish(message{header: map[string][]string{"Idempotency-Key": {"c1"},
			"Holdpoint-Callback": {server.URL + "/resume/3"}}, body: `{"task":"t"}`})).result())
		w.await(`(select count(*) = 3 from callbacks where state = 'waiting' and attempts = 0)`)
		end("c1")
		paths := map[string]bool{}
		for range 3 {
			c := nextCall(t, calls)
			require.True(t, c.signed)
			require.Contains(t, c.body, `"outcome":"rejected"`)
			require.Contains(t, c.body, posted.RunID)
			paths[c.path] = true
		}
		require.Equal(t, map[string]bool{"/resume/1?s=x": true, "/resume/2": true, "/resume/3": true}, paths)
		w.await(`(select count(*) = 3 from callbacks where state = 'sent')`)
		require.GreaterOrEqual(t, w.count(`select sum(attempts)::int from callbacks`), 5, "two of them were refused first")
		require.Zero(t, w.count(`select count(*) from run_payloads where headers::text like '%resume%'`),
			"the address is a secret of its own")
		require.NotContains(t, w.logs.text(), "resume/1")
	})

	t.Run("AnAddressThatIsNotAllowedIsRefusedWithItsEvent", func(t *testing.T) {
		for _, address := range []string{"http://elsewhere.example/x", "ftp://" + host + "/x", "http://user@" + host + "/x", "/x",
			server.URL + "/#x", server.URL + "/" + strings.Repeat("a", 2048), "http://" + host + ".evil.example/"} {
			a := post("c2", address)
			require.Equal(t, contracts.CodeCallbackRefused, a.result(), address)
		}
		a := r.send(call{path: "/v1/sources/drafts/events", token: keyOf(acme), body: `{"task":"t"}`,
			header: http.Header{"Idempotency-Key": {"c2"}, "Holdpoint-Callback": {server.URL + "/x"}}})
		require.Equal(t, contracts.CodeCallbackRefused, a.result(), "the other tenant has none")
		require.Zero(t, w.count(`select count(*) from runs where idempotency_key = 'c2'`))
	})

	t.Run("AnEventOfWhichItsRunHasEndedIsCalledAboutAtOnce", func(t *testing.T) {
		post("c3", server.URL+"/first")
		end("c3")
		require.Equal(t, "/first", nextCall(t, calls).path)
		require.Equal(t, contracts.ResultDuplicateWithResult, post("c3", server.URL+"/late").result())
		require.Equal(t, "/late", nextCall(t, calls).path)
	})

	t.Run("WhoIsGoneIsNotCalledAgain", func(t *testing.T) {
		post("c4", server.URL+"/gone")
		end("c4")
		w.await(`(select c.state = 'failed' and c.attempts = 1 from callbacks c join runs r using (run_id) where r.idempotency_key = 'c4')`)
	})
}
