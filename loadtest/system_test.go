package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// system plays Holdpoint for the driver, over real HTTP and NATS and with a real sandbox, and breaks the promise that a
// test names. The hooks see the position of a run in the order of claims, from 1.
type system struct {
	t         *testing.T
	opts      options // ready to drive it
	sandbox   *sandbox.Client
	js        jetstream.JetStream
	intakeURL string
	bodies    map[string]string // payload that owns the key
	copies    map[string]int    // deliveries of the key
	messages  map[string]bool   // NATS message ids seen

	writesOf func(run int) int    // default 1
	extra    string               // reference of one more write for each run
	outcome  func(run int) string // default executed; "" never ends
	answer   func(a *contracts.Answer)
	silent   func(copy int) bool // of a key, from 1: is it left without any answer?

	ready map[string]any // what the ready file says
	gate  *gate          // where people decide; nil where nobody does

	mu        sync.Mutex
	consuming sync.Mutex // held while a message is being taken
}

const apiKey = "key-of-the-driver"

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{
		t: t, sandbox: sandboxtest.New(t),
		bodies: map[string]string{}, copies: map[string]int{}, messages: map[string]bool{},
		writesOf: func(int) int { return 1 },
		outcome:  func(int) string { return "executed" },
		answer:   func(*contracts.Answer) {},
		silent:   func(int) bool { return false },
	}
	natsURL := s.serveNATS()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sources/crm-enrichment/events", s.post)
	mux.HandleFunc("POST /v1/sources/support-refunds/events", s.post)
	mux.HandleFunc("GET /v1/runs/{id}", s.get)
	intake := httptest.NewServer(mux)
	t.Cleanup(intake.Close)
	s.intakeURL = intake.URL
	s.opts = options{
		readyFile: filepath.Join(t.TempDir(), "ready.json"), flow: "auto", door: doorHTTP,
		keys: 50, duplicates: 1, concurrency: 16, deciders: 8, settle: 10 * time.Second, skipPostgresOnly: true,
	}
	s.ready = map[string]any{
		"intake_url": intake.URL, "nats_url": natsURL, "sandbox_url": s.sandbox.URL(), "api_key": apiKey,
		"tenant": "demo", "people": []string{}, "database_url": "postgres://unused",
	}
	s.writeReady()
	return s
}

func (s *system) writeReady() {
	s.t.Helper()
	content, err := json.Marshal(s.ready)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(s.opts.readyFile, content, 0o600))
}

// serveNATS starts a broker with the two streams and consumes the ingress one. It returns the URL.
func (s *system) serveNATS() string {
	s.t.Helper()
	server, err := natsserver.NewServer(&natsserver.Options{
		Port: -1, JetStream: true, StoreDir: s.t.TempDir(), NoSigs: true, NoLog: true, Username: "demo", Password: "secret",
	})
	require.NoError(s.t, err)
	server.Start()
	s.t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	require.True(s.t, server.ReadyForConnections(20*time.Second))
	url := strings.Replace(server.ClientURL(), "nats://", "nats://demo:secret@", 1)
	nc, err := nats.Connect(url)
	require.NoError(s.t, err)
	s.t.Cleanup(nc.Close)
	s.js, err = jetstream.New(nc)
	require.NoError(s.t, err)
	for name, subject := range map[string]string{
		"HOLDPOINT_EVENTS_DEMO":  "holdpoint.events.demo.>",
		"HOLDPOINT_INGRESS_DEMO": "holdpoint.ingress.demo.*",
	} {
		_, err := s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		require.NoError(s.t, err)
	}
	consumer, err := s.js.CreateConsumer(s.t.Context(), "HOLDPOINT_INGRESS_DEMO",
		jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(s.t, err)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) { s.consume(nc, msg) })
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		consuming.Stop()
		s.consuming.Lock() // and stays locked: what is still delivered finds no test to report to
	})
	return url
}

func (s *system) consume(nc *nats.Conn, msg jetstream.Msg) {
	s.consuming.Lock()
	defer s.consuming.Unlock()
	header := msg.Headers()
	s.mu.Lock()
	s.messages[header.Get("Nats-Msg-Id")] = true
	s.mu.Unlock()
	if answer, said := s.take(header.Get("Idempotency-Key"), msg.Data()); said {
		body, _ := json.Marshal(answer)
		nc.Publish(header.Get("Holdpoint-Reply"), body)
	}
	msg.Ack()
}

