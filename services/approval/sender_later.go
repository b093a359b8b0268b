package approval

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// laterError is a failure after which the receiver wants to be left alone for a while.
type laterError struct {
	error

	after time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// longestLater bounds what a receiver may ask for: a request has a decide-by.
const longestLater = time.Hour

// later reads the Retry-After of an answer 429 or 503, in seconds or as a date (RFC 9110, section 10.2.3).
func later(answer *http.Response, err error) error {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		return err
	}
	asked := answer.Header.Get("Retry-After")
	if seconds, bad := strconv.ParseUint(asked, 10, 31); bad == nil {
		return &laterError{err, min(time.Duration(seconds)*time.Second, longestLater)}
	}
	if at, bad := http.ParseTime(asked); bad == nil {
		return &laterError{err, min(time.Until(at), longestLater)}
	}
	return err
}

// waitAfter is how long to wait after an attempt that failed: as the table of attempts says, and no shorter than the receiver asked for.
func waitAfter(attempt int, err error) time.Duration {
	wait := firstWait
	for range attempt - 1 {
		wait = min(3*wait, longestWait)
	}
	if asked := (*laterError)(nil); errors.As(err, &asked) {
		wait = max(wait, asked.after)
	}
	return wait
}
