package intake_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

func TestDuplicates(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *replica {
		t.Helper()
		t.Parallel()
		return newWorld(t).start()
	}

	// One caller request, two executions milliseconds apart (INT-01, K3), here at its worst.
	t.Run("AThousandPostsAndNATSCopiesOverTwoReplicasAreOneRun", func(t *testing.T) {
		const posts, copies = 1000, 100
		one := setup(t)
		replicas := []*replica{one, one.start()}
		messages := make([]message, copies)
		for i := range messages {
			messages[i] = message{source: "inline", body: goodEvent,
				header: map[string][]string{"Idempotency-Key": {"k"},
					"Nats-Msg-Id": {fmt.Sprint(i)}}} // the broker must not help
		}
		var mu sync.Mutex
		results, runs := map[string]int{}, map[string]bool{}
		note := func(a answer) {
			mu.Lock()
			defer mu.Unlock()
			results[a.result()]++
			runs[a.runID()] = true
		}
		start := make(chan struct{})
		var senders sync.WaitGroup
		for i := range 50 {
			senders.Go(func() {
				<-start
				for range posts / 50 {
					note(replicas[i%2].post("inline", "k", goodEvent))
				}
			})
		}
		close(start)
		answers := one.publish(messages...)
		for range copies {
			note(next(one.world, answers))
		}
		senders.Wait()
		require.Equal(t, map[string]int{contracts.ResultAccepted: 1, contracts.ResultDuplicate: posts + copies - 1},
			results)
		require.Len(t, runs, 1, "every caller is told of the same run")
		require.Equal(t, 1, one.count("select count(*) from runs"))
		require.Equal(t, 1, one.count("select count(*) from intents"))
		require.Equal(t, 1,
			one.count("select count(*) from event_log where subject = 'holdpoint.internal.intent.submitted'"))
		require.Equal(t, 1, one.count("select count(*) from audit_events"))
	})

	// A key belongs to its tenant (INT-06, B7).
	t.Run("TenantsDoNotMeet", func(t *testing.T) {
		r := setup(t)
		const path = "/v1/sources/drafts/events"
		ours := r.send(call{path: path, header: keyed("order-1"), body: `{"a":1}`})
		theirs := r.send(call{path: path, header: keyed("order-1"), body: `{"a":2}`, token: keyOf(acme)})
		require.Equal(t, contracts.ResultAccepted, ours.result())
		require.Equal(t, contracts.ResultAccepted, theirs.result())
		require.NotEqual(t, ours.runID(), theirs.runID())
		again := r.send(call{path: path, header: keyed("order-1"), body: `{"a":2}`, token: keyOf(acme)})
		require.Equal(t, contracts.ResultDuplicate, again.result())
		require.Equal(t, theirs.runID(), again.runID())
		other := next(r.world, r.publish(message{tenant: acme, header: keyed("order-1"), body: `{"a":1}`}))
		require.Equal(t, contracts.CodePayloadMismatch, other.result(),
			"the same body as the other tenant's is a conflict with its own")
		require.Equal(t, theirs.runID(), other.runID())

		byKey := r.send(call{method: http.MethodGet, path: "/v1/runs?key=order-1", token: keyOf(acme)})
		require.Equal(t, theirs.runID(), byKey.runID())
		stranger := r.send(call{method: http.MethodGet, path: "/v1/runs/" + ours.runID(), token: keyOf(acme)})
		require.Equal(t, contracts.CodeNotFound, stranger.result())
		require.Equal(t, contracts.CodeNotFound, r.request(acme, "get", nil, `{"run_id":"`+ours.runID()+`"}`).result())
		require.Equal(t, 1, r.count("select count(*) from audit_events where tenant_id = 'demo'"))
		require.Zero(t, r.count("select count(*) from audit_events where tenant_id = 'acme' and run_id = $1",
			ours.runID()))
	})

	// The same key with another payload (K4).
	t.Run("AConflictRunsNothingKeepsBothHashesAndIsTold", func(t *testing.T) {
		r := setup(t)
		first := r.post("inline", "k", goodEvent)
		changed := strings.Replace(goodEvent, "Lisbon", "Porto", 1)
		for range 3 {
			a := r.post("inline", "k", changed)
			require.Equal(t, http.StatusUnprocessableEntity, a.status)
			require.Equal(t, contracts.CodePayloadMismatch, a.problem.Code)
			require.Equal(t, contracts.ResultPayloadMismatch, a.problem.Result)
			require.Equal(t, first.runID(), a.problem.RunID)
		}
		require.Equal(t, contracts.CodePayloadMismatch, next(r.world,
			r.publish(message{source: "inline", header: keyed("k"), body: changed})).result())
		require.Equal(t, 1, r.count("select count(*) from runs"))
		require.Equal(t, 1, r.count("select count(*) from intents"))
		require.Equal(t, goodEvent, string(one[[]byte](r.world, "select payload from run_payloads")),
			"nothing is overwritten")
		require.Equal(t, changed, string(one[[]byte](r.world, "select payload from run_conflicts")))
		conflicts := told[*contracts.RunConflict](r.world, "holdpoint.events.demo.run.conflict")
		require.Len(t, conflicts, 1, "the same conflict is news once")
		require.Equal(t, one[string](r.world, "select encode(payload_hash, 'hex') from runs"), conflicts[0].StoredHash)
		require.Equal(t, one[string](r.world, "select encode(payload_hash, 'hex') from run_conflicts"),
			conflicts[0].ReceivedHash)
		require.NotEqual(t, conflicts[0].StoredHash, conflicts[0].ReceivedHash)
		require.Equal(t, first.runID(), conflicts[0].RunID)
		require.EqualValues(t, 4, r.counted("holdpoint_intake_answers_total",
			map[string]string{"result": contracts.CodePayloadMismatch}),
			"operators are alerted by this counter")
		require.Contains(t, r.logs.text(), "WARN a key came again with another payload")
		require.Equal(t, contracts.ResultDuplicate, r.post("inline", "k", goodEvent).result(),
			"the first payload still owns the key")
	})

	// The model's arguments changed, or it forgot the id that its caller owns (INT-07).
	t.Run("ARetryUnderANewCallIDIsTheSameEvent", func(t *testing.T) {
		r := setup(t)
		send := func(callID, key, body string) answer {
			header := keyed(key)
			header.Set("X-Call-Id", callID)
			return r.send(call{path: "/v1/sources/drafts/events", header: header, body: body})
		}
		require.Equal(t, contracts.ResultAccepted, send("call_1", "op-7", `{"amount":100}`).result())
		require.Equal(t, contracts.ResultDuplicate, send("call_3", "op-7", `{"amount":100.00}`).result())
		require.Equal(t, contracts.CodePayloadMismatch, send("call_5", "op-7", `{"amount":101}`).result())
		require.Equal(t, contracts.CodeKeyMissing, send("call_6", "", `{"amount":100}`).result())
	})

	// Delivery ids are the integrator's and the broker's, and decide nothing (B2, BUS-02).
	t.Run("OnlyTheKeyDecidesWhatIsTheSameEvent", func(t *testing.T) {
		r := setup(t)
		header := func(key, ceID, messageID string) map[string][]string {
			return map[string][]string{"Idempotency-Key": {key}, "ce-id": {ceID}, "Nats-Msg-Id": {messageID}}
		}
		answers := r.publish(
			message{header: header("k", "1", "a"), body: `{}`}, message{header: header("k", "2", "b"), body: `{}`},
			message{header: header("other", "1", "c"), body: `{}`})
		results := map[string]int{}
		for range 3 {
			a := next(r.world, answers)
			results[a.result()]++
		}
		require.Equal(t, map[string]int{contracts.ResultAccepted: 2, contracts.ResultDuplicate: 1}, results)
	})

	// Every state has its own answer (K9, K14). What later services write is written here by hand.
	t.Run("ADuplicateIsToldTheStateOrTheResult", func(t *testing.T) {
		shared := setup(t)
		for _, tc := range []struct{ name, change, result, state, outcome string }{
			{"Processing", "state = 'processing'", contracts.ResultDuplicate, "processing", ""},
			{"AwaitingHuman", "state = 'awaiting_human'", contracts.ResultDuplicate, "awaiting_human", ""},
			{"Approved", "state = 'approved'", contracts.ResultDuplicate, "approved", ""},
			{"Completed", "state = 'completed', outcome = 'executed', ended_at = now()",
				contracts.ResultDuplicateWithResult,
				"completed", "executed"},
			{"Rejected", "state = 'failed_terminal', outcome = 'rejected', ended_at = now()",
				contracts.ResultDuplicateWithResult,
				"failed_terminal", "rejected"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := shared.as(t)
				first := r.post("inline", tc.name, goodEvent)
				require.Equal(t, http.StatusAccepted, first.status)
				r.exec("update runs set "+tc.change+" where idempotency_key = $1", tc.name)
				over := map[string]answer{
					"http": r.post("inline", tc.name, goodEvent),
					"nats": next(r.world, r.publish(message{source: "inline", header: keyed(tc.name),
						body: goodEvent})),
					"get": r.send(call{method: http.MethodGet, path: "/v1/runs/" + first.runID()}),
					"find": r.send(call{method: http.MethodGet, path: "/v1/runs?key=" + tc.name, token: keyOf(demo) +
						"-read"}),
					"api": r.request(demo, "get", nil, `{"key":"`+tc.name+`"}`),
				}
				for door, a := range over {
					require.Equal(t, tc.result, a.result(), door)
					require.Equal(t, tc.state, a.State, door)
					require.Equal(t, tc.outcome, a.Outcome, door)
					require.Equal(t, first.runID(), a.runID(), door)
					require.Equal(t, tc.name, a.IdempotencyKey, door)
				}
				status := http.StatusAccepted
				if tc.outcome != "" {
					status = http.StatusOK
				}
				require.Equal(t, status, over["http"].status)
				require.Equal(t, http.StatusOK, over["get"].status)
				require.Equal(t, 1, r.count("select version from runs where idempotency_key = $1", tc.name),
					"nothing restarts")
				require.Equal(t, 1, r.count("select count(*) from event_log where run_id = $1", first.runID()))
			})
		}
	})

	t.Run("AnAcceptedAnswerLinksToTheStatus", func(t *testing.T) {
		r := setup(t)
		a := r.post("inline", "k", goodEvent)
		require.Equal(t, http.StatusAccepted, a.status)
		require.Equal(t, []string{a.StatusURL}, a.header["Location"])
		require.Equal(t, "processing", a.State, "stored and queued is not done")
		require.Equal(t, a.runID(), r.send(call{method: http.MethodGet, path: a.StatusURL}).runID())
	})
}

