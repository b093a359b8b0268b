package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/contracts"
)

// Event is a business event, the same however often it is delivered.
type Event struct {
	// Key is the idempotency key: the business event's own id. It may be empty where the source finds the key in the
	// body (K1).
	Key string
	// Body is sent byte for byte, so that numbers keep their exact value.
	Body json.RawMessage
	// ContentType is application/json where it is empty.
	ContentType string
	// Headers are kept with the event, except those that hold secrets (K12).
	Headers http.Header
}

// Publish hands an event in. Its answer means stored and queued, not done (K11); Await waits for the run's end. A key
// that is already known gives the state or the result of its run, and with another body a problem with
// contracts.CodePayloadMismatch (K4). Needs the scope publish.
func (c *Client) Publish(ctx context.Context, source string, e Event) (*contracts.Answer, error) {
	answer := new(contracts.Answer)
	_, err := c.do(ctx, &call{method: http.MethodPost, path: sourcePath(source, "events"), header: e.header(),
		body: e.Body, into: answer})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// header is the event's own and what the API needs, which has the last word.
func (e *Event) header() http.Header {
	h := http.Header{}
	for name, values := range e.Headers {
		for _, value := range values {
			h.Add(name, value) // in the one spelling, so that none is there twice
		}
	}
	h.Set("Content-Type", cmp.Or(e.ContentType, "application/json"))
	if e.Key != "" {
		h.Set("Idempotency-Key", e.Key)
	}
	return h
}

func sourcePath(source, what string) string {
	return "/v1/sources/" + url.PathEscape(source) + "/" + what
}
