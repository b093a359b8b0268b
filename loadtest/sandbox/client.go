package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks a running sandbox what happened and tells it what shall go wrong. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient speaks to the sandbox at a base URL such as http://127.0.0.1:4010.
func NewClient(baseURL string) *Client {
	return &Client{base: strings.TrimSuffix(baseURL, "/"), http: &http.Client{Timeout: longestWait + 10*time.Second}}
}

// URL is the base URL, for the configuration of whoever writes to the sandbox.
func (c *Client) URL() string { return c.base }

// Healthy returns nil where the sandbox answers and its ledger is durable.
func (c *Client) Healthy(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/healthz", nil, nil)
}

// Writes returns the accepted writes that the filter selects, oldest first.
func (c *Client) Writes(ctx context.Context, filter Filter) ([]Write, error) {
	return c.AwaitWrites(ctx, filter, 0)
}

// AwaitWrites waits until at least n writes match the filter and returns them. It returns an error with the number that
// there are when the context ends first, or after a minute.
func (c *Client) AwaitWrites(ctx context.Context, filter Filter, n int) ([]Write, error) {
	query := url.Values{"at_least": {strconv.Itoa(n)}, "wait": {longestWait.String()}}
	query.Set("reference", filter.Reference)
	query.Set("system", filter.System)
	var found []Write
	err := c.call(ctx, http.MethodGet, "/_sandbox/writes?"+query.Encode(), nil, func(body io.Reader) error {
		decoder := json.NewDecoder(body)
		for {
			var w Write
			if err := decoder.Decode(&w); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			found = append(found, w)
		}
	})
	if err == nil && len(found) < n {
		err = fmt.Errorf("sandbox holds %d writes of %+v where %d are awaited", len(found), filter, n)
	}
	return found, err
}

// Summary counts all accepted writes.
func (c *Client) Summary(ctx context.Context) (Summary, error) {
	var summary Summary
	err := c.call(ctx, http.MethodGet, "/_sandbox/summary", nil, into(&summary))
	return summary, err
}

// Check compares the ledger with references that should each have exactly one write.
func (c *Client) Check(ctx context.Context, references []string) (Check, error) {
	var check Check
	if references == nil {
		references = []string{}
	}
	err := c.call(ctx, http.MethodPost, "/_sandbox/summary", references, into(&check))
	return check, err
}

// Fault installs rules and returns their ids.
func (c *Client) Fault(ctx context.Context, rules ...Rule) ([]string, error) {
	var made struct {
		IDs []string `json:"ids"`
	}
	err := c.call(ctx, http.MethodPost, "/_sandbox/faults", rules, into(&made))
	return made.IDs, err
}

// Faults returns the installed rules and how often each matched and fired.
func (c *Client) Faults(ctx context.Context) ([]RuleState, error) {
	var states []RuleState
	err := c.call(ctx, http.MethodGet, "/_sandbox/faults", nil, into(&states))
	return states, err
}

// AwaitFault waits until the rule has fired n times: a request is then inside the fault. It returns an error when the
// context ends first, after a minute, or where there is no such rule.
func (c *Client) AwaitFault(ctx context.Context, id string, n int) error {
	query := url.Values{"id": {id}, "fired": {strconv.Itoa(n)}, "wait": {longestWait.String()}}
	var states []RuleState
	if err := c.call(ctx, http.MethodGet, "/_sandbox/faults?"+query.Encode(), nil, into(&states)); err != nil {
		return err
	}
	for _, state := range states {
		if state.ID == id && state.Fired >= n {
			return nil
		}
	}
	return fmt.Errorf("sandbox rule %s has not fired %d times: %+v", id, n, states)
}

// ClearFaults removes all rules. Requests that are inside a fault stay there.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/_sandbox/faults", nil, nil)
}

// SetPersonality changes what one system (Payments or CRM) promises from now on.
func (c *Client) SetPersonality(ctx context.Context, system string, p Personality) error {
	return c.call(ctx, http.MethodPut, "/_sandbox/personality/"+system, p, nil)
}

// into decodes a JSON answer.
func into(v any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(v) }
}

func (c *Client) call(ctx context.Context, method, path string, in any, read func(io.Reader) error) error {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("sandbox %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("sandbox %s %s: %w", method, path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("sandbox %s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the status says enough where the text is lost
		return fmt.Errorf("sandbox %s %s: %s: %s", method, path, resp.Status, text)
	}
	if read == nil {
		return nil
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("sandbox %s %s: read the answer: %w", method, path, err)
	}
	return nil
}
