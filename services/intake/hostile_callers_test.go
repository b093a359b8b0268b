package intake_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/intake"
)

// hurried is a listener whose connections have a fraction of the patience with their callers that they are told to have.
type hurried struct {
	net.Listener
	by time.Duration
}

func (h hurried) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	return &hurriedConn{conn, h.by}, err
}

type hurriedConn struct {
	net.Conn
	by time.Duration
}

// SetReadDeadline shortens what lies ahead. A moment in the past is how net/http ends a read, and stays.
func (c *hurriedConn) SetReadDeadline(at time.Time) error {
	if left := time.Until(at); left > 0 {
		at = time.Now().Add(left / c.by)
	}
	return c.Conn.SetReadDeadline(at)
}

func TestSlowCallersAreNotWaitedForEver(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- service.HTTP{Listener: hurried{listener, 30}, Handler: r.in.Handler()}.Run(ctx)
	}()
	t.Cleanup(func() { stop(); require.NoError(t, <-served) })
	slow := r.as(t)
	slow.url = "http://" + listener.Addr().String()
	stored := r.stored()

	t.Run("WhoNeverEndsTheHeadersIsCutOff", func(t *testing.T) {
		conn := slow.as(t).dial()
		_, err := io.WriteString(conn, "POST /v1/sources/drafts/events HTTP/1.1\r\nHost: x\r\nX-")
		require.NoError(t, err)
		told, err := io.ReadAll(conn)
		require.NoError(t, err, "the server did not hang up")
		require.NotContains(t, string(told), "HTTP/1.1 2")
	})

	t.Run("WhoNeverEndsTheBodyIsToldSo", func(t *testing.T) {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			h := slow.as(t).raw(strings.NewReader(head("POST", "/v1/sources/drafts/events", "Idempotency-Key: slow", length, "", "5\r\n{")))
			require.Equal(t, contracts.CodeMalformed, h.problem.Code)
		}
	})
	require.Equal(t, stored, r.stored())

	t.Run("WhoWaitsForARunsEndIsNotCutOff", func(t *testing.T) {
		h := slow.as(t).raw(strings.NewReader(head("POST", "/v1/sources/drafts/events", "Idempotency-Key: waits", "Prefer: wait=2",
			"Content-Length: 2", "", "{}")))
		require.Equal(t, http.StatusAccepted, h.StatusCode, "the time to send a request is no bound for its answer")
		require.Equal(t, "wait=2", h.Header.Get("Preference-Applied"))
	})
}

func TestCallersThatHangUpLeaveNothingBehind(t *testing.T) {
	r := newWorld(t).start()
	posted := r.post("drafts", "left", `{}`)
	before := runtime.NumGoroutine()
	const callers = 500
	var dialled sync.WaitGroup
	conns := make([]net.Conn, callers)
	for i := range conns {
		dialled.Go(func() {
			conns[i] = r.dial()
			_, _ = io.WriteString(conns[i], head("GET", "/v1/runs/"+posted.RunID, "Prefer: wait=45", "", ""))
		})
	}
	dialled.Wait()
	require.Eventually(t, func() bool { return r.in.Waiting() == callers }, patience, pollEvery, "all of them wait")
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return r.in.Waiting() == 0 }, patience, pollEvery, "nobody is waited for")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+10 }, patience, pollEvery, "goroutines are left")

	// A body that nobody reads would hide that its sender has gone.
	h := r.raw(strings.NewReader(head("GET", "/v1/runs/"+posted.RunID, "Prefer: wait=45", "Content-Length: 5", "", "hello")))
	require.Equal(t, http.StatusOK, h.StatusCode)
	require.Empty(t, h.Header.Get("Preference-Applied"))
	require.Zero(t, r.in.Waiting())
	require.Equal(t, 1, r.count("select count(*) from runs"))
}

// A batch is no way around a tenant's rate, and no batch waits for ever.
func TestARateHoldsForBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tenant := range w.config.Tenants {
		tenant.RateLimit = &config.RateLimit{PerSecond: 0.5, Burst: 10}
	}
	r := w.start()
	batch := func(n int) (results contracts.BatchResults, response *http.Response) {
		body := `{"events":[` + strings.TrimSuffix(strings.Repeat(`{"headers":{"Idempotency-Key":"b"},"body":{}},`, n), ",") + `]}`
		response = r.exchange(http.MethodPost, "/v1/sources/drafts/batches", nil, body, &results)
		return results, response
	}
	results, response := batch(40)
	require.Equal(t, http.StatusOK, response.StatusCode, "a batch above the burst is taken while nothing else is")
	require.Len(t, results.Results, 40)
	over := r.post("drafts", "after", `{}`)
	require.Equal(t, contracts.CodeTooManyRequests, over.result())
	var seconds int
	_, err := fmt.Sscan(over.header["Retry-After"][0], &seconds)
	require.NoError(t, err)
	require.InDelta(t, 62, seconds, 5, "what was above the burst is owed")
	_, response = batch(2)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
}