func (s *system) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Authorization") != "Bearer "+apiKey {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	answer, said := s.take(r.Header.Get("Idempotency-Key"), body)
	if !said {
		panic(http.ErrAbortHandler)
	}
	status := http.StatusAccepted
	if answer.Result == contracts.ResultPayloadMismatch {
		status = http.StatusUnprocessableEntity
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func (s *system) get(w http.ResponseWriter, r *http.Request) {
	operation := strings.Replace(r.PathValue("id"), "run-", "op-", 1)
	json.NewEncoder(w).Encode(contracts.Answer{
		Result: "duplicate", Effects: []contracts.Effect{{OperationID: operation, State: "unknown"}},
	})
}

// take claims the key, and runs the run of a new one to its end.
func (s *system) take(key string, body []byte) (contracts.Answer, bool) {
	s.mu.Lock()
	s.copies[key]++
	held, known := s.bodies[key]
	if !known {
		s.bodies[key] = string(body)
	}
	run, said := len(s.bodies), !s.silent(s.copies[key])
	s.mu.Unlock()
	a := contracts.Answer{Result: contracts.ResultDuplicate, IdempotencyKey: key, RunID: "run-" + key, State: "processing"}
	switch {
	case known && held != string(body):
		a.Result = contracts.ResultPayloadMismatch
	case !known:
		a.Result = contracts.ResultAccepted
		s.begin(run, key, body)
	}
	s.answer(&a)
	return a, said
}

// begin lets a run go on, or wait for people.
func (s *system) begin(run int, key string, body []byte) {
	var event struct{ Proposal contracts.Proposal }
	if err := json.Unmarshal(body, &event); err != nil {
		s.t.Errorf("body of %s: %v", key, err)
		return
	}
	if s.gate != nil {
		s.gate.ask(run, key, event.Proposal)
		return
	}
	s.execute(run, key, event.Proposal.Target.RecordID)
}

// execute writes to the sandbox and tells the tenant.
func (s *system) execute(run int, key, record string) {
	for range s.writesOf(run) {
		s.write(record, "op-"+key)
	}
	if s.extra != "" {
		s.write(record, s.extra+key)
	}
	s.end(key, s.outcome(run))
}

// end tells the tenant what became of a run.
func (s *system) end(key, outcome string) {
	ref := refOf(key)
	switch outcome {
	case "":
	case "executed":
		s.publish("completed", &contracts.RunCompleted{RunRef: ref, Outcome: outcome, OperationID: "op-" + key})
	default:
		s.publish("ended", &contracts.RunEnded{RunRef: ref, Outcome: outcome, Reason: "the test says so"})
	}
}

func refOf(key string) contracts.RunRef {
	return contracts.RunRef{TenantID: "demo", RunID: "run-" + key, IdempotencyKey: key, CorrelationID: key}
}

// write changes a contact, or refunds a payment.
func (s *system) write(record, reference string) {
	url, method, body := "/crm/contacts/"+record, http.MethodPatch, `{"reference":"`+reference+`"}`
	if s.gate != nil {
		url, method = "/payments/refunds", http.MethodPost
		body = `{"reference":"` + reference + `","payment_id":"` + record + `","amount":"250.00","currency":"EUR"}`
	}
	req, _ := http.NewRequest(method, s.sandbox.URL()+url, strings.NewReader(body))
	req.Header.Set("If-Match", "*")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		s.t.Errorf("write of %s: %v, %v", reference, resp, err)
		return
	}
	resp.Body.Close()
}

// publish tells the tenant twice, because events are delivered at least once.
func (s *system) publish(what string, data contracts.Data) {
	id, _ := uuid.NewV7()
	event, err := contracts.New(contracts.Meta{ID: id.String(), Time: time.Now()}, data)
	if err != nil {
		s.t.Errorf("make the event: %v", err)
		return
	}
	s.tell(what, event.AppendJSON(nil))
	s.tell(what, event.AppendJSON(nil))
}

func (s *system) tell(what string, event []byte) {
	if _, err := s.js.Publish(context.Background(), "holdpoint.events.demo.run."+what, event); err != nil {
		s.t.Errorf("publish the event: %v", err)
	}
}

// drive runs the load and returns its report.
func (s *system) drive(change ...func(*options)) *report {
	s.t.Helper()
	for _, apply := range change {
		apply(&s.opts)
	}
	r, err := drive(s.t.Context(), s.opts, io.Discard)
	require.NoError(s.t, err)
	return r
}
