package approval

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/webhook"
)

// webhookSender posts signed JSON (Standard Webhooks).
type webhookSender struct {
	url    string
	sender *webhook.Sender
}

func newWebhookSender(c *config.Channel) (*webhookSender, error) {
	sender, err := webhook.New(webhook.Config{Secret: webhook.Secret{Text: c.Webhook.Secret, Env: c.Webhook.SecretEnv,
		File: c.Webhook.SecretFile}, URL: c.Webhook.URL, AllowedHosts: c.Webhook.AllowedHosts, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return &webhookSender{url: c.Webhook.URL, sender: sender}, nil
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
	ApprovalID    string     `json:"approval_id"`
	CorrelationID string     `json:"correlation_id"`
	ActionType    string     `json:"action_type"`
	Audience      []string   `json:"audience"`
	RequestedAt   time.Time  `json:"requested_at"`
	DecideBy      time.Time  `json:"decide_by"`
	ReviewBy      *time.Time `json:"review_by,omitempty"` // of what was approved alone
	Link          string     `json:"link"`
	Text          string     `json:"text"`
}

// types of the messages, by the kind of the notification.
var types = map[string]string{
	ledger.NoticeRequest:    "approval.requested",
	ledger.NoticeReminder:   "approval.reminder",
	ledger.NoticeEscalation: "approval.escalated",
	ledger.NoticeBreakGlass: "approval.break_glass",
}

func (s *webhookSender) send(ctx context.Context, m *message) error {
	var reviewBy *time.Time
	if !m.ReviewBy.IsZero() {
		reviewBy = &m.ReviewBy
	}
	body, err := json.Marshal(notification{Type: types[m.Kind], At: time.Now(), Data: notificationData{
		ApprovalID: m.Asked.ApprovalID.String(), CorrelationID: m.Asked.CorrelationID, ActionType: m.Asked.ActionType,
		Audience: m.Asked.Audience, RequestedAt: m.Asked.RequestedAt, DecideBy: m.Asked.DecideBy, ReviewBy: reviewBy, Link: m.Link, Text: text(m),
	}})
	if err != nil {
		return err
	}
	return s.sender.Post(ctx, s.url, m.ID, body)
}
