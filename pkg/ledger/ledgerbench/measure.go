// Package ledgerbench measures what Postgres alone can do: how many runs a second the ledger's own commands take from claim to
// receipt on one server, with no HTTP, broker or provider beside them. It is the ceiling that a whole system's rate is compared
// with.
package ledgerbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what is measured. The zero value is sound.
type Options struct {
	Batch       int           // items of one command; default 256
	Connections []int         // each is measured on its own, and the best counts; default 1, 2, 4
	Duration    time.Duration // of each measurement; default 3 s
	Review      bool          // a person approves each run, instead of policy alone
}

func (o *Options) validate() error {
	o.Batch = cmp.Or(o.Batch, 256)
	o.Duration = cmp.Or(o.Duration, 3*time.Second)
	if len(o.Connections) == 0 {
		o.Connections = []int{1, 2, 4}
	}
	var problems []error
	if o.Batch < 1 {
		problems = append(problems, fmt.Errorf("a batch of %d", o.Batch))
	}
	if o.Duration < 0 {
		problems = append(problems, fmt.Errorf("a duration of %s", o.Duration))
	}
	for _, c := range o.Connections {
		if c < 1 {
			problems = append(problems, fmt.Errorf("%d connections", c))
		}
	}
	return errors.Join(problems...)
}

// Measured is one measurement.
type Measured struct {
	Connections   int
	Runs          int // that went from claim to a cleared outbox
	Elapsed       time.Duration
	RunsPerSecond float64
}

// Result is what a server can do.
type Result struct {
	RunsPerSecond float64    // of the best measurement
	Connections   int        // that it took
	Measured      []Measured // all, in the order of Options.Connections
}

// Measure makes a scratch database on the server that databaseURL names, sends runs through every move of a flow, clears the
// outbox, and drops the database again, also when it fails. The moves are claim, decide, lease and settle, and with
// Options.Review claim, ask, vote, lease and settle. The URL's user must be able to create databases, and to create the services'
// roles where the server does not have them yet.
func Measure(ctx context.Context, databaseURL string, opts Options) (result Result, err error) {
	if err := opts.validate(); err != nil {
		return Result{}, fmt.Errorf("measure the ledger: %w", err)
	}
	scratch, err := newScratch(ctx, databaseURL)
	if err != nil {
		return Result{}, fmt.Errorf("measure the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.drop(context.WithoutCancel(ctx))) }()
	for _, connections := range opts.Connections {
		measured, err := measure(ctx, scratch.url, connections, opts)
		if err != nil {
			return Result{}, fmt.Errorf("measure the ledger with %d connections: %w", connections, err)
		}
		result.Measured = append(result.Measured, measured)
		if measured.RunsPerSecond > result.RunsPerSecond {
			result.RunsPerSecond, result.Connections = measured.RunsPerSecond, connections
		}
	}
	return result, nil
}

// measure lets each connection work off batch after batch. The first batch of each is not counted: it prepares statements.
func measure(ctx context.Context, url string, connections int, opts Options) (Measured, error) {
	f, err := openFlow(ctx, url, connections, opts.Review)
	if err != nil {
		return Measured{}, err
	}
	defer f.close()
	if err := f.each(ctx, connections, func(ctx context.Context, _ int) error { return f.batch(ctx, opts.Batch) }); err != nil {
		return Measured{}, err
	}
	runs := make([]int, connections)
	start := time.Now()
	err = f.each(ctx, connections, func(ctx context.Context, worker int) error {
		for time.Since(start) < opts.Duration {
			if err := f.batch(ctx, opts.Batch); err != nil {
				return err
			}
			runs[worker] += opts.Batch
		}
		return nil
	})
	m := Measured{Connections: connections, Elapsed: time.Since(start)}
	for _, n := range runs {
		m.Runs += n
	}
	m.RunsPerSecond = float64(m.Runs) / m.Elapsed.Seconds()
	return m, err
}

// each runs work once for each connection, at the same time.
func (f *flow) each(ctx context.Context, connections int, work func(ctx context.Context, worker int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for worker := range connections {
		group.Go(func() error { return work(ctx, worker) })
	}
	return group.Wait()
}
