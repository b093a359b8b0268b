package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestTap is D11: how many effects of a connector may be leased, by its rate and its breaker.
func TestTap(t *testing.T) {
	t.Parallel()

	type testBundle struct {
		*tap
		states []breakerState
		now    time.Time
	}
	setup := func(c *config.Connector) *testBundle {
		b := &testBundle{now: time.Now()}
		b.tap = newTap(c, slog.New(slog.DiscardHandler), func(s breakerState) { b.states = append(b.states, s) })
		return b
	}
	breaking := &config.Connector{Breaker: config.Breaker{Failures: 3, OpenFor: 30 * time.Second}}
	fail := func(b *testBundle, times int) {
		l := b.took(b.now, times)
		for range times {
			b.report(b.now, l, down, 0)
		}
	}

	t.Run("WithoutLimitsAllIsAllowed", func(t *testing.T) {
		t.Parallel()
		b := setup(&config.Connector{})
		fail(b, 100)
		require.Equal(t, 256, b.allow(b.now, 256))
	})

	t.Run("TheRateAllowsABurstAndThenSoManyASecond", func(t *testing.T) {
		t.Parallel()
		b := setup(&config.Connector{Rate: &config.RateLimit{PerSecond: 10, Burst: 20}})
		require.Equal(t, 20, b.allow(b.now, 256))
		b.took(b.now, 20)
		require.Zero(t, b.allow(b.now, 256))
		require.Equal(t, 5, b.allow(b.now.Add(510*time.Millisecond), 256))
		require.Equal(t, 2, b.allow(b.now.Add(510*time.Millisecond), 2), "never more than there are slots for")
		require.Equal(t, 20, b.allow(b.now.Add(time.Hour), 256))
	})

	t.Run("OnlyFailuresInARowOpenIt", func(t *testing.T) {
		t.Parallel()
		b := setup(breaking)
		fail(b, 2)
		b.report(b.now, b.took(b.now, 1), unsaid, 0)
		b.report(b.now, b.took(b.now, 1), up, 0)
		fail(b, 2)
		require.Equal(t, 256, b.allow(b.now, 256))
		fail(b, 1)
		require.Zero(t, b.allow(b.now.Add(29*time.Second), 256))
		require.Equal(t, []breakerState{closed, open}, b.states)
	})

	t.Run("OneIsTriedUntilOneSucceeds", func(t *testing.T) {
		t.Parallel()
		b := setup(breaking)
		stale := b.took(b.now, 10)
		fail(b, 3)
		b.report(b.now, stale, up, 0)
		require.Zero(t, b.allow(b.now, 256), "what was leased before it opened closes nothing")

		b.now = b.now.Add(30 * time.Second)
		require.Equal(t, 1, b.allow(b.now, 256))
		require.Equal(t, 1, b.allow(b.now, 256), "nothing was found to lease")
		trial := b.took(b.now, 1)
		require.Zero(t, b.allow(b.now, 256), "one at a time")
		b.report(b.now, stale, down, 0)
		b.report(b.now, trial, unsaid, 0)
		require.Equal(t, 1, b.allow(b.now, 256), "it ended on our side, and another one tells")
		b.report(b.now, b.took(b.now, 1), down, 0)
		require.Zero(t, b.allow(b.now.Add(29*time.Second), 256))

		b.now = b.now.Add(30 * time.Second)
		require.Equal(t, 1, b.allow(b.now, 256))
		b.report(b.now, b.took(b.now, 1), up, 0)
		require.Equal(t, 256, b.allow(b.now, 256))
		require.Equal(t, []breakerState{closed, open, halfOpen, open, halfOpen, closed}, b.states)
	})

	t.Run("AProviderThatAsksToWaitIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(&config.Connector{})
		l := b.took(b.now, 3)
		b.report(b.now, l, down, 90*time.Second)
		b.report(b.now, l, down, 10*time.Second)
		require.Zero(t, b.allow(b.now.Add(89*time.Second), 256))
		require.Equal(t, 256, b.allow(b.now.Add(90*time.Second), 256))
		b.report(b.now, l, down, time.Hour)
		require.Zero(t, b.allow(b.now.Add(longestPause-time.Second), 256))
		require.Equal(t, 256, b.allow(b.now.Add(longestPause), 256), "for so long at most")
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	for _, class := range outcome.Classes() {
		want := up
		if class == outcome.NotSent || class == outcome.RejectedBusy || class == outcome.Ambiguous {
			want = down
		}
		require.Equal(t, want, healthOf(connector.Result{Class: class, Err: connector.ErrUnavailable}), class)
	}
	for why, want := range map[error]health{
		errors.New("a kill switch is closed"): unsaid, errStopping: unsaid, errUnasked: down, nil: down,
	} {
		require.Equal(t, want, healthOf(connector.Result{Class: outcome.NotSent, Err: why}), "%v", why)
	}
}

// TestBreaker is D11: while a system is down its effects wait, and use up no attempts.
func TestBreaker(t *testing.T) {
	t.Parallel()

	t.Run("WhileASystemIsDownNothingIsTriedButNowAndThen", func(t *testing.T) {
		t.Parallel()
		const failures, effects = 3, 12
		var broken atomic.Bool
		broken.Store(true)
		crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(`{"update_id":"u","version":"1"}`))
		}))
		t.Cleanup(crm.Close)
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			declared := servicetest.Connector(c, servicetest.CRM)
			declared.BaseURL, declared.AllowedHosts, declared.Concurrency = crm.URL, nil, 1
			declared.Breaker = config.Breaker{Failures: failures, OpenFor: time.Hour}
		}))
		b.authorized(effects, "c", contact)
		tap := b.targets["demo/"+servicetest.CRM].tap
		attempts := func() int { return b.Count(`select count(*) from effect_attempts`) }
		b.take()
		b.inFlight.Wait()
		for range 20 { // the read fails before anything is sent
			b.again()
		}
		require.Equal(t, open, tap.state)
		require.Equal(t, failures, attempts())
		require.Contains(t, b.Logs.String(), "a connector's system fails")
		tap.until = time.Now()
		for range 5 {
			b.again()
		}
		require.Equal(t, failures+1, attempts(), "one tries whether it is back")
		require.Equal(t, effects, b.Count(`select count(*) from effects where state = 'pending'`), "none is held, and none failed")

		broken.Store(false)
		tap.until = time.Now()
		b.Eventually(func() bool {
			b.again()
			return b.Count(`select count(*) from effects where state = 'completed'`) == effects
		}, "it comes back")
		require.Equal(t, failures+1+effects, attempts())
		require.Equal(t, closed, tap.state)
	})

	t.Run("WhatEndsOnOurSideIsNoFailureOfTheSystem", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.CRM).Breaker = config.Breaker{Failures: 1, OpenFor: time.Hour}
		}))
		b.beforeLeave(func(f ledger.Fence) {
			b.Exec(`update effects set lease_owner = gen_random_uuid() where run_id = $1`, f.RunID)
		})
		b.authorized(1, "c", contact)
		b.request()
		require.Equal(t, string(outcome.NotSent), b.Attempts("c-0")[0].Class)
		require.Equal(t, closed, b.targets["demo/"+servicetest.CRM].tap.state)
	})

	t.Run("TheRateIsKeptWithoutUsingUpAttempts", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.CRM).Rate = &config.RateLimit{PerSecond: 0.001, Burst: 4}
		}))
		b.authorized(9, "c", contact)
		b.request()
		for range 3 {
			b.again()
		}
		require.Equal(t, 4, b.Count(`select count(*) from effects where state = 'completed'`))
		require.Equal(t, 4, b.Count(`select count(*) from effect_attempts`))
	})

	t.Run("ARetryAfterIsForAllEffectsOfTheConnector", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Fault(sandbox.Match{Operation: sandbox.Update, Count: 1}, sandbox.Fault{Kind: sandbox.RateLimit, RetryAfter: "90"})
		b.authorized(1, "c", contact)
		b.request()
		b.authorized(3, "d", contact)
		b.again()
		require.Equal(t, 1, b.Count(`select count(*) from effect_attempts`))
	})
}

