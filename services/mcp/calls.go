package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// propose is propose_action.
func (c *toolCall) propose(ctx context.Context) (answer, error) {
	var a struct {
		Source, Key string
		Event       json.RawMessage
	}
	if err := c.arguments(&a); err != nil {
		return nil, err
	}
	switch {
	case a.Source == "":
		return nil, &argumentError{"source is missing"}
	case a.Key == "":
		return nil, &argumentError{"key is missing. " + keyMeaning}
	case !bytes.HasPrefix(bytes.TrimSpace(a.Event), []byte("{")):
		return nil, &argumentError{"event must be a JSON object: the whole body of the event"}
	}
	api, err := c.server.api(c.CallToolRequest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	stored, err := api.Publish(ctx, a.Source, client.Event{Key: a.Key, Body: a.Event})
	if err != nil {
		return nil, err
	}
	told := describe(stored)
	if stored.IdempotencyKey != a.Key {
		told.Next += fmt.Sprintf(" The source takes the key from the event: it is %q, not %q. Ask by that key, or by the run_id.",
			stored.IdempotencyKey, a.Key)
	}
	return told, nil
}

// runName names a run by one of the two.
type runName struct {
	Key         string
	RunID       string `json:"run_id"`
	WaitSeconds *int   `json:"wait_seconds"`
}

func (c *toolCall) runName() (n runName, err error) {
	if err := c.arguments(&n); err != nil {
		return n, err
	}
	if (n.Key == "") == (n.RunID == "") {
		return n, &argumentError{"name the run by its key or by its run_id, and not by both"}
	}
	return n, nil
}

// look tells where the run stands, at the latest after the wait.
func (n *runName) look(ctx context.Context, api *client.Client, wait time.Duration) (*contracts.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callWithin)
	defer cancel()
	if n.RunID != "" {
		return api.Get(ctx, n.RunID, wait)
	}
	return api.Find(ctx, n.Key, wait)
}

// status is get_status.
func (c *toolCall) status(ctx context.Context) (answer, error) {
	name, err := c.runName()
	if err != nil {
		return nil, err
	}
	if name.WaitSeconds != nil {
		return nil, &argumentError{"wait_seconds belongs to " + toolWait}
	}
	api, err := c.server.api(c.CallToolRequest)
	if err != nil {
		return nil, err
	}
	stands, err := name.look(ctx, api, 0)
	if err != nil {
		return nil, err
	}
	return describe(stands), nil
}

// wait is wait_for_decision. It looks every few seconds, which is also when it says that it is still there.
func (c *toolCall) wait(ctx context.Context) (answer, error) {
	name, err := c.runName()
	if err != nil {
		return nil, err
	}
	wait := defaultWait
	if name.WaitSeconds != nil {
		wait = time.Duration(*name.WaitSeconds) * time.Second
	}
	if wait < 0 || wait > longestWait {
		return nil, &argumentError{fmt.Sprintf("wait_seconds must be 0 to %d; ask again after that", longestWait/time.Second)}
	}
	api, err := c.server.api(c.CallToolRequest)
	if err != nil {
		return nil, err
	}
	return c.until(ctx, name, api, wait)
}

// until looks again and again until the run has ended, nobody knows its outcome, or the time is over. An outage in the
// meantime does not lose what was seen before it.
func (c *toolCall) until(ctx context.Context, name runName, api *client.Client, wait time.Duration) (*standing, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+turn)
	defer cancel()
	began := time.Now()
	var last *standing
	for {
		asked := time.Now()
		answer, err := name.look(ctx, api, min(turn, wait-time.Since(began)))
		if err != nil && last != nil && errors.Is(err, context.DeadlineExceeded) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = describe(answer)
		if last.Ended || last.unknown() || time.Since(began) >= wait-time.Second {
			return last, nil
		}
		c.progress(ctx, time.Since(began), wait, last.Meaning)
		if err := pause(ctx, min(time.Second, wait)-time.Since(asked)); err != nil {
			return last, nil
		}
	}
}

// progress tells the client that the call is still at work, where it asked for that.
func (c *toolCall) progress(ctx context.Context, passed, total time.Duration, message string) {
	token := c.Params.GetProgressToken()
	if token == nil {
		return
	}
	// A client that cannot be told loses nothing: the answer comes all the same.
	_ = c.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: message,
		Progress: passed.Seconds(), Total: total.Seconds()})
}

// pause waits, for a server that answers sooner than it was asked to.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
