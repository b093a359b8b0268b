package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// ErrUnanswered says that a call may or may not have been stored: it was made, and the context ended before an answer
// came. The same call with the same key finds out.
var ErrUnanswered = errors.New(
	"no answer came, so whether it was stored is not known; the same call with the same key finds out")

// do makes the call until it is answered or ctx ends.
func (c *Client) do(ctx context.Context, k *call) (*reply, error) {
	what := k.method + " " + k.path
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: not begun: %w", what, context.Cause(ctx))
	}
	maybe := false
	for n := 0; ; n++ {
		r, err := c.once(ctx, k)
		if err == nil {
			return r, nil
		}
		var failed *failedAttempt
		if !errors.As(err, &failed) {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		maybe = maybe || failed.maybe && k.method != http.MethodGet
		if !sleep(ctx, c.pause(n, failed.hint)) {
			return nil, gaveUp(ctx, what, n+1, maybe, err)
		}
	}
}

func gaveUp(ctx context.Context, what string, attempts int, maybe bool, last error) error {
	err := fmt.Errorf("%s: %w after %d attempts; the last one: %w", what, context.Cause(ctx), attempts, last)
	if maybe {
		return fmt.Errorf("%w (%w)", ErrUnanswered, err)
	}
	return err
}

// pause is how long to wait after the nth failed attempt, counted from 0: what the server asked for, and full jitter on
// top of it, so that callers who failed together do not come back together.
//
//	n     0       1       2       3       4       5 and on
//	most  200 ms  400 ms  800 ms  1.6 s   3.2 s   6.4 s, then 10 s; half of it on average
func (c *Client) pause(n int, hint http.Header) time.Duration {
	most := c.config.BackoffCap
	if n < 30 {
		most = min(most, c.config.BackoffBase<<n)
	}
	return c.retryAfter(hint) + rand.N(most+1)
}

// retryAfter is what the server asks for, in seconds or as a date (RFC 9110, 10.2.3), within bounds.
func (c *Client) retryAfter(hint http.Header) time.Duration {
	text := hint.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), c.config.LongestRetryAfter)
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
