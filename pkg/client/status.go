package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// LongestWait is the longest time for which the server holds an answer about a run.
const LongestWait = time.Minute

// Get tells where a run stands. With a wait, the answer is held until the run has ended or the wait is over, whichever
// comes first; it is cut to whole seconds and to LongestWait. Needs the scope read.
func (c *Client) Get(ctx context.Context, runID string, wait time.Duration) (*contracts.Answer, error) {
	return c.look(ctx, "/v1/runs/"+url.PathEscape(runID), wait)
}

// Find tells where the run of an idempotency key stands, as Get does. A problem with contracts.CodeNotFound says that
// no event with this key is stored.
func (c *Client) Find(ctx context.Context, key string, wait time.Duration) (*contracts.Answer, error) {
	return c.look(ctx, "/v1/runs?"+url.Values{"key": {key}}.Encode(), wait)
}

func (c *Client) look(ctx context.Context, path string, wait time.Duration) (*contracts.Answer, error) {
	answer := new(contracts.Answer)
	k := &call{method: http.MethodGet, path: path, header: http.Header{}, into: answer}
	if seconds := int(min(wait, LongestWait) / time.Second); seconds > 0 {
		k.hold = time.Duration(seconds) * time.Second
		k.header.Set("Prefer", "wait="+strconv.Itoa(seconds)) // RFC 7240
	}
	if _, err := c.do(ctx, k); err != nil {
		return nil, err
	}
	return answer, nil
}

// Await waits until a run has ended, and tells how. Where ctx ends first it returns the error, and the last answer if
// there was one. A run waits for people as long as they take: bound ctx accordingly.
func (c *Client) Await(ctx context.Context, runID string) (last *contracts.Answer, err error) {
	for {
		asked := time.Now()
		answer, err := c.Get(ctx, runID, LongestWait)
		switch {
		case err != nil:
			return last, err
		case Ended(answer):
			return answer, nil
		}
		last = answer
		if !unhurried(ctx, asked) {
			return last, context.Cause(ctx)
		}
	}
}

// Ended tells whether the run will move no more: its Outcome says how it ended, and its Effects what was done. An
// answer with contracts.ResultOutcomeUnknown has not ended, and is neither a success nor a failure (K14).
func Ended(a *contracts.Answer) bool { return a.Outcome != "" }

// leastTurn is the shortest turn of a loop that asks again and again: the server may answer at once, whatever it is
// asked.
const leastTurn = time.Second

// unhurried waits until a turn of a loop has taken leastTurn. It reports whether the loop may go on.
func unhurried(ctx context.Context, began time.Time) bool {
	return sleep(ctx, leastTurn-time.Since(began))
}
