// Package service is what all services share: their settings, their environment, and the one runner that starts them,
// reports their health and stops them.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// Runner is one part: it blocks until its context ends, finishes what it holds, and returns nil for a controlled stop.
type Runner interface {
	Run(ctx context.Context) error
}

// Named is a part with the name that health and logs call it by.
type Named struct {
	Name string
	Runner
}

// Env is what a service stands on. Bus connection and configuration may be shared by several services of one process;
// pool and ledger are the service's own, under its own Postgres role (D1).
type Env struct {
	Service string
	Log     *slog.Logger
	Pool    *pgxpool.Pool
	Ledger  *ledger.Ledger
	Bus     *bus.Conn
	Config  *config.Config
	Meter   metric.Meter
	Health  *Health // nil where nobody asks
	// PolicyActivation is what the policy service does with files that hold another policy; "" leaves it to operators.
	PolicyActivation PolicyActivation
}

// Needs are the parts of an Env that come from outside.
type Needs struct {
	Service     string
	DatabaseURL string
	MaxConns    int32
	Bus         *bus.Conn
	Config      *config.Config
	Log         *slog.Logger
	Health      *Health

	PolicyActivation PolicyActivation
}

// NewEnv opens the service's pool. Close it when the service has ended.
func NewEnv(ctx context.Context, needs Needs) (*Env, error) {
	pool, err := postgres.Open(ctx, postgres.PoolConfig{URL: needs.DatabaseURL, Role: "holdpoint_" + needs.Service,
		MaxConns: needs.MaxConns, ApplicationName: "holdpoint-" + needs.Service})
	if err != nil {
		return nil, err
	}
	l, err := ledger.New(ledger.Config{Pool: pool, Service: needs.Service})
	if err != nil {
		pool.Close()
		return nil, err
	}
	needs.Health.Add(needs.Service+" database", pool.Ping)
	return &Env{
		Service: needs.Service, Log: needs.Log.With("service", needs.Service), Pool: pool, Ledger: l, Bus: needs.Bus,
		Config: needs.Config, Meter: otel.Meter("holdpoint/" + needs.Service), Health: needs.Health,
		PolicyActivation: needs.PolicyActivation,
	}, nil
}

// Close ends the pool.
func (e *Env) Close() { e.Pool.Close() }

// WakeRelay tells the relay that events were committed. It is a hint that may be lost: the relay also looks by itself
// (B3).
func (e *Env) WakeRelay() {
	if err := e.Bus.Poke(bus.WakeSubject(ledger.Relay)); err != nil {
		e.Log.Debug("the relay could not be woken; it looks by itself", "error", err)
	}
}

// Waking is a ledger command that wakes the relay when it has committed.
func Waking[In, Out any](
	e *Env, run func(context.Context, []In) ([]Out, error),
) func(context.Context, []In) ([]Out, error) {
	return func(ctx context.Context, items []In) ([]Out, error) {
		out, err := run(ctx, items)
		if err == nil {
			e.WakeRelay()
		}
		return out, err
	}
}

// RunAll runs the parts until the context ends or one of them ends, then stops them all and waits up to drain. The
// error joins those of the parts, each with its name.
func RunAll(ctx context.Context, log *slog.Logger, drain time.Duration, parts ...Named) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var problems []error
	running := make(map[string]bool, len(parts))
	var wait sync.WaitGroup
	mu.Lock() // a part may end before the last one has begun
	for _, part := range parts {
		running[part.Name] = true
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer cancel()
			err := part.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			delete(running, part.Name)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", part.Name, err))
				log.Error("a part failed; stopping", "part", part.Name, "error", err)
			}
		}()
	}
	mu.Unlock()
	<-ctx.Done()
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drain):
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(running)) {
		problems = append(problems, fmt.Errorf("%s did not finish within %s", name, drain))
	}
	return errors.Join(problems...)
}
