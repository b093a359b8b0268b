// Package webhook sends signed HTTP posts, as the Standard Webhooks specification 1.0 has them. Whoever sends keeps the message
// and its id, and repeats it until it was taken; receivers tell repeats by the id.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/pkg/connector"
)

// Config says with what a sender signs and whom it may reach.
type Config struct {
	Secret       Secret
	URL          string   // whose host is allowed where AllowedHosts is empty
	AllowedHosts []string // host or host:port, checked when connecting (D12)
	Timeout      time.Duration
}

// Secret is where a signing secret is: exactly one is set. The secret itself is "whsec_" and the base64 of 24 to 64 bytes.
type Secret struct {
	Text string
	Env  string // environment variable
	File string
}

func (s Secret) read() (string, error) {
	switch {
	case s.Text != "":
		return s.Text, nil
	case s.Env != "":
		if secret := os.Getenv(s.Env); secret != "" {
			return secret, nil
		}
		return "", fmt.Errorf("the environment variable %s, which holds the webhook's secret, is empty", s.Env)
	}
	text, err := os.ReadFile(s.File)
	if err != nil {
		return "", fmt.Errorf("read the webhook's secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Sender posts messages. It follows no redirect.
type Sender struct {
	client *http.Client
	signer *standardwebhooks.Webhook
}

// New reads the secret.
func New(cfg Config) (*Sender, error) {
	secret, err := cfg.Secret.read()
	if err != nil {
		return nil, err
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, errors.New("webhook secret: must be whsec_ and the base64 of 24 to 64 random bytes")
	}
	client, err := connector.NewClient(connector.ClientConfig{BaseURL: cfg.URL, AllowedHosts: cfg.AllowedHosts, Timeout: cfg.Timeout})
	if err != nil {
		return nil, err
	}
	return &Sender{client, signer}, nil
}

// ErrGone means that the receiver has answered 410: nobody will ever take it there, and the message is not sent again.
var ErrGone = errors.New("the webhook's receiver is gone for good (410)")

// Post sends one message; an error but ErrGone means that it has to be sent again. The error does not hold the address, which may
// be secret.
func (s *Sender) Post(ctx context.Context, address, id string, body []byte) error {
	now := time.Now()
	signature, err := s.signer.Sign(id, now, body)
	if err != nil {
		return fmt.Errorf("sign the webhook: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("post the webhook: the address is no URL")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("post the webhook: %w", errors.Unwrap(err)) // without the *url.Error, which quotes the address
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	if answer.StatusCode == http.StatusGone {
		return ErrGone
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the webhook's receiver answered %s", answer.Status)
	}
	return nil
}