// What an event brings in a batch or a message is what it could have brought over HTTP, and is kept as faithfully.
func TestHeadersOfABatchAndOfAMessage(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	send := func(headers string) (result string) {
		var got struct {
			contracts.BatchResults
			contracts.Problem
		}
		r.exchange(http.MethodPost, "/v1/sources/drafts/batches", nil, `{"events":[{"headers":`+headers+`,"body":{"task":"t"}}]}`, &got)
		if got.Code != "" {
			return got.Code
		}
		return got.Results[0].Result()
	}

	t.Run("WhatIsNoHeaderIsRefused", func(t *testing.T) {
		stored := r.stored()
		for _, headers := range []string{`{"Idempotency-Key":"\ud800"}`, "{\"Idempotency-Key\":\"\xff\"}", `{"Idempotency-Key":"a\u0000"}`,
			`{"Idempotency-Key":"a","X":"a\r\nAuthorization: Bearer x"}`, `{"Idempotency-Key":"a","X y":"1"}`, `{"Idempotency-Key":"a","":"1"}`,
			`{"Idempotency-Key":"a","X\r\nY":"1"}`, `{"Idempotency-Key":["a"]}`, `{"Idempotency-Key":"a","Idempotency-Key":"a"}`, `[]`, `null`} {
			require.Equal(t, contracts.CodeMalformed, send(headers), headers)
		}
		require.Equal(t, contracts.CodeKeyAmbiguous, send(`{"Idempotency-Key":"a","idempotency-key":"b"}`))
		require.Equal(t, contracts.CodeUnsupportedMediaType, send(`{"Idempotency-Key":"a","content-encoding":"gzip"}`))
		require.Equal(t, contracts.CodeTooLarge, send(`{"Idempotency-Key":"a","X":"`+strings.Repeat("x", intake.LongestHeaders)+`"}`))
		require.Equal(t, contracts.CodeCallbackRefused, send(`{"Idempotency-Key":"a","Holdpoint-Callback":"http://169.254.169.254/"}`))
		require.Equal(t, stored, r.stored())
	})

	t.Run("ABatchsHeadersDoNotChangeWhoSendsIt", func(t *testing.T) {
		require.Equal(t, contracts.ResultAccepted, send(`{"Idempotency-Key":"who","Authorization":"Bearer `+keyOf(acme)+
			`","Host":"acme","X_Api_Key":"very-secret","Holdpoint-Owner":"x"}`))
		require.Equal(t, "demo all", one[string](r.world, "select tenant_id || ' ' || sent_by from runs where idempotency_key = 'who'"))
		kept := one[string](r.world, `select headers::text from run_payloads join runs using (run_id, tenant_id)
where idempotency_key = 'who'`)
		require.NotContains(t, kept, keyOf(acme))
		require.NotContains(t, kept, "very-secret")
	})

	t.Run("AListOfCloudEventsMaySayItsCharset", func(t *testing.T) {
		var got contracts.BatchResults
		r.exchange(http.MethodPost, "/v1/sources/cloud-events/batches",
			http.Header{"Content-Type": {"application/cloudevents-batch+json; charset=UTF-8"}}, `[{"specversion":"1.0","source":"/s","id":"c"}]`, &got)
		require.Len(t, got.Results, 1)
		require.Equal(t, contracts.ResultAccepted, got.Results[0].Result())
	})

	t.Run("AMessageWithTooManyHeadersIsParked", func(t *testing.T) {
		a := next(r.world, r.publish(message{header: map[string][]string{"Idempotency-Key": {"k"},
			"X-Many": {strings.Repeat("x", intake.LongestHeaders)}}, body: `{}`}))
		require.Equal(t, contracts.CodeTooLarge, a.result())
	})

	t.Run("AMessageOverTheBrokersLimitIsItsSendersError", func(t *testing.T) {
		stored := r.stored()
		msg := nats.NewMsg(bus.IngressSubject(demo, "drafts"))
		msg.Data = make([]byte, r.nc.MaxPayload()+1)
		_, err := r.js.PublishMsg(t.Context(), msg)
		require.ErrorIs(t, err, nats.ErrMaxPayload)
		require.Equal(t, stored, r.stored())
	})
}

