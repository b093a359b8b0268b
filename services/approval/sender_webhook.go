package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
)

// webhookSender posts signed JSON (Standard Webhooks).
type webhookSender struct {
	url    string
	client *http.Client
	signer *standardwebhooks.Webhook
}

func newWebhookSender(c *config.Channel) (*webhookSender, error) {
	secret, err := webhookSecret(c.Webhook)
	if err != nil {
		return nil, err
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("webhook secret: %w", err)
	}
	client, err := connector.NewClient(connector.ClientConfig{BaseURL: c.Webhook.URL, AllowedHosts: c.Webhook.AllowedHosts,
		Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return &webhookSender{url: c.Webhook.URL, client: client, signer: signer}, nil
}

func webhookSecret(w *config.Webhook) (string, error) {
	switch {
	case w.Secret != "":
		return w.Secret, nil
	case w.SecretEnv != "":
		secret := os.Getenv(w.SecretEnv)
		if secret == "" {
			return "", fmt.Errorf("the environment variable %s, which holds the webhook's secret, is empty", w.SecretEnv)
		}
		return secret, nil
	}
	text, err := os.ReadFile(w.SecretFile)
	if err != nil {
		return "", fmt.Errorf("read the webhook's secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (s *webhookSender) recipients() []string { return []string{""} }

// private: https, or http to this machine.
func (s *webhookSender) private() bool {
	u, err := url.Parse(s.url)
	return err == nil && (u.Scheme == "https" || config.Loopback(u.Hostname()))
}

// notification is the body of a webhook.
type notification struct {
	Type string           `json:"type"`
	At   time.Time        `json:"timestamp"`
	Data notificationData `json:"data"`
}

type notificationData struct {
	ApprovalID    string    `json:"approval_id"`
	CorrelationID string    `json:"correlation_id"`
	ActionType    string    `json:"action_type"`
	Audience      []string  `json:"audience"`
	RequestedAt   time.Time `json:"requested_at"`
	DecideBy      time.Time `json:"decide_by"`
	Link          string    `json:"link"`
	Text          string    `json:"text"`
}

func (s *webhookSender) send(ctx context.Context, m *message) error {
	now := time.Now()
	body, err := json.Marshal(notification{Type: "approval.requested", At: now, Data: notificationData{
		ApprovalID: m.Asked.ApprovalID.String(), CorrelationID: m.Asked.CorrelationID, ActionType: m.Asked.ActionType,
		Audience: m.Asked.Audience, RequestedAt: m.Asked.RequestedAt, DecideBy: m.Asked.DecideBy, Link: m.Link, Text: text(m),
	}})
	if err != nil {
		return err
	}
	signature, err := s.signer.Sign(m.ID, now, body)
	if err != nil {
		return fmt.Errorf("sign the webhook: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("post the webhook: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the webhook's receiver answered %s", answer.Status)
	}
	return nil
}
