package sandbox_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// world is a sandbox and a caller that never repeats a request by itself: keep-alive is off, because net/http resends
// requests with an Idempotency-Key over connections that break.
type world struct {
	*sandbox.Client
	t    *testing.T
	http *http.Client
}

func newWorld(t *testing.T, options ...func(*sandbox.Config)) world {
	t.Helper()
	return world{Client: sandboxtest.New(t, options...), t: t, http: caller()}
}

func caller() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

func (r reply) code() string {
	problem, _ := r.body["error"].(map[string]any)
	code, _ := problem["code"].(string)
	return code
}

func (r reply) items() []any {
	items, _ := r.body["items"].([]any)
	return items
}

// do sends one request and returns the answer, or the transport's error. Header pairs follow the body.
func (w world) do(ctx context.Context, method, path, body string, header ...string) (reply, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.URL()+path, strings.NewReader(body))
	require.NoError(w.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{status: resp.StatusCode, header: resp.Header}, err
	}
	got := reply{status: resp.StatusCode, header: resp.Header}
	return got, json.Unmarshal(text, &got.body)
}

// must is do where a whole JSON answer is expected.
func (w world) must(method, path, body string, header ...string) reply {
	w.t.Helper()
	got, err := w.do(w.t.Context(), method, path, body, header...)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, got.header.Get("X-Request-Id"))
	return got
}

const refundBody = `{"amount":"12.50","currency":"EUR","payment_id":"pay_1","reference":"op-1"}`

func (w world) refund(header ...string) reply {
	w.t.Helper()
	return w.must(http.MethodPost, "/payments/refunds", refundBody, header...)
}

func (w world) patch(contact, version, reference string, header ...string) reply {
	w.t.Helper()
	return w.must(http.MethodPatch, "/crm/contacts/"+contact,
		`{"fields":{"segment":"trial"},"reference":"`+reference+`"}`, append(header, "If-Match", `"`+version+`"`)...)
}

// fault installs one rule and returns its id.
func (w world) fault(rule sandbox.Rule) string {
	w.t.Helper()
	ids, err := w.Fault(w.t.Context(), rule)
	require.NoError(w.t, err)
	require.Len(w.t, ids, 1)
	return ids[0]
}

// written requires that the sandbox accepted exactly n writes.
func (w world) written(n int) []sandbox.Write {
	w.t.Helper()
	found, err := w.Writes(w.t.Context(), sandbox.Filter{})
	require.NoError(w.t, err)
	require.Len(w.t, found, n)
	return found
}

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func (c *clock) use(cfg *sandbox.Config) { cfg.Now = func() time.Time { return c.now } }
