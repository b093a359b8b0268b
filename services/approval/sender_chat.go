package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
)

// chatSender posts to an incoming webhook of a chat program. Its messages have a link and nothing with which to decide: who presses a
// button in a chat is an identity of the chat, which would have to be mapped to a person and authorised again (A15). The link has no
// token either, since a channel is no recipient that a token could be tied to (A2): it leads to the request's plain address, where the
// sign-in decides who sees it, and where preview bots see nothing (APR-02).
type chatSender struct {
	address  string // a secret
	template *config.MessageTemplate
	client   *http.Client
	payload  func(text, link string) any
	took     func(body []byte) error // reads an answer of success for an error inside it; nil where it holds none
}

func newChatSender(c *config.Channel, payload func(text, link string) any, took func([]byte) error) (*chatSender, error) {
	secret, where, err := chatSecret(c.Chat)
	if err != nil {
		return nil, err
	}
	address, err := config.ChatAddress(secret)
	if err != nil {
		return nil, fmt.Errorf("the address in %s %w", where, err)
	}
	client, err := connector.NewClient(connector.ClientConfig{BaseURL: address.String(), AllowedHosts: c.Chat.AllowedHosts,
		Timeout: c.Timeout})
	if err != nil {
		return nil, fmt.Errorf("allowed_hosts and the address in %s: %w", where, err)
	}
	return &chatSender{address.String(), c.Chat.Template, client, payload, took}, nil
}

// chatSecret reads the address, and says where it is without saying what it is.
func chatSecret(c *config.Chat) (secret, where string, err error) {
	switch {
	case c.URL != "":
		return c.URL, "url", nil
	case c.URLEnv != "":
		if secret = os.Getenv(c.URLEnv); secret == "" {
			err = fmt.Errorf("the environment variable %s, which holds the address to post to, is empty", c.URLEnv)
		}
		return secret, c.URLEnv, err
	}
	text, err := os.ReadFile(c.URLFile)
	if err != nil {
		return "", "", fmt.Errorf("read the address to post to: %w", err)
	}
	return string(text), c.URLFile, nil
}

func (s *chatSender) recipients() []string { return []string{""} }

// private: nobody knows who reads a channel, so what is sent there holds no token.
func (s *chatSender) private() bool { return false }

func (s *chatSender) send(ctx context.Context, m *message) error {
	body, err := json.Marshal(s.payload(s.text(m), m.Link))
	if err != nil {
		return fmt.Errorf("write the message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return errors.New("post to the chat: the address is no URL")
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("post to the chat: %w", errors.Unwrap(err)) // without the *url.Error, which quotes the address
	}
	defer answer.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // of one that breaks off, the status says enough
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return later(answer, fmt.Errorf("the chat answered %s%s", answer.Status, said(reply)))
	}
	if s.took != nil {
		return s.took(reply)
	}
	return nil
}

func (s *chatSender) text(m *message) string {
	if s.template != nil && m.ownWords() {
		if words, err := config.RenderMessage(s.template.Text, m.fields()); err == nil {
			return clip(words, longestChat)
		}
	}
	return clip(chatText(m), longestChat)
}

// longestChat is how many characters one message may have: Slack shows 3000 in one block, and what is escaped grows.
const longestChat = 2000

// said is the error code in an answer, such as channel_is_archived. Anything else may be an echo of what was sent, and is left out.
func said(reply []byte) string {
	code := strings.TrimSpace(string(reply))
	if code == "" || len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return " (" + code + ")"
}
