package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// Config is what a ledger needs. Both are required.
type Config struct {
	Pool    *pgxpool.Pool // whose sessions work as the service's Postgres role
	Service string        // who moves: one of the services that Moves names
}

// Ledger makes a service's moves. It is safe for concurrent use.
type Ledger struct {
	pool    *pgxpool.Pool
	service string
}

// New makes the ledger of one service.
func New(cfg Config) (*Ledger, error) {
	var problems []error
	if cfg.Pool == nil {
		problems = append(problems, errors.New("no connection pool"))
	}
	if !knownService(cfg.Service) {
		problems = append(problems, fmt.Errorf("%q is no service that makes moves", cfg.Service))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return &Ledger{pool: cfg.Pool, service: cfg.Service}, nil
}

// ErrUnavailable means that Postgres could not be reached, or lost the race too often: nothing is wrong with the items, and the
// same call may be made again.
var ErrUnavailable = errors.New("the ledger is unavailable")

// Patience of one command, whatever its caller's. A caller that goes away must not turn a stored row into a reported failure,
// so a command runs on a context of its own:
//
//	attempt   waits up to   total with a dead server
//	1         -             at once
//	2         25 ms         25 ms
//	3         50 ms         75 ms
//	4         100 ms        175 ms
//	5         200 ms        375 ms
//
// That outlives a deadlock, a cut connection and a switch-over of a pooler; a longer outage is the caller's to wait for.
const (
	commandAttempts = 5
	commandBackoff  = 25 * time.Millisecond
	commandTimeout  = 30 * time.Second
)

// command runs one write until it is done or its patience ends. The write must find its own earlier work when it is repeated.
func (l *Ledger) command(ctx context.Context, name string, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := run(ctx)
		switch {
		case err == nil:
			return nil
		case !postgres.Retryable(err):
			return fmt.Errorf("%s: %w", name, err)
		case attempt == commandAttempts || ctx.Err() != nil:
			return fmt.Errorf("%s: %w: %w", name, ErrUnavailable, err)
		}
		wait := commandBackoff << (attempt - 1)
		pause(ctx, wait/2+rand.N(wait))
	}
}

// unread is the error of a read: ErrUnavailable where the same read can succeed later. Nothing can have been changed by it.
func unread(what string, err error) error {
	if postgres.Retryable(err) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// collect runs one statement as its own transaction and reads all its rows. The commit is over when it returns, because pgx
// reads on to the server's "ready for query".
func collect[T any](
	ctx context.Context, l *Ledger, site *fault.Site, runs []string, scan pgx.RowToFunc[T], sql string, args ...any,
) ([]T, error) {
	site.Before(ctx, runs...)
	rows, err := l.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, err
	}
	site.After(ctx, runs...)
	return out, nil
}

// transaction runs several statements and commits them in a straight line.
func (l *Ledger) transaction(ctx context.Context, site *fault.Site, runs []string, work func(pgx.Tx) error) error {
	return l.transactionOf(ctx, site, func(tx pgx.Tx) ([]string, error) { return runs, work(tx) })
}

// transactionOf is transaction where the work alone finds out which runs it touches.
func (l *Ledger) transactionOf(ctx context.Context, site *fault.Site, work func(pgx.Tx) ([]string, error)) error {
	var runs []string
	err := postgres.InTx(ctx, l.pool, func(tx pgx.Tx) (err error) {
		if runs, err = work(tx); err != nil {
			return err
		}
		site.Before(ctx, runs...)
		return nil
	})
	if err == nil {
		site.After(ctx, runs...)
	}
	return err
}

// split runs a batch, and where the data of some item spoils it, halves it until that item stands alone and is reported to
// bad. Any other error ends the whole batch.
func split[T any](items []T, run func([]T) error, bad func(T, error)) error {
	err := run(items)
	switch {
	case err == nil || !postgres.DataError(err):
		return err
	case len(items) == 1:
		bad(items[0], err)
		return nil
	}
	half := len(items) / 2
	if err := split(items[:half], run, bad); err != nil {
		return err
	}
	return split(items[half:], run, bad)
}

// column is one field of every item, as an array parameter. pgx walks a plain slice by reflection, which was a seventh of the
// CPU under load; a FlatArray it walks by index.
func column[T, V any](items []T, field func(T) V) pgtype.FlatArray[V] {
	out := make(pgtype.FlatArray[V], len(items))
	for i, item := range items {
		out[i] = field(item)
	}
	return out
}

// seconds is how durations are handed to make_interval.
func seconds(d time.Duration) float64 { return d.Seconds() }

func knownService(service string) bool {
	for _, m := range Moves {
		if m.may(service) {
			return true
		}
	}
	return service == Relay
}