// Tenants see nothing of each other, through whatever they ask (INT-06, B7).
func TestTenantsCannotReachEachOthersRuns(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	const task = `{"task":"case-1"}`
	ours := r.claim("order-1", task)
	r.post("drafts", "order-2", task)
	stored := one[string](r.world, "select string_agg(r::text, ';' order by run_id) from runs r")
	asAcme := func(method, path, body string) answer {
		return r.send(call{method: method, path: path, body: body, token: keyOf(acme)})
	}
	unseen := func(a answer) {
		t.Helper()
		require.Equal(t, contracts.CodeNotFound, a.result())
		require.Empty(t, a.problem.RunID)
		require.NotContains(t, a.problem.Detail, "order-")
	}

	unseen(asAcme(http.MethodGet, "/v1/runs/"+ours.RunID, ""))
	unseen(asAcme(http.MethodGet, "/v1/runs?key=order-1", ""))
	lease := fmt.Sprintf(`{"owner":%q,"version":%d`, ours.Lease.Owner, ours.Lease.Version)
	micro := lease + fmt.Sprintf(`,"run_id":%q`, ours.RunID)
	for verb, members := range map[string][2]string{"renewal": {"renew", ""}, "failure": {"fail", `,"retryable":false,"reason":"r"`},
		"proposal": {"submit", `,"proposal":{}`}} {
		unseen(asAcme(http.MethodPost, "/v1/runs/"+ours.RunID+"/"+verb, lease+members[1]+"}"))
		unseen(r.request(acme, members[0], nil, micro+members[1]+"}"))
	}
	unseen(r.request(acme, "get", nil, `{"key":"order-1"}`))

	token := http.Header{"Authorization": {"Bearer " + keyOf(acme)}}
	var list contracts.RunList
	for _, query := range []string{"correlation_id=case-1", "state=processing"} {
		r.exchange(http.MethodGet, "/v1/runs/search?"+query, token, "", &list)
		require.Empty(t, list.Runs, query)
	}
	var work contracts.Work
	r.exchange(http.MethodPost, "/v1/sources/drafts/work", token, `{"max":100}`, &work)
	require.Empty(t, work.Work)
	require.Equal(t, stored, one[string](r.world, "select string_agg(r::text, ';' order by run_id) from runs r"), "nothing was moved")

	var batch contracts.BatchResults
	r.exchange(http.MethodPost, "/v1/sources/drafts/batches", token,
		`{"events":[{"headers":{"Idempotency-Key":"order-1"},"body":{"task":"other"}}]}`, &batch)
	require.Equal(t, contracts.ResultAccepted, batch.Results[0].Result(), "their key is their own")
	require.NotEqual(t, ours.RunID, batch.Results[0].Answer.RunID)
}

// Text that would be a line, or a direction, of its own where it is shown stays text (log injection), and is found again.
func TestOddTextIsKeptAndFound(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	for i, odd := range []string{"a\nlevel=ERROR msg=forged", "\u202egnp.exe", "\ufeff", "a\u2028b", "'; drop table runs; --", "%", "💥\U0010ffff",
		"{{.}}", "\x1b[31m"} {
		key := fmt.Sprint("odd-", i)
		require.Equal(t, contracts.ResultAccepted, r.post("drafts", key, asJSON(r.world, map[string]string{"task": odd})).result())
		var list contracts.RunList
		response := r.exchange(http.MethodGet, "/v1/runs/search?"+url.Values{"correlation_id": {odd}}.Encode(), nil, "", &list)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Len(t, list.Runs, 1, "%q", odd)
		require.Equal(t, key, list.Runs[0].IdempotencyKey)
		require.Equal(t, odd, list.Runs[0].CorrelationID)
	}
	require.Equal(t, contracts.CodePayloadMismatch, r.post("drafts", "odd-0", `{}`).result())
	require.NotContains(t, r.logs.text(), "forged")
}

