package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// Reply is what a door answered.
type Reply struct {
	Status int // 0 over NATS
	contracts.Answer
	Problem *contracts.Problem // set where the answer is one; Answer is then empty
}

// Patience of a single delivery, and the pause before a sender delivers again.
const (
	answerWait     = 30 * time.Second
	redeliverAfter = 2 * time.Second
	redeliverPause = 100 * time.Millisecond
)

// client keeps a connection for every concurrent caller, so that a storm of them does not spend its time on handshakes.
var client = &http.Client{Timeout: answerWait, Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}

// Post delivers the event over HTTP once, and requires that some answer comes.
func (w *World) Post(e Event) Reply {
	w.t.Helper()
	reply, err := w.TryPost(e)
	require.NoError(w.t, err)
	return reply
}

// TryPost delivers the event over HTTP once. An error means that no answer came.
func (w *World) TryPost(e Event) (Reply, error) {
	header := map[string]string{"Idempotency-Key": e.Key}
	for name, value := range e.Header {
		header[name] = value
	}
	return w.Call(http.MethodPost, "/v1/sources/"+e.Source+"/events", header, e.Text())
}

// Call makes any call to the HTTP API, as the example tenant.
func (w *World) Call(method, path string, header map[string]string, body []byte) (Reply, error) {
	urls := w.intakes.Load().([]string)
	if len(urls) == 0 {
		return Reply{}, errors.New("no intake runs")
	}
	url := urls[int(w.next.Add(1))%len(urls)] + path
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+roster.DemoKey)
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Reply{}, err
	}
	return decode(resp.StatusCode, text)
}

// decode tells a problem from an answer by its status member, which answers do not have.
func decode(status int, text []byte) (Reply, error) {
	reply := Reply{Status: status}
	var problem contracts.Problem
	if err := json.Unmarshal(text, &problem); err == nil && problem.Status != 0 {
		reply.Problem = &problem
		return reply, nil
	}
	if err := json.Unmarshal(text, &reply.Answer); err != nil {
		return reply, fmt.Errorf("HTTP %d with %q: %w", status, text, err)
	}
	return reply, nil
}

// Publish delivers the event over NATS once, under a message id of its own, and requires the answer, which comes after
// the commit.
func (w *World) Publish(e Event) Reply {
	w.t.Helper()
	reply, err := w.TryPublish(e, answerWait)
	require.NoError(w.t, err)
	return reply
}

// TryPublish delivers the event over NATS once and waits for the answer (K14).
func (w *World) TryPublish(e Event, wait time.Duration) (Reply, error) {
	inbox := w.tenant.NewRespInbox()
	answers, err := w.tenant.SubscribeSync(inbox)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be gone
	msg := message(e)
	msg.Header.Set(bus.HeaderReply, inbox)
	if err := w.tenant.PublishMsg(msg); err != nil {
		return Reply{}, err
	}
	answer, err := answers.NextMsg(wait)
	if err != nil {
		return Reply{}, err
	}
	return decode(0, answer.Data)
}

// message is the event on its subject, under a message id of its own.
func message(e Event) *nats.Msg {
	msg := &nats.Msg{Subject: bus.IngressSubject(Tenant, e.Source), Data: e.Text(), Header: nats.Header{
		"Idempotency-Key": {e.Key}, "Nats-Msg-Id": {uuid.NewString()}}}
	for name, value := range e.Header {
		msg.Header.Set(name, value)
	}
	return msg
}

// Send publishes the event and waits only until the broker has stored it, which is no receipt of ours.
func (w *World) Send(e Event) error {
	_, err := w.tenant.RequestMsg(message(e), answerWait)
	return err
}

// door delivers an event once.
type door func(Event) (Reply, error)

// doors are the two ways in, as a sender uses them who delivers again after a while without an answer.
func (w *World) doors() []door {
	return []door{w.TryPost, func(e Event) (Reply, error) { return w.TryPublish(e, redeliverAfter) }}
}

// insist does what every integrator must: it delivers, and delivers again, until it is answered that the event is
// stored.
func (w *World) insist(ctx context.Context, e Event, door door) (Reply, error) {
	for {
		reply, err := door(e)
		if err == nil && reply.Problem == nil {
			return reply, nil
		}
		if err == nil && reply.Problem.Status < http.StatusInternalServerError {
			return reply, fmt.Errorf("the event is refused: %+v", reply.Problem)
		}
		select {
		case <-ctx.Done():
			return reply, fmt.Errorf("the event could not be delivered: %w", errors.Join(ctx.Err(), err))
		case <-time.After(redeliverPause):
		}
	}
}