// Who may call is decided before anything is read.
func TestCallers(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	before := r.stored()
	for _, tc := range []struct{ name, method, path, token, code string }{
		{"AnUnknownKey", http.MethodPost, "/v1/sources/drafts/events", "nobody", contracts.CodeUnauthenticated},
		{"TheHashOfAKey", http.MethodPost, "/v1/sources/drafts/events",
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			contracts.CodeUnauthenticated},
		{"AReaderWhoPublishes", http.MethodPost, "/v1/sources/drafts/events", keyOf(demo) + "-read",
			contracts.CodeForbidden},
		{"AReaderWhoClaims", http.MethodPost, "/v1/sources/drafts/claims", keyOf(demo) + "-read",
			contracts.CodeForbidden},
		{"AReaderWhoFails", http.MethodPost, "/v1/runs/x/failure", keyOf(demo) + "-read", contracts.CodeForbidden},
		{"AClaimOfAnInlineSource", http.MethodPost, "/v1/sources/inline/claims", "", contracts.CodeForbidden},
		{"ARunThatIsNone", http.MethodGet, "/v1/runs/x", "", contracts.CodeNotFound},
		{"NoKeyToFindBy", http.MethodGet, "/v1/runs", "", contracts.CodeKeyMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := r.as(t).send(call{method: tc.method, path: tc.path, token: tc.token, header: keyed("k"), body: `{}`})
			require.Equal(t, tc.code, a.problem.Code)
			require.Equal(t, a.problem.Status, a.status)
			require.Equal(t, tc.code == contracts.CodeUnauthenticated, len(a.header["Www-Authenticate"]) == 1)
		})
	}
	t.Run("NoKeyAtAll", func(t *testing.T) {
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Basic " + keyOf(demo)} {
			header := keyed("k")
			header.Set("Authorization", authorization)
			a := r.send(call{path: "/v1/sources/drafts/events", header: header, body: `{}`})
			require.Equal(t, contracts.CodeUnauthenticated, a.problem.Code, authorization)
		}
	})
	require.Equal(t, before, r.stored())
	require.NotContains(t, r.logs.text(), keyOf(demo), "keys are not logged")
}
