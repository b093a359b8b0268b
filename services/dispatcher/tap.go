package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// longestPause is the longest that a provider's Retry-After keeps a connector's other effects waiting.
const longestPause = 5 * time.Minute

// States of a circuit breaker, as the gauge has them. A connector without one stays closed.
//
//	closed ── so many failures in a row ──> open ── its time is over ──> half-open ── the attempt succeeds ──> closed
//	                                         └───────────── the attempt fails ─────────┘
type breakerState int64

const (
	closed breakerState = iota
	halfOpen
	open
)

func (s breakerState) String() string { return [...]string{"closed", "half-open", "open"}[s] }

// health is what an attempt says about the system behind a connector.
type health int

const (
	unsaid health = iota // the attempt ended for a reason on our side
	up
	down
)

// healthOf judges by what a call came to (D11). A system that refuses is up.
func healthOf(r connector.Result) health {
	switch r.Class {
	case outcome.NotSent:
		reported := r.Err == nil // by an executor, which could not reach its system
		if reported || errors.Is(r.Err, connector.ErrUnavailable) || errors.Is(r.Err, errUnasked) {
			return down
		}
		return unsaid
	case outcome.RejectedBusy, outcome.Ambiguous:
		return down
	}
	return up
}

// tap says how many effects of one connector may be leased now: no more than its rate allows, none while its breaker is open or it has
// asked for a pause, and one at a time while it is half-open. It acts on leasing, so that an effect whose system is down waits and
// does not use up its attempts (D11). It knows of this process alone.
type tap struct {
	rules   config.Breaker
	limiter *rate.Limiter // nil is no limit
	log     *slog.Logger  // with the connector's name
	watch   func(breakerState)

	mu       sync.Mutex
	state    breakerState
	failures int       // in a row, while closed
	until    time.Time // while open
	trial    bool      // while half-open: the one attempt is under way
	pause    time.Time // until when the provider wants no more
	// era counts the changes of state: what was leased in an earlier one says nothing about this one.
	era int
}

// lot is what an attempt was leased in.
type lot struct{ era int }

func newTap(c *config.Connector, log *slog.Logger, watch func(breakerState)) *tap {
	t := &tap{rules: c.Breaker, log: log, watch: watch}
	if c.Rate != nil {
		t.limiter = rate.NewLimiter(rate.Limit(c.Rate.PerSecond), c.Rate.Burst)
	}
	watch(closed)
	return t
}

// allow is how many of those that are wanted may be leased now.
func (t *tap) allow(now time.Time, wanted int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == open && !now.Before(t.until) {
		t.turn(halfOpen)
	}
	switch {
	case t.state == open, t.state == halfOpen && t.trial, now.Before(t.pause):
		return 0
	case t.state == halfOpen:
		wanted = min(wanted, 1)
	}
	if t.limiter != nil {
		wanted = min(wanted, int(math.Floor(t.limiter.TokensAt(now))))
	}
	return max(wanted, 0)
}

// took tells how many of those that were allowed were leased.
func (t *tap) took(now time.Time, n int) lot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limiter != nil {
		t.limiter.AllowN(now, n)
	}
	t.trial = t.state == halfOpen && n > 0
	return lot{t.era}
}

// report tells what one of them came to.
func (t *tap) report(now time.Time, l lot, h health, retryAfter time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h == down && retryAfter > 0 {
		t.wait(now, min(retryAfter, longestPause))
	}
	if t.rules.Failures == 0 || l.era != t.era {
		return
	}
	switch {
	case h == unsaid:
		t.trial = false // another one tells
	case h == up && t.state == halfOpen:
		t.turn(closed)
	case h == up:
		t.failures = 0
	default:
		t.failures++
		if t.state == halfOpen || t.failures >= t.rules.Failures {
			t.until = now.Add(t.rules.OpenFor)
			t.turn(open)
		}
	}
}

func (t *tap) wait(now time.Time, pause time.Duration) {
	if !now.Before(t.pause) {
		t.log.Info("a provider asked to wait; none of the connector's effects is leased until then", "wait", pause)
	}
	if until := now.Add(pause); until.After(t.pause) {
		t.pause = until
	}
}

func (t *tap) turn(to breakerState) {
	level, words := slog.LevelInfo, "a connector's circuit breaker has changed"
	if to == open {
		level, words = slog.LevelWarn, "a connector's system fails; nothing is leased for it for a while"
	}
	t.log.Log(context.Background(), level, words, "from", t.state, "to", to, "failures", t.failures, "open_for", t.rules.OpenFor)
	t.state, t.trial, t.failures = to, false, 0
	t.era++
	t.watch(to)
}

// breakers are the metrics of all of them.
type breakers struct {
	states   metric.Int64Gauge
	openings metric.Int64Counter
}

func newBreakers(meter metric.Meter) (b breakers, err error) {
	var err1, err2 error
	b.states, err1 = meter.Int64Gauge("holdpoint_connector_breaker_state",
		metric.WithDescription("Circuit breaker of a connector: 0 closed, 1 half-open, 2 open."))
	b.openings, err2 = meter.Int64Counter("holdpoint_connector_breaker_openings_total",
		metric.WithDescription("How often a connector's circuit breaker has opened."))
	return b, errors.Join(err1, err2)
}

// of makes the watch of one connector.
func (b breakers) of(tenant, connector string) func(breakerState) {
	labels := metric.WithAttributes(attribute.String("tenant", tenant), attribute.String("connector", connector))
	return func(s breakerState) {
		b.states.Record(context.Background(), int64(s), labels)
		if s == open {
			b.openings.Add(context.Background(), 1, labels)
		}
	}
}
