package intake_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// answer is what a door said: an answer or a problem, with an HTTP status where the door has one.
type answer struct {
	contracts.Answer
	problem contracts.Problem // its Code is empty where there is none

	status int
	header map[string][]string
}

// result is the result of an answer, or the code of a problem.
func (a answer) result() string {
	if a.problem.Code != "" {
		return a.problem.Code
	}
	return a.Result
}

// runID is the run that an answer or a problem is about.
func (a answer) runID() string {
	if a.problem.Code != "" {
		return a.problem.RunID
	}
	return a.RunID
}

func decode(w *world, data []byte, status int, header map[string][]string) answer {
	w.t.Helper()
	a := answer{status: status, header: header}
	require.NoError(w.t, json.Unmarshal(data, &a.problem), "%s", data)
	if a.problem.Code == "" {
		a.problem = contracts.Problem{}
		require.NoError(w.t, json.Unmarshal(data, &a.Answer))
	}
	return a
}

// call is one HTTP request. Empty members take what a good event has.
type call struct {
	method, path string
	token        string
	header       http.Header
	body         string
	ctx          context.Context
}

// try sends a call; an error is one of the connection.
func (r *replica) try(c call) (answer, error) {
	r.t.Helper()
	if c.ctx == nil {
		c.ctx = r.t.Context()
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(c.ctx, c.method, r.url+c.path, strings.NewReader(c.body))
	require.NoError(r.t, err)
	request.Header.Set("Authorization", "Bearer "+keyOf(demo))
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	return decode(r.world, data, response.StatusCode, response.Header), nil
}

// send sends a call that must be answered.
func (r *replica) send(c call) answer {
	r.t.Helper()
	a, err := r.try(c)
	require.NoError(r.t, err)
	return a
}

// keyed is a header with an idempotency key.
func keyed(key string) http.Header { return http.Header{"Idempotency-Key": {key}} }

// post sends an event of the tenant demo.
func (r *replica) post(source, key, body string) answer {
	r.t.Helper()
	return r.send(call{path: "/v1/sources/" + source + "/events", header: keyed(key), body: body})
}

// claim asks for the lease of an event of source drafts.
func (r *replica) claim(key, body string) answer {
	r.t.Helper()
	return r.send(call{path: "/v1/sources/drafts/claims", header: keyed(key), body: body})
}

// under is a worker's call under a lease.
func (r *replica) under(lease *contracts.Lease, run, verb string, members map[string]any) answer {
	r.t.Helper()
	body := map[string]any{"owner": lease.Owner, "version": lease.Version}
	for name, value := range members {
		body[name] = value
	}
	return r.send(call{path: "/v1/runs/" + run + "/" + verb, body: asJSON(r.world, body)})
}

func asJSON(w *world, value any) string {
	w.t.Helper()
	text, err := json.Marshal(value)
	require.NoError(w.t, err)
	return string(text)
}

// message is one publish to a tenant's ingress stream.
type message struct {
	tenant, source string // demo and drafts
	header         map[string][]string
	body           string
}

// publish publishes messages and waits until they are in the stream; their answers come on the returned channel.
func (w *world) publish(messages ...message) <-chan answer {
	w.t.Helper()
	inbox := rand.Text()
	answers := make(chan answer, 2*len(messages))
	for _, tenant := range []string{demo, acme} {
		sub, err := w.nc.Subscribe(bus.InboxPrefix(tenant)+"."+inbox,
			func(m *nats.Msg) { answers <- decode(w, m.Data, 0, m.Header) })
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	for _, m := range messages {
		if m.tenant == "" {
			m.tenant = demo
		}
		if m.source == "" {
			m.source = "drafts"
		}
		msg := nats.NewMsg(bus.IngressSubject(m.tenant, m.source))
		msg.Data = []byte(m.body)
		for name, values := range m.header {
			msg.Header[name] = values
		}
		msg.Header.Set(bus.HeaderReply, bus.InboxPrefix(m.tenant)+"."+inbox)
		_, err := w.js.PublishMsgAsync(msg)
		require.NoError(w.t, err)
	}
	select {
	case <-w.js.PublishAsyncComplete():
	case <-time.After(patience):
		require.Fail(w.t, "the broker did not take the messages")
	}
	return answers
}

// next waits for an answer.
func next(w *world, answers <-chan answer) answer {
	w.t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(patience):
		require.Fail(w.t, "no answer came", w.logs.text())
		return answer{}
	}
}

// unsettled is how many messages a tenant's consumer has before it.
func (w *world) unsettled(tenant string) int {
	w.t.Helper()
	consumer, err := w.js.Consumer(w.t.Context(), bus.IngressStream(tenant), bus.IntakeConsumer)
	require.NoError(w.t, err)
	return consumer.CachedInfo().NumAckPending + int(consumer.CachedInfo().NumPending)
}

// awaitSettled waits until all messages of a tenant are acknowledged.
func (w *world) awaitSettled(tenant string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.unsettled(tenant) == 0 }, patience, pollEvery,
		"messages are not acknowledged")
}

// request calls a tenant's request/reply door.
func (w *world) request(tenant, verb string, header map[string][]string, body string) answer {
	w.t.Helper()
	msg := nats.NewMsg(bus.APISubject(tenant, verb))
	msg.Data = []byte(body)
	for name, values := range header {
		msg.Header[name] = values
	}
	var response *nats.Msg
	require.Eventually(w.t, func() bool { // until a replica has subscribed
		var err error
		response, err = w.nc.RequestMsg(msg, patience)
		return !errors.Is(err, nats.ErrNoResponders)
	}, patience, pollEvery)
	require.NotNil(w.t, response, "no answer in time")
	return decode(w, response.Data, 0, response.Header)
}

// told is the data of the events that were committed on a subject, as the relay will publish them; of all runs or of
// some.
func told[D contracts.Data](w *world, subject string, runs ...string) []D {
	w.t.Helper()
	const query = `select payload from event_log
where subject = $1 and (cardinality($2::uuid[]) = 0 or run_id = any($2)) order by event_id`
	rows, err := w.sql.Query(w.t.Context(), query, subject, append([]string{}, runs...))
	require.NoError(w.t, err)
	defer rows.Close()
	var all []D
	for rows.Next() {
		var payload []byte
		require.NoError(w.t, rows.Scan(&payload))
		event, err := contracts.Decode(payload)
		require.NoError(w.t, err)
		all = append(all, event.Data.(D))
	}
	require.NoError(w.t, rows.Err())
	return all
}

// counted is the value of a counter where all of the given attributes are as given.
func (w *world) counted(name string, attributes map[string]string) int64 {
	w.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(w.t, w.meters.Collect(context.WithoutCancel(w.t.Context()), &all))
	var sum int64
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				matches := true
				for key, want := range attributes {
					got, _ := point.Attributes.Value(attribute.Key(key))
					matches = matches && got.String() == want
				}
				if matches {
					sum += point.Value
				}
			}
		}
	}
	return sum
}

// countOf is how often a text holds another.
func countOf(text, part string) int { return strings.Count(text, part) }
