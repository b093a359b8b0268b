package intake_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// The request/reply door besides the worker's protocol, which TestWorkers runs on it.
func TestRequestReply(t *testing.T) {
	t.Parallel()
	shared := newWorld(t).start()
	shared.request(acme, "get", nil, `{"key":"k"}`)

	t.Run("BadRequestsAreProblemsWithTheSameCodes", func(t *testing.T) {
		r := shared.as(t)
		before := r.stored()
		for _, tc := range []struct{ name, verb, body, code, status string }{
			{"UnknownSource", "claim.nobody", `{}`, contracts.CodeUnknownSource, "404"},
			{"InlineSource", "claim.inline", goodEvent, contracts.CodeForbidden, "403"},
			{"NoKey", "claim.pointer", `{}`, contracts.CodeKeyMissing, "400"},
			{"NotJSON", "claim.drafts", `{`, contracts.CodeMalformed, "400"},
			{"GetWithNothing", "get", `{}`, contracts.CodeSchemaInvalid, "422"},
			{"GetWithBoth", "get", `{"key":"k","run_id":"` + uuid.NewString() + `"}`, contracts.CodeSchemaInvalid,
				"422"},
			{"GetWithMore", "get", `{"key":"k","tenant":"acme"}`, contracts.CodeSchemaInvalid, "422"},
			{"GetNotJSON", "get", ``, contracts.CodeMalformed, "400"},
			{"GetNoRun", "get", `{"run_id":"` + uuid.NewString() + `"}`, contracts.CodeNotFound, "404"},
			{"GetNoUUID", "get", `{"run_id":"x"}`, contracts.CodeNotFound, "404"},
			{"SubmitWithoutARun", "submit", `{"owner":"` + uuid.NewString() + `","version":1,"proposal":{}}`,
				contracts.CodeNotFound, "404"},
			{"SubmitNotJSON", "submit", `x`, contracts.CodeMalformed, "400"},
			{"FailWithoutALease", "fail", `{"run_id":"x"}`, contracts.CodeSchemaInvalid, "422"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := r.as(t)
				header := map[string][]string{"Idempotency-Key": {"k"}}
				a := r.request(demo, tc.verb, header, tc.body)
				require.Equal(t, tc.code, a.problem.Code)
				require.Equal(t, tc.status, a.header[micro.ErrorCodeHeader][0])
				require.NotEmpty(t, a.header[micro.ErrorHeader][0])
				require.Equal(t, "application/problem+json", a.header["Content-Type"][0])
				require.Equal(t, before, r.stored())
			})
		}
	})

	t.Run("AnAnswerIsNoErrorForItsClients", func(t *testing.T) {
		r := shared.as(t)
		a := r.request(demo, "claim.drafts", keyed("answer"), `{}`)
		require.Empty(t, a.header[micro.ErrorCodeHeader])
		require.Equal(t, "application/json", a.header["Content-Type"][0])
		require.EqualValues(t, 1, r.counted("holdpoint_intake_answers_total",
			map[string]string{"door": "request_reply", "verb": "claim", "tenant": demo,
				"result": contracts.ResultAccepted}))
	})

	// An answer on a subject of the caller's choice would be written with our rights, and a lease that nobody hears of
	// holds its run back.
	t.Run("NothingIsDoneForACallerWithoutAnInbox", func(t *testing.T) {
		r := shared.as(t)
		r.request(demo, "get", nil, `{"key":"k"}`) // somebody listens
		stream, err := r.js.Stream(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		for _, reply := range []string{"", bus.InternalSubject("intent", "submitted"),
			bus.IngressSubject(acme, "drafts")} {
			msg := nats.NewMsg(bus.APISubject(demo, "claim.drafts"))
			msg.Reply, msg.Data = reply, []byte(`{}`)
			msg.Header.Set("Idempotency-Key", "unheard")
			require.NoError(t, r.nc.PublishMsg(msg))
		}
		require.Eventually(t, func() bool { return countOf(r.logs.text(), "ignored a request without an inbox") == 3 },
			patience, pollEvery)
		require.Zero(t, r.count("select count(*) from runs where idempotency_key = 'unheard'"))
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		require.Zero(t, info.State.LastSeq)
	})

	t.Run("OperatorsSeeTheServiceOfEachTenant", func(t *testing.T) {
		r := shared.as(t)
		response, err := r.nc.Request("$SRV.INFO.holdpoint-demo", nil, patience)
		require.NoError(t, err)
		var info micro.Info
		require.NoError(t, json.Unmarshal(response.Data, &info))
		subjects := map[string]string{}
		for _, e := range info.Endpoints {
			subjects[e.Name] = e.Subject
		}
		require.Equal(t, map[string]string{"claim": "holdpoint.api.demo.claim.*", "renew": "holdpoint.api.demo.renew",
			"submit": "holdpoint.api.demo.submit", "work": "holdpoint.api.demo.work.*",
			"fail": "holdpoint.api.demo.fail", "get": "holdpoint.api.demo.get"}, subjects)
	})

	// Each request reaches one replica, and a replica that stops takes no request with it.
	t.Run("ReplicasShareTheRequests", func(t *testing.T) {
		r := shared.as(t)
		second := r.start()
		require.Eventually(t, func() bool {
			response, err := r.nc.Request("$SRV.INFO.holdpoint-demo", nil, patience)
			return err == nil && len(response.Data) > 0 && second.services() == 2
		}, patience, pollEvery)
		var callers sync.WaitGroup
		answers := make(chan answer, 200)
		for i := range cap(answers) {
			callers.Go(func() {
				answers <- r.request(demo, "claim.drafts", keyed("shared-"+string(rune('a'+i%10))),
					`{}`)
			})
			if i == cap(answers)/2 {
				require.NoError(t, second.stop())
			}
		}
		callers.Wait()
		results := map[string]int{}
		for range cap(answers) {
			a := <-answers
			results[a.result()]++
		}
		require.Equal(t, map[string]int{contracts.ResultAccepted: 10, contracts.ResultDuplicate: 190}, results)
	})
}

// services is how many replicas answer for the tenant demo.
func (w *world) services() int {
	w.t.Helper()
	inbox := nats.NewInbox()
	sub, err := w.nc.SubscribeSync(inbox)
	require.NoError(w.t, err)
	defer func() { _ = sub.Unsubscribe() }()
	require.NoError(w.t, w.nc.PublishRequest("$SRV.PING.holdpoint-demo", inbox, nil))
	n := 0
	for {
		if _, err := sub.NextMsg(100 * time.Millisecond); err != nil {
			return n
		}
		n++
	}
}
