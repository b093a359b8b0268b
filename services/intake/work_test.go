package intake_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// waitingSources are sources for workers alone, one for each case, so that no case takes another's runs.
const waitingSources = `sources:
  - {id: http, mode: worker, rules: [{version: 1, key: {header: Idempotency-Key}}]}
  - {id: bus, mode: worker, rules: [{version: 1, key: {header: Idempotency-Key}}]}
  - {id: later, mode: worker, rules: [{version: 1, key: {header: Idempotency-Key}}]}
  - {id: short, mode: worker, attempts: 2, rules: [{version: 1, key: {header: Idempotency-Key}}]}
  - {id: stopping, mode: worker, rules: [{version: 1, key: {header: Idempotency-Key}}]}
  - {id: inline, mode: inline, proposal: /proposal, rules: [{version: 1, key: {header: Idempotency-Key}}]}
`

// take asks for work over HTTP.
func (r *replica) take(source, body string) (contracts.Work, int) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/sources/"+source+"/work",
		strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header = http.Header{"Authorization": {"Bearer " + keyOf(demo)}, "Content-Type": {"application/json"}}
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	var work contracts.Work
	require.NoError(r.t, json.NewDecoder(response.Body).Decode(&work))
	return work, response.StatusCode
}

func TestWork(t *testing.T) { // M1, K6
	t.Parallel()
	w := newWorld(t)
	w.config = configured(t, waitingSources)
	shared := w.start()

	t.Run("APostedEventIsGivenToAWorkerWhoSubmits", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		posted := r.post("http", "w1", `{"task": "t-1", "amount": 12345678901234567890.10}`)
		work, status := r.take("http", `{"max": 5}`)
		require.Equal(t, http.StatusOK, status)
		require.Len(t, work.Work, 1)
		item := work.Work[0]
		require.Equal(t, posted.RunID, item.Run.RunID)
		require.Equal(t, 1, item.Attempt)
		require.Greater(t, item.Run.Lease.RemainingMS, int64(50_000))
		require.JSONEq(t, `{"task":"t-1","amount":12345678901234567890.10}`, string(item.Event.Body))
		require.Contains(t, string(item.Event.Body), "12345678901234567890.10", "numbers are as they were sent")
		require.Equal(t, "w1", item.Event.Headers["idempotency-key"])
		require.NotContains(t, item.Event.Headers, "authorization")
		empty, _ := r.take("http", `{}`)
		require.Empty(t, empty.Work)
		submitted := r.under(item.Run.Lease, item.Run.RunID, "proposal", map[string]any{"proposal": proposal})
		require.Equal(t, contracts.ResultAccepted, submitted.result())
	})

	t.Run("OverRequestReplyItIsTheSame", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		r.post("bus", "b1", `{"task":"t-1"}`)
		var msg *nats.Msg
		require.Eventually(t, func() bool {
			var err error
			msg, err = r.nc.Request(bus.APISubject(demo, "work.bus"), []byte(`{"owner":"`+uuid.NewString()+`"}`), patience)
			return err == nil
		}, patience, pollEvery)
		var work contracts.Work
		require.NoError(t, json.Unmarshal(msg.Data, &work))
		require.Len(t, work.Work, 1)
		require.Equal(t, "b1", work.Work[0].Run.IdempotencyKey)
	})

	t.Run("AWorkerThatWaitsIsGivenWhatComes", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		given := make(chan contracts.Work, 3)
		for range 3 {
			go func() {
				work, _ := r.take("later", `{"wait_seconds": 30}`)
				given <- work
			}()
		}
		for _, key := range []string{"l1", "l2", "l3"} {
			r.post("later", key, `{"task":"t"}`)
		}
		seen := map[string]bool{}
		for range 3 {
			select {
			case work := <-given:
				require.Len(t, work.Work, 1)
				seen[work.Work[0].Run.IdempotencyKey] = true
			case <-time.After(patience):
				require.Fail(t, "a worker that waits got nothing")
			}
		}
		require.Len(t, seen, 3)
	})

	t.Run("TheLastAttemptThatFailsEndsTheRun", func(t *testing.T) { // M4
		t.Parallel()
		r := shared.as(t)
		posted := r.post("short", "s1", `{"task":"t"}`)
		fail := map[string]any{"retryable": true, "reason": "no answer", "class": "timeout", "retry_after_seconds": 600}
		work, _ := r.take("short", `{}`)
		require.Equal(t, "failed_retryable",
			r.under(work.Work[0].Run.Lease, posted.RunID, "failure", fail).State)
		require.Equal(t, 1, r.count(`select count(*) from waiting_runs where run_id = $1
and available_at between now() + interval '590 seconds' and now() + interval '600 seconds'`, posted.RunID))
		r.exec(`update waiting_runs set available_at = now() where run_id = $1`, posted.RunID)
		work, _ = r.take("short", `{}`)
		require.Equal(t, 2, work.Work[0].Attempt)
		last := r.under(work.Work[0].Run.Lease, posted.RunID, "failure", fail)
		require.Equal(t, "failed_terminal", last.State)
		require.Equal(t, "failed", last.Outcome)
		require.Equal(t, "no answer (the last of 2 attempts)",
			one[string](r.world, `select outcome_reason from runs where run_id = $1`, posted.RunID))
		require.Zero(t, r.count(`select count(*) from waiting_runs where run_id = $1`, posted.RunID))
	})

	t.Run("AWorkerThatKeepsDyingUsesUpTheAttempts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.config = configured(t, waitingSources)
		r := w.start()
		posted := r.post("short", "d1", `{"task":"t"}`)
		for range 2 {
			work, _ := r.take("short", `{}`)
			require.Len(t, work.Work, 1)
			r.exec(`update runs set lease_expires_at = clock_timestamp()`)
			r.exec(`update waiting_runs set available_at = clock_timestamp()`)
		}
		work, _ := r.take("short", `{}`)
		require.Empty(t, work.Work)
		require.Equal(t, "failed", one[string](w, `select outcome from runs where run_id = $1`, posted.RunID))
		require.Contains(t, w.logs.text(), "ERROR a run ended without a proposal")
	})

	t.Run("BadRequestsAreToldWhatIsWrong", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		for body, code := range map[string]string{
			`{"max": 0}`: "schema_invalid", `{"max": 101}`: "schema_invalid", `{"max": "5"}`: "schema_invalid",
			`{"wait_seconds": 31}`: "schema_invalid", `{"owner": "me"}`: "schema_invalid", `{"lease": 5}`: "schema_invalid",
			`[]`: "schema_invalid", `{`: "malformed",
		} {
			require.Equal(t, code, r.send(call{path: "/v1/sources/http/work", body: body}).problem.Code, body)
		}
		nothing, status := r.take("inline", `{}`)
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, nothing.Work, "its events carry their proposals, and none was sent back")
		require.Equal(t, "unknown_source", r.send(call{path: "/v1/sources/none/work", body: `{}`}).problem.Code)
		require.Equal(t, "forbidden",
			r.send(call{path: "/v1/sources/http/work", body: `{}`, token: keyOf(demo) + "-read"}).problem.Code)
	})

	t.Run("WhoWaitsIsAnsweredWhenTheReplicaStops", func(t *testing.T) { // O6
		t.Parallel()
		w := newWorld(t)
		w.config = configured(t, waitingSources)
		r := w.start()
		answered := make(chan int, 1)
		go func() {
			_, status := r.take("stopping", `{"wait_seconds": 30}`)
			answered <- status
		}()
		w.await(`exists (select from pg_stat_activity where query like '%waiting_runs%' and pid <> pg_backend_pid()
and application_name = 'intake')`)
		require.NoError(t, r.stop())
		require.Equal(t, http.StatusOK, <-answered)
	})
}
