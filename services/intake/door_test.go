package intake_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// exchange makes a call whose body is not an answer about one run.
func (r *replica) exchange(method, path string, header http.Header, body string, into any) *http.Response {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header = http.Header{"Authorization": {"Bearer " + keyOf(demo)}, "Content-Type": {"application/json"}}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	require.NoError(r.t, json.NewDecoder(response.Body).Decode(into))
	return response
}

func TestReplaysAreMarked(t *testing.T) { // K14
	t.Parallel()
	r := newWorld(t).start()
	require.Empty(t, r.post("drafts", "k1", `{"task":"t"}`).header["Idempotent-Replayed"])
	require.Equal(t, []string{"true"}, r.post("drafts", "k1", `{"task":"t"}`).header["Idempotent-Replayed"])
	require.Empty(t, r.post("drafts", "k1", `{"task":"other"}`).header["Idempotent-Replayed"], "a mismatch replays nothing")
}

func TestPreferWait(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()
	ended := `update runs set state = 'failed_terminal', outcome = 'rejected', ended_at = now() where idempotency_key = $1`
	prefer := func(value string) http.Header { return http.Header{"Prefer": {value}} }

	t.Run("TheAnswerIsHeldUntilTheRunHasEnded", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		posted := r.post("drafts", "w1", `{"task":"t"}`)
		answered := make(chan answer, 3)
		for _, c := range []call{
			{method: http.MethodGet, path: "/v1/runs/" + posted.RunID, header: prefer("wait=40")},
			{method: http.MethodGet, path: "/v1/runs?key=w1", header: prefer("respond-async, wait=40;x")},
			{path: "/v1/sources/drafts/events", header: http.Header{"Prefer": {"wait=40"}, "Idempotency-Key": {"w1"}},
				body: `{"task":"t"}`},
		} {
			go func() { answered <- r.send(c) }()
		}
		select {
		case a := <-answered:
			require.Fail(t, "answered before the run's end", "%+v", a)
		case <-time.After(3 * time.Second):
		}
		r.exec(ended, "w1")
		for range 3 {
			a := <-answered
			require.Equal(t, http.StatusOK, a.status)
			require.Equal(t, "rejected", a.Outcome)
			require.Equal(t, []string{"wait=40"}, a.header["Preference-Applied"])
		}
	})

	t.Run("WhenTheTimeIsOverItSaysWhereTheRunStands", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		a := r.send(call{path: "/v1/sources/drafts/events", header: http.Header{"Prefer": {"wait=1"}, "Idempotency-Key": {"w2"}},
			body: `{"task":"t"}`})
		require.Equal(t, http.StatusAccepted, a.status)
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, "processing", a.State)
	})

	t.Run("NobodyWaitsWhoDoesNotAskOrIsRefused", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		for _, value := range []string{"", "wait", "wait=0", "wait=-1", "wait=soon", "respond-async"} {
			a := r.send(call{path: "/v1/sources/drafts/events", header: http.Header{"Prefer": {value}, "Idempotency-Key": {"w3"}},
				body: `{"task":"t"}`})
			require.Empty(t, a.header["Preference-Applied"], value)
		}
		a := r.send(call{method: http.MethodGet, path: "/v1/runs?key=none", header: prefer("wait=40")})
		require.Equal(t, contracts.CodeNotFound, a.result())
	})
}

func TestBatches(t *testing.T) { // INT-08
	t.Parallel()
	shared := newWorld(t).start()
	item := func(key, body string) string {
		return `{"headers":{"Idempotency-Key":` + strconv.Quote(key) + `},"body":` + body + `}`
	}
	send := func(r *replica, path string, header http.Header, body string) (contracts.BatchResults, *http.Response) {
		var got contracts.BatchResults
		response := r.exchange(http.MethodPost, path, header, body, &got)
		return got, response
	}
	results := func(b contracts.BatchResults) (list []string) {
		for _, one := range b.Results {
			list = append(list, one.Result())
		}
		return list
	}

	t.Run("EachEventIsAnsweredByItselfInOrder", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		body := `{"events":[` + strings.Join([]string{item("b1", `{"task":"t"}`), item("b2", `{ "n" : 1.0 }`),
			item("b1", `{"task":"t"}`), item("b1", `{"task":"other"}`), `{"body":{"task":"t"}}`, item("b3", `{"a":"\u0000"}`),
			item("b4", `{"a":1,"a":2}`)}, ",") + `]}`
		got, response := send(r, "/v1/sources/drafts/batches", nil, body)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, []string{"accepted", "accepted", "duplicate", "payload_mismatch", "key_missing", "malformed", "malformed"},
			results(got))
		require.Equal(t, 202, got.Results[0].Status)
		require.Equal(t, 422, got.Results[3].Status)
		require.Equal(t, `{ "n" : 1.0 }`, one[string](r.world, `select convert_from(payload, 'UTF8') from run_payloads
join runs using (run_id, tenant_id) where idempotency_key = 'b2'`), "the original is kept as it was sent")
		require.Equal(t, contracts.ResultDuplicate, r.post("drafts", "b2", `{"n":1}`).result())
	})

	t.Run("AListOfCloudEventsIsTaken", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		got, _ := send(r, "/v1/sources/cloud-events/batches", http.Header{"Content-Type": {"application/cloudevents-batch+json"}},
			`[{"specversion":"1.0","source":"/s","id":"1"},{"specversion":"1.0","source":"/s","id":"1"},{"specversion":"1.0","id":"2"}]`)
		require.Equal(t, []string{"accepted", "duplicate", "key_missing"}, results(got))
	})

	t.Run("ABadBatchStoresNothing", func(t *testing.T) {
		t.Parallel()
		r := newWorld(t).start()
		many := `{"events":[` + strings.TrimSuffix(strings.Repeat(`{"body":{}},`, 501), ",") + `]}`
		for body, status := range map[string]int{
			`{`: 400, `[]`: 400, `{"events":[]}`: 422, `{"events":{}}`: 400, `{"Events":[{"body":{}}]}`: 400,
			`{"events":[{"body":{},"key":"x"}]}`: 400, `{"events":[{"body":{}}]} {}`: 400, many: 422,
			`{"events":[{"body":{}}],"events":[{"body":{}}]}`: 400,
		} {
			var problem contracts.Problem
			response := r.exchange(http.MethodPost, "/v1/sources/drafts/batches", nil, body, &problem)
			require.Equal(t, status, response.StatusCode, "%.60s", body)
			require.NotEmpty(t, problem.Code)
		}
		require.Zero(t, r.stored())
	})

	t.Run("ATooLargeBodyIsRefusedEarly", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		var problem contracts.Problem
		response := r.exchange(http.MethodPost, "/v1/sources/drafts/batches", nil,
			string(bytes.Repeat([]byte(" "), 9<<20)), &problem)
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	})
}

