package proposer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// agent hands drafting to an agent runtime by a webhook that is signed as Standard Webhooks has it. The answer to the
// webhook is the draft: it comes back inside the exchange, while the lease is held, so no address of ours has to be open
// to the runtime and a late answer cannot be taken for one in time.
//
// The webhook's id is the run's, and for a draft that was sent back the run's and the number of the revision. A run can come to an agent again after its worker has died, and a runtime that keeps the
// ids it has seen then answers with what it has, instead of letting its tools act twice.
type agent struct {
	*endpoint

	signer *standardwebhooks.Webhook
	schema json.RawMessage
}

func newAgent(a *config.Agent, schema canonical.Value, log *slog.Logger) (*agent, error) {
	secret, err := webhookSecret(a.Webhook)
	if err != nil {
		return nil, err
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("the secret of the agent's webhook: %w", err)
	}
	e, err := newEndpoint("the agent", a.Webhook.URL, a.Webhook.AllowedHosts, a.Timeout, log)
	if err != nil {
		return nil, err
	}
	return &agent{e, signer, schema.AppendCanonical(nil)}, nil
}

func (d *drafter) byAgent(a *config.Agent) (err error) {
	d.matrix = agentMatrix
	d.model.ProviderClass, d.model.Name, d.model.Revision = a.ProviderClass, a.Model, a.Revision
	d.limits = limits{timeout: a.Timeout, total: a.TotalTime, input: a.MaxInputBytes}
	d.author, err = newAgent(a, d.answers.schema, d.tally.log)
	return err
}

func webhookSecret(w *config.Webhook) (string, error) {
	switch {
	case w.Secret != "":
		return w.Secret, nil
	case w.SecretEnv != "":
		secret := os.Getenv(w.SecretEnv)
		if secret == "" {
			return "", fmt.Errorf("the environment variable %s, which holds the secret of the agent's webhook, is empty",
				w.SecretEnv)
		}
		return secret, nil
	}
	text, err := os.ReadFile(w.SecretFile)
	if err != nil {
		return "", fmt.Errorf("read the secret of the agent's webhook: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// draftRequested is the body of the webhook.
type draftRequested struct {
	Type string             `json:"type"`
	Data draftRequestedData `json:"data"`
}

type draftRequestedData struct {
	RunID        string          `json:"run_id"`
	Records      json.RawMessage `json:"records"`       // the declared parts of the event, by name
	AnswerSchema json.RawMessage `json:"answer_schema"` // JSON Schema of the answer
	// AnswerWithin is after how many seconds an answer is dropped.
	AnswerWithin float64 `json:"answer_within_seconds"`
	// SentBack is an earlier draft that has to be better; left out where there was none.
	SentBack *draftSentBack `json:"sent_back,omitempty"`
}

// draftSentBack says what was drafted before and why it would not do. Who said so is nobody's business outside.
type draftSentBack struct {
	Reasons        []string        `json:"reasons"`
	ProposedChange json.RawMessage `json:"proposed_change"`
}

func (a *agent) request(c *conversation) ([]byte, error) {
	data := draftRequestedData{RunID: c.run, Records: json.RawMessage(c.records), AnswerSchema: a.schema,
		AnswerWithin: a.timeout.Seconds()}
	if c.back != nil {
		data.SentBack = &draftSentBack{messagesOf(c.back.Reasons), proposedIn(c.back.Intent)}
	}
	return json.Marshal(draftRequested{Type: "draft.requested", Data: data})
}

func (a *agent) call(ctx context.Context, c *conversation, body []byte) result {
	return a.post(ctx, body, func(h http.Header) error {
		now := time.Now()
		id := webhookID(c)
		signature, err := a.signer.Sign(id, now, body)
		if err != nil {
			return fmt.Errorf("sign the webhook: %w", err)
		}
		h.Set(standardwebhooks.HeaderWebhookID, id)
		h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		h.Set(standardwebhooks.HeaderWebhookSignature, signature)
		return nil
	})
}

// webhookID is the run's id, and for a better draft another one: the runtime is asked for something that it has not made yet.
func webhookID(c *conversation) string {
	if c.back == nil {
		return c.run
	}
	return fmt.Sprintf("%s-%d", c.run, c.back.Revision+1)
}

// read takes the whole body for the draft.
func (a *agent) read(body []byte) (reply, result) {
	return reply{text: string(body)}, result{class: answered}
}