// Whatever a refusal is about, no secret of the sender's is told, logged or stored.
func TestRefusalsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, sources+signedSources)
	for _, tenant := range w.config.Tenants {
		tenant.Callbacks = &config.Callbacks{AllowedHosts: []string{"127.0.0.1"}, Secret: standardSecret}
	}
	r := w.start()
	const secret = "5ecret"
	headers := func(more ...string) http.Header {
		h := http.Header{"Idempotency-Key": {"k"}, "X_api_key": {secret}, "Cookie": {"c=" + secret}, "X-Auth": {secret}}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = []string{more[i+1]}
		}
		return h
	}
	for i, c := range []call{
		{path: "/v1/sources/drafts/events", token: secret},
		{path: "/v1/sources/drafts/events", token: "e30." + secret + ".x"},
		{path: "/v1/sources/drafts/events", header: headers("Holdpoint-Callback", "http://u:"+secret+"@127.0.0.1/")},
		{path: "/v1/sources/drafts/events", header: headers("Holdpoint-Callback", "http://elsewhere.example/"+secret)},
		{path: "/v1/sources/drafts/events", header: headers("Holdpoint-Callback", "http://127.0.0.1/\x7f"+secret)},
		{path: "/v1/hooks/demo/github", header: headers("X-Hub-Signature-256", "sha256="+secret)},
		{path: "/v1/hooks/demo/github", header: headers("X-Hub-Signature-256", secret)},
		{path: "/v1/hooks/demo/standard", header: headers("Webhook-Id", "i", "Webhook-Timestamp", "1", "Webhook-Signature", "v1,"+secret)},
		{path: "/nowhere/" + "x?key=" + secret, method: http.MethodGet, header: headers()},
	} {
		c.body = `{}`
		a, err := r.try(c)
		if err != nil {
			require.Contains(t, c.header.Get("Holdpoint-Callback"), "\x7f", "only a client refuses to send that")
			continue
		}
		require.NotEmpty(t, a.problem.Code, i)
		require.NotContains(t, asJSON(r.world, a.problem), secret, i)
	}
	a := next(r.world, r.publish(message{source: "github", body: `{}`, header: headers("Authorization", "Bearer "+secret,
		"Holdpoint-Callback", "http://127.0.0.1/"+secret)}))
	require.Equal(t, contracts.CodeBadSignature, a.result())
	require.Equal(t, 1, r.count("select count(*) from parked_messages"))
	require.NotContains(t, one[string](r.world, "select p::text from parked_messages p"), secret)
	require.NotContains(t, one[string](r.world, "select coalesce(string_agg(e::text, ';'), '') from event_log e"), secret)
	require.NotContains(t, r.logs.text(), secret)
	require.NotContains(t, r.logs.text(), newSecret)
	require.Zero(t, r.count("select count(*) from runs"))
}

// No input alone makes an error of ours: whoever sends it would send it again for ever.
func TestInputAloneIsNoFaultOfOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tenant := range w.config.Tenants {
		tenant.Callbacks = &config.Callbacks{AllowedHosts: []string{"127.0.0.1"}, Secret: standardSecret}
	}
	r := w.start()
	ours := r.claim("odd", `{}`)
	unleased := r.post("drafts", "unleased", `{}`)
	under := func(run, owner, version string) call {
		return call{path: "/v1/runs/" + run + "/renewal", body: `{"owner":"` + owner + `","version":` + version + `}`}
	}
	event := func(name, value string) call {
		return call{path: "/v1/sources/drafts/events", header: http.Header{"Idempotency-Key": {"k"}, name: {value}}, body: `{}`}
	}
	const nobody = "00000000-0000-0000-0000-000000000000"
	for name, tc := range map[string]struct {
		call
		result string
	}{
		"TheLargestVersion":           {under(ours.RunID, ours.Lease.Owner, "9223372036854775807"), contracts.CodeOwnershipLost},
		"TheSmallestVersion":          {under(ours.RunID, ours.Lease.Owner, "-9223372036854775808"), contracts.CodeOwnershipLost},
		"AVersionThatIsNoNumberOfGo":  {under(ours.RunID, ours.Lease.Owner, "9223372036854775808"), contracts.CodeSchemaInvalid},
		"NobodyOwnsWhatNobodyLeased":  {under(unleased.RunID, nobody, "1"), contracts.CodeOwnershipLost},
		"NobodyOwnsALeasedRun":        {under(ours.RunID, nobody, "1"), contracts.CodeOwnershipLost},
		"ARunThatIsNone":              {under(nobody, nobody, "1"), contracts.CodeNotFound},
		"ACallbackThatIsNotText":      {event("Holdpoint-Callback", "http://127.0.0.1/\xff"), contracts.CodeCallbackRefused},
		"ACallbackOfManyBytes":        {event("Holdpoint-Callback", "http://127.0.0.1/"+strings.Repeat("x", 3000)), contracts.CodeCallbackRefused},
		"AnOwnerThatIsNobody":         {call{path: "/v1/sources/drafts/claims", header: http.Header{"Idempotency-Key": {"k"}, "Holdpoint-Owner": {nobody}}, body: `{}`}, contracts.CodeMalformed},
		"AHeaderThatIsNotText":        {event("X-Bytes", "\xff\xfe"), contracts.ResultAccepted},
		"ATraceThatIsNone":            {event("Traceparent", "00-"+strings.Repeat("\xff", 52)), contracts.ResultDuplicate},
		"APreferenceBeyondAllNumbers": {event("Prefer", "wait=92233720368547758080"), contracts.ResultDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.as(t).send(tc.call)
			if tc.result == contracts.ResultAccepted || tc.result == contracts.ResultDuplicate {
				require.Contains(t, []string{contracts.ResultAccepted, contracts.ResultDuplicate}, a.result())
				return
			}
			require.Equal(t, tc.result, a.result(), a.problem.Detail)
		})
	}
	require.NotContains(t, r.logs.text(), "ERROR")
	a := r.under(ours.Lease, ours.RunID, "renewal", nil)
	require.Equal(t, http.StatusOK, a.status, "the lease is still its owner's")
}