// TestFairness is D11: thousands of effects for a system that hangs keep nobody else waiting, neither where they were requested
// before the others nor where the poll finds them.
func TestFairness(t *testing.T) {
	t.Parallel()
	const flood, others, share = 2000, 40, 4
	b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
		payments := servicetest.Connector(c, servicetest.Payments)
		payments.Concurrency, payments.Timeout = share, 20*time.Second
		servicetest.Connector(c, servicetest.CRM).Concurrency = share
	}))
	hanging := b.Fault(sandbox.Match{System: sandbox.Payments}, sandbox.Fault{Kind: sandbox.HangBeforeAccept})
	t.Cleanup(func() { _ = b.Sandbox.ClearFaults(context.WithoutCancel(t.Context())) })
	b.authorized(flood, "r", refund)
	operations := b.authorized(others, "c", contact)
	b.take()
	require.NoError(t, b.Sandbox.AwaitFault(t.Context(), hanging, share))
	began := time.Now()
	b.Eventually(func() bool {
		b.pollNow()
		check, err := b.Sandbox.Check(t.Context(), operations)
		return err == nil && check.Missing == 0
	}, "the others complete")
	require.Less(t, time.Since(began), 15*time.Second, "before a call that hangs has ended")
	require.Equal(t, share, b.Count(`select count(*) from effects where state = 'sending' and connector = $1`, servicetest.Payments))
	require.Equal(t, flood, b.Count(`select count(*) from effects where open and connector = $1`, servicetest.Payments))
}
