// Package servicetest gives a test of one service its world in one line: a fresh database with the ledgers of all
// services, the example configuration with short times, and a sandbox provider of its own to write to.
//
//	w := servicetest.New(t)
//	w.Authorize(w.Contact("k1"))
//	d, err := dispatcher.New(w.Env(ledger.Dispatcher), dispatcher.Settings{Enabled: true})
//
// What the other services would have done is done through their ledgers.
package servicetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// Connectors and their operations in the example configuration.
const (
	CRM      = "sandbox-crm"
	Payments = "sandbox-payments"
	Update   = "update_contact"
	Refund   = "create_refund"
)

// IndexLag is how long a write may be invisible to lookups, as the connectors declare it.
const IndexLag = 40 * time.Second

// Verified has the target of every update read after the write, as the example's connectors do (R7).
func Verified(t *config.Tenant) {
	for _, c := range t.Connectors {
		for _, op := range c.Operations {
			if op.Read != nil {
				op.Read.Unverified = false
			}
		}
	}
}

// Patience bounds every wait; a shared machine may be slow.
const Patience = 30 * time.Second

// World is one test's own.
type World struct {
	*ledgertest.Bench

	Sandbox *sandbox.Client
	Config  *config.Config
	Logs    *Logs
	Bus     *bus.Conn // to nowhere, unless an option gave one

	t testing.TB
}

// Option changes a world before anything is made of it.
type Option func(*World)

// WithBus connects the services to a broker.
func WithBus(conn *bus.Conn) Option { return func(w *World) { w.Bus = conn } }

// WithConfig changes the configuration. The policy version stays what the files gave, and is the active one.
func WithConfig(change func(*config.Tenant)) Option {
	return func(w *World) { change(w.Config.Tenants[0]) }
}

// New makes a world.
func New(t testing.TB, options ...Option) *World {
	t.Helper()
	w := &World{Bench: ledgertest.New(t), Sandbox: sandboxtest.New(t), Logs: &Logs{}, t: t}
	w.Config = w.Configuration()
	for _, option := range options {
		option(w)
	}
	if w.Bus == nil {
		w.Bus = nowhere(t)
	}
	for _, tenant := range w.Config.Tenants {
		w.PolicyVersion = w.ActivatePolicy(tenant.ID, tenant.PolicyContent) + "/test"
	}
	return w
}

// For is the same world for one case of a test whose cases share it.
func (w *World) For(t testing.TB) *World {
	shared := *w
	shared.Bench, shared.t = w.Bench.For(t), t
	return &shared
}

// Configuration loads the example anew, with times for tests: backoff of milliseconds, and refunds below 100 that
// need no person, so that both connectors can be written to.
func (w *World) Configuration(changes ...func(*config.Tenant)) *config.Config {
	w.t.Helper()
	cfg, err := config.LoadEnv(deploy.Example(), func(name string) (string, bool) {
		return w.Sandbox.URL(), name == "HOLDPOINT_SANDBOX_URL"
	})
	require.NoError(w.t, err)
	tenant := cfg.Tenants[0]
	for _, c := range tenant.Connectors {
		c.Timeout = 5 * time.Second
		c.Backoff = config.Backoff{Base: 4 * time.Millisecond, Cap: 8 * time.Millisecond, Attempts: 6, Total: time.Hour}
		for _, op := range c.Operations {
			if op.Lookup != nil {
				op.Lookup.IndexLag = IndexLag
			}
			if op.Read != nil {
				op.Read.Unverified = true // it takes two services to complete what is verified; see Verified
			}
		}
	}
	Action(tenant, "payment.refund").Reversible = true
	tenant.Rules = append(tenant.Rules, &config.Rule{
		ID: "small-refunds", Action: "payment.refund", Route: config.RouteAuto,
		When:   `decimal(proposed_change.amount) <= decimal(thresholds.needs_lead)`,
		Reason: "Small refunds need nobody in this test.",
	})
	for _, change := range changes {
		change(tenant)
	}
	return cfg
}

// Connector finds a connector of a tenant.
func Connector(t *config.Tenant, id string) *config.Connector {
	for _, c := range t.Connectors {
		if c.ID == id {
			return c
		}
	}
	panic("no connector " + id)
}

// Operation is the one operation of a connector of the example.
func Operation(t *config.Tenant, connector string) *config.Operation {
	return Connector(t, connector).Operations[0]
}

// Action finds an action type of a tenant.
func Action(t *config.Tenant, kind string) *config.Action {
	for _, a := range t.Actions {
		if a.Type == kind {
			return a
		}
	}
	panic("no action type " + kind)
}

// Env is what a service stands on in this world, with connections of its own.
func (w *World) Env(name string) *service.Env {
	w.t.Helper()
	pool := w.DB.Pool("holdpoint_" + name)
	l, err := ledger.New(ledger.Config{Pool: pool, Service: name})
	require.NoError(w.t, err)
	return &service.Env{
		Service: name, Log: slog.New(w.Logs.handler()), Pool: pool, Ledger: l, Bus: w.Bus, Config: w.Config,
		Meter: noop.Meter{},
	}
}

// nowhere is a connection to a broker that is down.
func nowhere(t testing.TB) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(context.Background(), bus.ConnectConfig{
		URL: "nats://127.0.0.1:1", Name: "test", Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Start runs a service until the returned function stops it, which returns what Run returned. It is stopped when the
// test ends at the latest.
func (w *World) Start(r service.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

// Eventually waits for a condition.
func (w *World) Eventually(condition func() bool, why string) {
	w.t.Helper()
	require.Eventually(w.t, condition, Patience, 5*time.Millisecond, why)
}
