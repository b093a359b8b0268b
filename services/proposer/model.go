package proposer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// model asks an OpenAI-compatible endpoint. It is safe for concurrent use.
type model struct {
	*endpoint

	declared *config.Proposer
	format   json.RawMessage // response_format
}

func newModel(p *config.Proposer, schema canonical.Value, log *slog.Logger) (*model, error) {
	e, err := newEndpoint("the model endpoint", p.BaseURL+"/chat/completions", p.AllowedHosts, p.Timeout, log)
	if err != nil {
		return nil, err
	}
	if _, err := apiKey(p); err != nil { // found at the start rather than at the first event
		return nil, err
	}
	format, err := json.Marshal(map[string]any{"type": "json_schema", "json_schema": map[string]any{
		"name": "proposal", "strict": p.Strict, "schema": schema,
	}})
	if err != nil {
		return nil, fmt.Errorf("write the answer's schema: %w", err)
	}
	return &model{e, p, format}, nil
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is a chat with at most one answer in it.
func (m *model) request(c *conversation) ([]byte, error) {
	shown, err := m.declared.Prompt.Render(c.records)
	if err != nil {
		return nil, fmt.Errorf("the prompt cannot be filled in: %w", err)
	}
	messages := []message{{"system", instructions}, {"user", shown + c.earlier()}}
	if c.mistakes != "" {
		messages = append(messages, message{"assistant", c.echo}, message{"user", fmt.Sprintf(correction, c.mistakes)})
	}
	return json.Marshal(map[string]any{
		"model": m.declared.Model, "messages": messages, "response_format": m.format, "stream": false,
		m.declared.OutputLimit: m.declared.MaxOutputTokens,
	})
}

func (m *model) call(ctx context.Context, _ *conversation, body []byte) result {
	return m.post(ctx, body, func(h http.Header) error {
		key, err := apiKey(m.declared)
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
		return err
	})
}

func (m *model) read(body []byte) (reply, result) { return readReply(body) }

// apiKey is read at each call, so that it exists nowhere else and can be changed without a restart (D12).
func apiKey(p *config.Proposer) (string, error) {
	var key string
	switch {
	case p.APIKeyEnv != "":
		if key = strings.TrimSpace(os.Getenv(p.APIKeyEnv)); key == "" {
			return "", fmt.Errorf("the environment variable %s, which holds the model's API key, is empty", p.APIKeyEnv)
		}
	case p.APIKeyFile != "":
		text, err := os.ReadFile(p.APIKeyFile)
		if err != nil {
			return "", fmt.Errorf("read the model's API key: %w", err)
		}
		if key = strings.TrimSpace(string(text)); key == "" {
			return "", fmt.Errorf("the file %s, which holds the model's API key, is empty", p.APIKeyFile)
		}
	}
	return key, nil
}
