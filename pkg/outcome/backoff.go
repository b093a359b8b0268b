package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// Defaults of a connector's backoff. After attempt n the wait is a random time below min(Cap, Base·2ⁿ⁻¹):
//
//	attempt   1   2   3    4    5    6     7     8     9     10     11    12
//	at most   1s  2s  4s   8s   16s  32s   64s   128s  256s  300s   300s  held
//	in all    1s  3s  7s   15s  31s  63s   127s  255s  511s  811s   1111s
//
// So an outage of a minute passes unnoticed, one of five minutes does nearly always, and after about ten minutes on
// average (nineteen at most) an operator hears of it. Total bounds what long Retry-After answers can add.
const (
	DefaultBase     = time.Second
	DefaultCap      = 5 * time.Minute
	DefaultAttempts = 12
	DefaultTotal    = time.Hour
	// DefaultMaxRetryAfter is the longest that a provider can ask us to wait.
	DefaultMaxRetryAfter = 15 * time.Minute
)

// BackoffConfig is what a Backoff needs. Zero fields take the defaults.
type BackoffConfig struct {
	Declared      config.Backoff
	MaxRetryAfter time.Duration
	Random        func() float64 // in [0, 1); math/rand/v2's Float64 where nil
}

func (c *BackoffConfig) validate() error {
	var errs []error
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	d := c.Declared
	complain(d.Base > 0, "backoff base %s must be positive", d.Base)
	complain(d.Cap >= d.Base, "backoff cap %s must not be below its base %s", d.Cap, d.Base)
	complain(d.Attempts > 0, "backoff attempts %d must be positive", d.Attempts)
	complain(d.Total > 0, "backoff total %s must be positive", d.Total)
	complain(c.MaxRetryAfter > 0, "longest Retry-After %s must be positive", c.MaxRetryAfter)
	return errors.Join(errs...)
}

// Backoff says when an effect that was certainly not executed is tried again. It is safe for concurrent use if its
// random source is.
type Backoff struct{ config BackoffConfig }

// NewBackoff checks the declared values and fills in defaults.
func NewBackoff(c BackoffConfig) (*Backoff, error) {
	c.Declared.Base = cmp.Or(c.Declared.Base, DefaultBase)
	c.Declared.Cap = cmp.Or(c.Declared.Cap, max(DefaultCap, c.Declared.Base))
	c.Declared.Attempts = cmp.Or(c.Declared.Attempts, DefaultAttempts)
	c.Declared.Total = cmp.Or(c.Declared.Total, DefaultTotal)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, DefaultMaxRetryAfter)
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Backoff{config: c}, nil
}

// Next is how long to wait after attempt number `attempt` (from 1), `elapsed` after the first attempt began. ok is false
// when attempts or time are used up: the effect is then held as HoldExhausted.
//
// A retryAfter above zero is what the provider asked for (see RetryAfter). It is honoured up to the configured maximum,
// plus a random part of the base, so that all who were told the same do not come back at the same instant.
func (b *Backoff) Next(attempt int, elapsed, retryAfter time.Duration) (wait time.Duration, ok bool) {
	declared := b.config.Declared
	if attempt >= declared.Attempts {
		return 0, false
	}
	if retryAfter > 0 {
		wait = min(retryAfter, b.config.MaxRetryAfter) + b.jitter(declared.Base)
	} else {
		wait = b.jitter(ceiling(declared, attempt))
	}
	if elapsed > declared.Total-wait {
		return 0, false
	}
	return wait, true
}

func (b *Backoff) jitter(below time.Duration) time.Duration {
	return time.Duration(b.config.Random() * float64(below))
}

// ceiling is min(Cap, Base·2ⁿ⁻¹), by doubling, so that no attempt number can overflow it.
func ceiling(d config.Backoff, attempt int) time.Duration {
	wait := d.Base
	for n := 1; n < attempt; n++ {
		if wait > d.Cap/2 {
			return d.Cap
		}
		wait *= 2
	}
	return min(wait, d.Cap)
}

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, or a date. Absent, malformed, past and
// absurd values give 0, which means the backoff decides.
func RetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return plausible(time.Duration(seconds) * time.Second)
	}
	if date, err := http.ParseTime(header); err == nil {
		return plausible(date.Sub(now))
	}
	return 0
}

// plausible drops waits that no provider means, such as a date in another century or a Unix time given as seconds.
func plausible(wait time.Duration) time.Duration {
	const absurd = 7 * 24 * time.Hour
	if wait < 0 || wait > absurd {
		return 0
	}
	return wait
}
