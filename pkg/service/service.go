// Package service is what all services share: their settings, their environment, and the one runner that starts them, reports
// their health and stops them.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Env is what a service stands on. Bus connection and configuration may be shared by several services of one process; pool and
// ledger are the service's own, under its own Postgres role (D1).
type Env struct {
	Service string
	Log     *slog.Logger
	Pool    *pgxpool.Pool
	Ledger  *ledger.Ledger
	Bus     *bus.Conn
	Config  *config.Config
	Meter   metric.Meter
	Health  *Health
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
	return &Env{Service: needs.Service, Log: needs.Log.With("service", needs.Service), Pool: pool, Ledger: l, Bus: needs.Bus,
		Config: needs.Config, Meter: otel.Meter("holdpoint/" + needs.Service), Health: needs.Health}, nil
}

// Close ends the pool.
func (e *Env) Close() { e.Pool.Close() }

// RunAll runs the parts until the context ends or one of them fails, then stops them all and waits up to drain. The error joins
// those of the parts, each with its name.
func RunAll(ctx context.Context, log *slog.Logger, drain time.Duration, parts ...Named) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var problems []error
	running := make(map[string]bool, len(parts))
	var wait sync.WaitGroup
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
	<-ctx.Done()
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drain):
	}
	mu.Lock()
	defer mu.Unlock()
	for name := range running {
		problems = append(problems, fmt.Errorf("%s did not finish within %s", name, drain))
	}
	return errors.Join(problems...)
}

// Loop calls once again and again: at once while it reports work, else after the pause or when woken. An error is logged and
// waited out; it ends nothing.
type Loop struct {
	Name  string
	Log   *slog.Logger
	Pause time.Duration
	Wake  <-chan struct{} // may be nil
	Once  func(ctx context.Context) (again bool, err error)
}

// errorPause is how long a loop rests after an error, so that an outage does not become a storm of queries and log lines.
const errorPause = time.Second

// Run loops until the context ends.
func (l Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-l.Wake:
		}
		pause := l.Pause
		again, err := l.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			l.Log.Error("loop failed; trying again", "loop", l.Name, "error", err)
			pause = errorPause
		case again:
			pause = 0
		}
		timer.Reset(pause)
	}
}
