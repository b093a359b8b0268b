package intake

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/webhook"
)

// headerCallback is where an event may name an address that is called when its run has ended, such as the resume URL of a
// workflow that waits. It is no part of the event: a redelivery may come with another one, and both are called.
const headerCallback = "Holdpoint-Callback"

const longestCallback = 2048

// callback is the address that a delivery names, or "".
func (t *tenant) callback(d *delivery) (string, *contracts.Problem) {
	text, times := d.headers.one(headerCallback)
	switch {
	case times == 0:
		return "", nil
	case times > 1:
		return "", newProblemf(contracts.CodeCallbackRefused, "The header %s is there %d times.", headerCallback, times)
	case t.Callbacks == nil:
		return "", newProblem(contracts.CodeCallbackRefused, "This tenant has no callbacks. Wait with Prefer: wait=N, ask for the run "+
			"by its key, or subscribe to the tenant's events.")
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > longestCallback || sound(text) != text ||
		u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
		return "", newProblemf(contracts.CodeCallbackRefused, "%s must be an absolute http or https URL of at most %d bytes, "+
			"without a user or a fragment.", headerCallback, longestCallback)
	}
	if !slices.Contains(t.Callbacks.AllowedHosts, u.Host) && !slices.Contains(t.Callbacks.AllowedHosts, u.Hostname()) {
		return "", newProblemf(contracts.CodeCallbackRefused, "%s names the host %s, which is not one that is called.",
			headerCallback, u.Host)
	}
	return text, nil
}

func newCaller(c *config.Callbacks) (*webhook.Sender, error) {
	return webhook.New(webhook.Config{Secret: webhook.Secret{Text: c.Secret, Env: c.SecretEnv, File: c.SecretFile},
		URL: "http://" + c.AllowedHosts[0], AllowedHosts: c.AllowedHosts, Timeout: min(c.Timeout, callHold/2)})
}

// How calls are made. A call that is not taken is made again after a wait that doubles from 1 s to 10 min, with jitter, for a
// day: about 150 times. Who answers 410 is not called again.
const (
	callEvery   = 200 * time.Millisecond
	callsAtOnce = 16
	callHold    = time.Minute // longer than any call takes
	callFirst   = time.Second
	callLongest = 10 * time.Minute
	callFor     = 24 * time.Hour
)

// errNoCallbacks means that the tenant's configuration does not allow calls any more.
var errNoCallbacks = errors.New("the configuration declares no callbacks for this tenant")

// callbacks calls whoever asked for it when runs have ended.
type callbacks struct{ in *Intake }

// Run is runOnce plus a ticker.
func (c *callbacks) Run(ctx context.Context) error {
	for {
		made, err := c.runOnce(ctx)
		if err != nil && ctx.Err() == nil {
			c.in.env.Log.Warn("callbacks could not be made now; they are tried again", "error", err)
		}
		if made == callsAtOnce {
			continue // there may be more
		}
		timer := time.NewTimer(callEvery + rand.N(callEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// runOnce makes the calls that are due and keeps what became of them.
func (c *callbacks) runOnce(ctx context.Context) (int, error) {
	due, err := c.in.env.Ledger.TakeCallbacks(ctx, callsAtOnce, callHold)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	results := make([]ledger.CallbackResult, len(due))
	var calls sync.WaitGroup
	for i := range due {
		calls.Go(func() { results[i] = c.call(context.WithoutCancel(ctx), &due[i]) })
	}
	calls.Wait()
	return len(due), c.in.env.Ledger.RecordCallbacks(ctx, results)
}

// ended is the body of a call.
type ended struct {
	Type string            `json:"type"`
	At   time.Time         `json:"timestamp"`
	Data *contracts.Answer `json:"data"`
}

func (c *callbacks) call(ctx context.Context, due *ledger.Callback) ledger.CallbackResult {
	result := ledger.CallbackResult{Callback: due}
	run := &due.Run
	body, err := json.Marshal(ended{"run.ended", time.Now().UTC(), c.in.describe(run, statusOf(run), uuid.Nil)})
	t := c.in.tenants[run.TenantID]
	switch {
	case err != nil:
		result.Err = err
	case t == nil || t.caller == nil:
		result.Err = errNoCallbacks
	default:
		result.Err = t.caller.Post(ctx, due.URL, due.ID.String(), body)
	}
	if result.Err == nil {
		return result
	}
	if errors.Is(result.Err, webhook.ErrGone) { // a workflow that waits no more, for one
		c.in.env.Log.Info("whoever asked to be called is gone", "tenant", run.TenantID, "run", run.RunID, "key", run.Key)
		return result
	}
	wait := min(callLongest, callFirst<<min(due.Attempt-1, 10))
	result.Again = wait/2 + rand.N(wait)
	if time.Since(due.MadeAt) > callFor {
		result.Again = 0
		c.in.env.Log.Error("nobody took a callback for a day; it is given up", "tenant", run.TenantID, "run", run.RunID,
			"key", run.Key, "attempts", due.Attempt, "error", result.Err)
	}
	return result
}
