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
	"regexp"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Most that is read of an answer, in bytes. Hidden reasoning can be long; it is read over, and dropped.
const (
	maxAnswer  = 4 << 20
	maxProblem = 64 << 10
)

// result of one call: its class, what an operator reads about it, and the answer where there is one.
type result struct {
	class      class
	detail     string        // no full stop; no host, no secret, no text of the drafter
	retryAfter time.Duration // what the endpoint asked for; 0 leaves it to the backoff
	body       []byte        // of a 200
}

func failed(c class, format string, args ...any) result {
	return result{class: c, detail: fmt.Sprintf(format, args...)}
}

// endpoint is one URL that requests are posted to. It is safe for concurrent use.
type endpoint struct {
	who     string // as operators read it
	url     string
	timeout time.Duration
	client  *http.Client
	log     *slog.Logger
}

func newEndpoint(who, url string, hosts []string, timeout time.Duration, log *slog.Logger) (*endpoint, error) {
	client, err := connector.NewClient(connector.ClientConfig{BaseURL: url, AllowedHosts: hosts, Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	return &endpoint{who, url, timeout, client, log}, nil
}

// post makes one call. A result of class answered carries the body of a 200, unread. headers may fail, and nothing has
// been sent then.
func (e *endpoint) post(ctx context.Context, body []byte, headers func(http.Header) error) result {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	var reached atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json")
		err = headers(request.Header)
	}
	if err != nil {
		e.log.Warn("a request for a draft could not be made", "error", err)
		return failed(notSent, "the request to %s could not be made; see the proposer's log", e.who)
	}
	answer, err := e.client.Do(request)
	switch {
	case err != nil && reached.Load():
		e.log.Warn("a request for a draft was not answered", "error", err)
		return failed(unclear, "%s was asked, and %s before an answer", e.who, ending(err))
	case err != nil:
		e.log.Warn("who drafts could not be reached", "error", err)
		return failed(notSent, "%s could not be reached; see the proposer's log", e.who)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return e.classify(answer)
	}
	return e.receive(answer.Body)
}

func (e *endpoint) receive(body io.Reader) result {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		e.log.Warn("an answer broke off", "error", err)
		return failed(unclear, "%s began to answer, and %s before the end", e.who, ending(err))
	case len(text) > maxAnswer:
		return failed(unclear, "the answer of %s has more than %d bytes", e.who, maxAnswer)
	}
	return result{class: answered, body: text}
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
func (e *endpoint) classify(answer *http.Response) result {
	what := fmt.Sprintf("%s answered %d%s", e.who, answer.StatusCode, errorCode(answer.Body))
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, code == statusOverloaded:
		return result{class: busy, detail: what,
			retryAfter: outcome.RetryAfter(answer.Header.Get("Retry-After"), time.Now())}
	case code >= 500, code == http.StatusRequestTimeout:
		return failed(unclear, "%s", what)
	case code >= 300 && code < 400:
		return failed(refused, "%s, a redirect, which is never followed; correct its address", what)
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
