package proposer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Most that is read of an answer, in bytes. Hidden reasoning can be long; it is read over, and dropped.
const (
	maxAnswer  = 4 << 20
	maxProblem = 64 << 10
)

// outcome of one call: its class, what an operator reads about it, and for what it was worth.
type result struct {
	class      class
	detail     string        // one sentence without its full stop; no host, no secret, no text of the model
	retryAfter time.Duration // what the endpoint asked for; 0 leaves it to the backoff
	body       []byte        // of a 200
}

func failed(c class, format string, args ...any) result {
	return result{class: c, detail: fmt.Sprintf(format, args...)}
}

// model calls one endpoint. It is safe for concurrent use.
type model struct {
	url     string
	timeout time.Duration
	client  *http.Client
	key     func() (string, error) // "" where the endpoint needs none
	log     *slog.Logger
}

func newModel(p *config.Proposer, log *slog.Logger) (*model, error) {
	client, err := connector.NewClient(connector.ClientConfig{BaseURL: p.BaseURL, AllowedHosts: p.AllowedHosts,
		Timeout: p.Timeout})
	if err != nil {
		return nil, fmt.Errorf("model endpoint: %w", err)
	}
	m := &model{url: p.BaseURL + "/chat/completions", timeout: p.Timeout, client: client, log: log,
		key: func() (string, error) { return apiKey(p) }}
	if _, err := m.key(); err != nil { // found at the start rather than at the first event
		return nil, err
	}
	return m, nil
}

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

// call posts one request. A result of class answered carries the body of a 200, unread.
func (m *model) call(ctx context.Context, body []byte) result {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	var reached atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	request, err := m.request(ctx, body)
	if err != nil {
		m.log.Warn("the model could not be asked", "error", err)
		return failed(notSent, "the request to the model endpoint could not be made; see the proposer's log")
	}
	answer, err := m.client.Do(request)
	switch {
	case err != nil && reached.Load():
		m.log.Warn("the model did not answer", "error", err)
		return failed(unclear, "the model endpoint was asked, and %s before an answer", ending(err))
	case err != nil:
		m.log.Warn("the model could not be reached", "error", err)
		return failed(notSent, "the model endpoint could not be reached; see the proposer's log")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return classify(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		m.log.Warn("the model's answer broke off", "error", err)
		return failed(unclear, "the model endpoint began to answer, and %s before the end", ending(err))
	case len(text) > maxAnswer:
		return failed(unclear, "the model endpoint's answer has more than %d bytes", maxAnswer)
	}
	return result{class: answered, body: text}
}

func (m *model) request(ctx context.Context, body []byte) (*http.Request, error) {
	key, err := m.key()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	return request, nil
}

// ending is how an exchange came to its end, without the address that the error holds (M5).
func ending(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return "its time was over"
	}
	return "the connection broke"
}

// classify reads a status other than 200.
func classify(answer *http.Response) result {
	what := fmt.Sprintf("the model endpoint answered %d%s", answer.StatusCode, errorCode(answer.Body))
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, code == statusOverloaded:
		return result{class: busy, detail: what,
			retryAfter: outcome.RetryAfter(answer.Header.Get("Retry-After"), time.Now())}
	case code >= 500, code == http.StatusRequestTimeout:
		return failed(unclear, "%s", what)
	case code >= 300 && code < 400:
		return failed(refused, "%s, a redirect, which is never followed; correct base_url", what)
	}
	return failed(refused, "%s", what)
}

// statusOverloaded is no registered status; several providers answer it for "try later".
const statusOverloaded = 529

var codeWord = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// errorCode is the code in an error body, such as context_length_exceeded. Nothing else of the body is repeated: messages
// of providers quote keys and requests.
func errorCode(body io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(body, maxProblem))
	if err != nil {
		return ""
	}
	var problem struct {
		Error struct{ Code, Type any }
	}
	_ = json.Unmarshal(text, &problem) // what cannot be read has no code
	for _, found := range []any{problem.Error.Code, problem.Error.Type} {
		if word, ok := found.(string); ok && len(word) <= 64 && codeWord.MatchString(word) {
			return " (" + word + ")"
		}
	}
	return ""
}