func TestSearch(t *testing.T) { // K12
	t.Parallel()
	r := newWorld(t).start()
	for _, key := range []string{"s1", "s2", "s3"} {
		r.post("drafts", key, `{"task":"case-7"}`)
	}
	r.post("drafts", "s4", `{"task":"case-8"}`)
	r.exec(`update runs set state = 'failed_terminal', outcome = 'rejected', ended_at = now() where idempotency_key = 's2'`)
	require.Equal(t, contracts.ResultAccepted,
		r.send(call{path: "/v1/sources/drafts/events", token: keyOf(acme), header: keyed("s1"), body: `{"task":"case-7"}`}).result())
	search := func(query string) (list contracts.RunList) {
		t.Helper()
		response := r.exchange(http.MethodGet, "/v1/runs/search?"+query, nil, "", &list)
		require.Equal(t, http.StatusOK, response.StatusCode, query)
		return list
	}
	keys := func(list contracts.RunList) (found []string) {
		for _, one := range list.Runs {
			found = append(found, one.IdempotencyKey)
		}
		return found
	}

	t.Run("ByCorrelationIDTheNewestFirstAndOnlyTheTenantsOwn", func(t *testing.T) {
		list := search("correlation_id=case-7")
		require.Equal(t, []string{"s3", "s2", "s1"}, keys(list))
		require.Equal(t, "drafts", list.Runs[0].Source)
		require.Equal(t, "case-7", list.Runs[0].CorrelationID)
		require.Empty(t, list.Next)
	})

	t.Run("ByStateToo", func(t *testing.T) {
		require.Equal(t, []string{"s2"}, keys(search("correlation_id=case-7&state=failed_terminal")))
		require.Equal(t, []string{"s4", "s3", "s1"}, keys(search("state=processing")))
		require.Empty(t, keys(search("state=processing&since="+url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)))))
	})

	t.Run("PageByPage", func(t *testing.T) {
		var all []string
		after := ""
		for range 10 {
			list := search("correlation_id=case-7&limit=1&after=" + url.QueryEscape(after))
			all = append(all, keys(list)...)
			if after = list.Next; after == "" {
				break
			}
		}
		require.Equal(t, []string{"s3", "s2", "s1"}, all)
	})

	t.Run("WhatIsNotUnderstoodIsSaid", func(t *testing.T) {
		for _, query := range []string{"", "state=done", "correlation_id=", "correlation_id=a&limit=0", "correlation_id=a&limit=x",
			"correlation_id=a&after=x", "state=processing&since=2020-01-01T00:00:00Z", "correlation_id=a&sort=x",
			"correlation_id=a&correlation_id=b"} {
			var problem contracts.Problem
			response := r.exchange(http.MethodGet, "/v1/runs/search?"+query, nil, "", &problem)
			require.Equal(t, http.StatusBadRequest, response.StatusCode, query)
			require.Equal(t, contracts.CodeBadQuery, problem.Code, query)
		}
	})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tenant := range w.config.Tenants {
		if tenant.ID == demo {
			tenant.RateLimit = &config.RateLimit{PerSecond: 1, Burst: 3}
		}
	}
	r := w.start()
	var refused answer
	for i := range 4 {
		a := r.post("drafts", "r"+strconv.Itoa(i), `{"task":"t"}`)
		if a.problem.Code != "" {
			refused = a
		}
	}
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, contracts.CodeTooManyRequests, refused.result())
	require.Equal(t, []string{"1"}, refused.header["Retry-After"])
	other := r.send(call{path: "/v1/sources/drafts/events", token: keyOf(acme), header: keyed("r0"), body: `{"task":"t"}`})
	require.Equal(t, contracts.ResultAccepted, other.result(), "another tenant is not slowed down")
	require.Equal(t, contracts.ResultAccepted, next(w, w.publish(message{header: keyed("n1"), body: `{"task":"t"}`})).result(),
		"what comes over the stream waits there and is not refused")
}
