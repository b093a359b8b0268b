package dispatcher

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestStop is OPS-03: a stop takes nothing more, cuts no call off, and waits for those in flight.
func TestStop(t *testing.T) {
	t.Parallel()

	// running starts the service, with one call inside a delay at the provider.
	running := func(t *testing.T, settings Settings, delay time.Duration) (*bench, func() error) {
		w := servicetest.New(t)
		settings.Enabled = true
		d, err := New(t.Context(), w.Env(ledger.Dispatcher), settings)
		require.NoError(t, err)
		d.heard.hear(0) // this bus has heard of no mark
		b := &bench{World: w, Dispatcher: d, t: t}
		id := b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: sandbox.Duration(delay)})
		b.Authorize(b.Contact("k"))
		b.DueNow()
		stop := b.Start(d)
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), id, 1))
		return b, stop
	}

	t.Run("ACallInFlightIsFinishedAndRecorded", func(t *testing.T) {
		t.Parallel()
		b, stop := running(t, Settings{}, 300*time.Millisecond)
		b.Authorize(b.Contact("late"))
		require.NoError(t, stop())
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("NothingIsLeasedAfterTheStopAndItsEventIsDone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.stopping.Store(true)
		b.request()
		b.again()
		require.Empty(t, b.Attempts("k"))
		b.with().again()
		require.Len(t, b.Writes("k"), 1, "another replica takes it at once")
	})

	t.Run("WhatOutlastsTheDrainStaysSendingAndIsNeverFailed", func(t *testing.T) {
		t.Parallel()
		b, stop := running(t, Settings{Drain: 50 * time.Millisecond}, 500*time.Millisecond)
		require.ErrorContains(t, stop(), "calls are still in flight")
		e := b.Look("k")
		require.Equal(t, ledger.EffectSending, e.State)
		require.Empty(t, b.Attempts("k")[0].Class)
		b.inFlight.Wait()
	})
}

// TestRecord: an outcome is the only word on a write that may have happened; an outage of Postgres must not swallow it.
func TestRecord(t *testing.T) {
	t.Parallel()

	t.Run("AnOutcomeOutlastsAnOutage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var tries atomic.Int32
		b.outcomes.Close()
		b.outcomes = ledger.NewGroup(ledger.GroupConfig[ledger.Settlement, recorded]{
			Run: func(ctx context.Context, items []ledger.Settlement) ([]recorded, error) {
				if tries.Add(1) <= 2 {
					return nil, ledger.ErrUnavailable
				}
				return b.settle(ctx, items)
			},
		})
		b.Authorize(b.Contact("k"))
		b.request()
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State)
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("OneThatCannotBeStoredSpoilsNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		keys := b.Authorize(b.Contact("good"), b.Contact("bad"))
		leased, err := b.env.Ledger.Lease(t.Context(), ledger.LeaseRequest{Owner: keys[0].RunID, Duration: time.Minute,
			Requested: keys,
			Free:      map[string]int{"demo/" + servicetest.CRM: 2}})
		require.NoError(t, err)
		settlements := make([]ledger.Settlement, 2)
		good := 0
		for i, e := range leased {
			a := &attempt{Leased: e, target: b.targets[slotOf(&e)], taken: time.Now()}
			settlements[i] = b.hold(a, errors.New("a test"))
			settlements[i].EffectKey = e.EffectKey
			if e.RunKey == "bad" {
				settlements[i].Review = &ledger.Review{Reasons: []byte(`{`)}
			} else {
				good = i
			}
		}
		out, err := b.settle(t.Context(), settlements)
		require.NoError(t, err)
		require.NoError(t, out[good].err)
		require.True(t, out[good].moved)
		require.Error(t, out[1-good].err)
		require.Equal(t, ledger.EffectHeld, b.Look("good").State)
	})

	t.Run("OneThatCanNeverBeStoredIsLoggedWithWhatWouldHelp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.outcomes.Close()
		b.outcomes = ledger.NewGroup(ledger.GroupConfig[ledger.Settlement, recorded]{
			Run: func(context.Context, []ledger.Settlement) ([]recorded, error) {
				return nil, errors.New("no such column")
			},
		})
		b.request()
		require.Len(t, b.alerts("k"), 1)
		require.Contains(t, b.alerts("k")[0], b.Writes("k")[0].UpdateID)
	})
}

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("RefusesRulesThatDoNotCompileAndConnectorsThatCannotBeUsed", func(t *testing.T) {
		t.Parallel()
		w := servicetest.New(t, servicetest.WithConfig(func(c *config.Tenant) { c.Rules[0].When = "nonsense(" }))
		_, err := New(t.Context(), w.Env(ledger.Dispatcher), Settings{})
		require.Error(t, err)
		w.Config = w.Configuration(func(c *config.Tenant) {
			servicetest.Connector(c, servicetest.CRM).BaseURL = "ftp://x"
			servicetest.Connector(c, servicetest.Payments).Backoff.Base = -1
		})
		_, err = New(t.Context(), w.Env(ledger.Dispatcher), Settings{})
		require.ErrorContains(t, err, servicetest.CRM)
	})

	t.Run("ALeaseOutlastsTheReadAndTheWriteOfTheSlowestConnector", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c,
				servicetest.CRM).Timeout = time.Minute
		}))
		require.Greater(t, b.leaseDuration(), 2*time.Minute)
	})

	t.Run("ALeaseOutlastsTheWaitForLeaveAndForTheReceipt", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(withWarehouse), servicetest.WithConfig(leaveWithin(time.Minute)),
			servicetest.WithConfig(reportWithin(2*time.Minute)))
		require.Greater(t, b.leaseDuration(), 3*time.Minute)
	})
}
