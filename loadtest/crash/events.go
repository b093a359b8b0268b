package crash

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// Sources of the example configuration.
const (
	inlineSource = "crm-enrichment"  // its events carry their proposals
	workerSource = "agent-drafts"    // its events wait for a worker
	refundSource = "support-refunds" // its events ask for money back, and say who does
)

// proposal changes the trial's contact in a way that the rules let through.
func (t *trial) proposal(city string) string {
	if t.staged {
		action := `{"action_type":%q,"target":{"system":"crm","record_id":%q},"proposed_change":{"fields":{"city":%q}},"current_version":"1"}`
		return fmt.Sprintf(`{"actions":[`+action+`,`+action+`],"evidence":[{"source":"crm","version":"1","observed_at":%q}],`+
			`"workflow_version":"crm-enrichment@3"}`, contactUpdate, t.contact, city, contactUpdate, "next-"+t.contact, city,
			started.Format(time.RFC3339))
	}
	return contactProposal(cmp.Or(t.action, contactUpdate), t.contact, city)
}

func contactProposal(action, contact, city string) string {
	return fmt.Sprintf(`{"action_type":%q,"target":{"system":"crm","record_id":%q},`+
		`"proposed_change":{"fields":{"city":%q}},"current_version":"1",`+
		`"evidence":[{"source":"crm","version":"1","observed_at":%q}],`+
		`"workflow_version":"crm-enrichment@3"}`, action, contact, city, started.Format(time.RFC3339))
}

// refund is of more than a person need not be asked for.
func (t *trial) refund() string {
	if t.staged {
		action := `{"action_type":%q,"target":{"system":"payments","record_id":%q},"proposed_change":{"payment_id":%q,"amount":250.00,"currency":"EUR"}}`
		next := "next-" + t.payment
		return fmt.Sprintf(`{"actions":[`+action+`,`+action+`],"evidence":[{"source":"payments","version":"1","observed_at":%q}],`+
			`"workflow_version":"support-refunds@2"}`, t.action, t.payment, t.payment, t.action, next, next, started.Format(time.RFC3339))
	}
	return fmt.Sprintf(`{"action_type":%q,"target":{"system":"payments","record_id":%[2]q},`+
		`"proposed_change":{"payment_id":%[2]q,"amount":250.00,"currency":"EUR"},`+
		`"evidence":[{"source":"payments","version":"1","observed_at":%[3]q}],`+
		`"workflow_version":"support-refunds@2"}`, t.action, t.payment, started.Format(time.RFC3339))
}

// started is when this process did, which is fresh enough for evidence and the same in every copy of an event.
var started = time.Now().UTC()

// event is the body that every copy of the trial's event has. Only the help desk stamps each copy.
func (t *trial) event() []byte {
	switch {
	case t.worker:
		return fmt.Appendf(nil, `{"task_id":%q,"contact_id":%q}`, t.key, t.contact)
	case t.refunds():
		return fmt.Appendf(nil, `{"ticket_id":%q,"requested_by":%q,"delivered_at":%q,"proposal":%s}`,
			t.key, cmp.Or(t.asker, rita), time.Now().UTC().Format(time.RFC3339Nano), t.refund())
	}
	return fmt.Appendf(nil, `{"event_id":%q,"proposal":%s}`, t.key, t.proposal("Lisbon"))
}

func (t *trial) source() string {
	switch {
	case t.worker:
		return workerSource
	case t.refunds():
		return refundSource
	}
	return inlineSource
}

// answer is what intake says: an answer, or a problem.
type answer struct {
	status int
	contracts.Answer
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// client makes a new connection for each request: what happens to one says nothing about the next, and net/http
// repeats none.
var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// post sends one request to intake, again and again until it is answered: a sender whose connection broke knows
// nothing, and sends the same again (K3).
func (w *world) post(ctx context.Context, path string, header map[string]string, body []byte) (a answer, err error) {
	err = poll(ctx, "intake to answer "+path, func() (bool, error) {
		a, err = w.postOnce(ctx, path, header, body)
		return err == nil && a.status != http.StatusServiceUnavailable, ctx.Err()
	})
	return a, err
}

func (w *world) postOnce(
	ctx context.Context, path string, header map[string]string, body []byte,
) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.intakeAddr+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Authorization", "Bearer "+apiKey)
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status = response.StatusCode
	return a, json.Unmarshal(text, &a)
}

// deliver hands in the event over HTTP.
func (t *trial) deliver(ctx context.Context) error {
	a, err := t.handIn(ctx, t.source(), t.key, t.event())
	t.answers = append(t.answers, a.Result)
	return err
}

func (w *world) handIn(ctx context.Context, source, key string, body []byte) (answer, error) {
	a, err := w.post(ctx, "/v1/sources/"+source+"/events", map[string]string{"Idempotency-Key": key}, body)
	if err == nil && a.status != http.StatusAccepted && a.status != http.StatusOK {
		err = fmt.Errorf("intake refused an event: HTTP %d %s: %s", a.status, a.Code, a.Detail)
	}
	return a, err
}

// deliverByNATS hands in a copy under a message id of its own, as an integrator does that forgot it had sent the
// event before.
func (t *trial) deliverByNATS(ctx context.Context, body []byte) error {
	return t.publish(ctx, bus.IngressSubject(tenant, t.source()),
		map[string]string{"Idempotency-Key": t.key, "Nats-Msg-Id": uuid.NewString()}, body)
}

// duplicate sends the event again over both doors.
func (t *trial) duplicate(ctx context.Context) error {
	return errors.Join(t.deliver(ctx), t.deliverByNATS(ctx, t.event()))
}

func newMessage(subject string, header map[string]string, body []byte) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Data = body
	for name, value := range header {
		msg.Header[name] = []string{value}
	}
	return msg
}
