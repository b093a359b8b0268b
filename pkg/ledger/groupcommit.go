package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// GroupConfig says how single calls are gathered.
type GroupConfig[In, Out any] struct {
	Run     func(ctx context.Context, items []In) ([]Out, error) // one command for a whole batch, results in order
	Max     int                                                  // items in a batch; default 256
	Workers int                                                  // batches at the same time; default 2
	Queue   int                                                  // callers that may wait; default 4096
}

// ErrOverloaded means that as many callers wait as may: try again later, nothing was done.
var ErrOverloaded = errors.New("too many requests are waiting for the ledger")

// Group turns concurrent single calls into batches. There is no timer: while all workers are at work, callers gather; a caller
// that comes to an idle worker starts at once. So one caller waits for nothing, and many share a commit.
type Group[In, Out any] struct {
	config  GroupConfig[In, Out]
	calls   chan call[In, Out]
	workers sync.WaitGroup
	closed  chan struct{}
	once    sync.Once
	entry   sync.RWMutex // held by Close while it closes, so that no call can be queued behind the last worker's back
}

type call[In, Out any] struct {
	in  In
	out chan result[Out]
}

type result[Out any] struct {
	out Out
	err error
}

// NewGroup starts the workers. Close it when no more calls come.
func NewGroup[In, Out any](cfg GroupConfig[In, Out]) *Group[In, Out] {
	if cfg.Max == 0 {
		cfg.Max = 256
	}
	if cfg.Workers == 0 {
		cfg.Workers = 2
	}
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	g := &Group[In, Out]{config: cfg, calls: make(chan call[In, Out], cfg.Queue), closed: make(chan struct{})}
	for range cfg.Workers {
		g.workers.Add(1)
		go g.work()
	}
	return g
}

// Do puts one item into a batch and waits for its own result. A caller whose context ends stops waiting; its item is done all
// the same, as a request whose client went away would be.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (out Out, err error) {
	c := call[In, Out]{in: in, out: make(chan result[Out], 1)}
	if err := g.enter(c); err != nil {
		return out, err
	}
	select {
	case r := <-c.out:
		return r.out, r.err
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

func (g *Group[In, Out]) enter(c call[In, Out]) error {
	g.entry.RLock()
	defer g.entry.RUnlock()
	select {
	case <-g.closed:
		return fmt.Errorf("%w: shutting down", ErrOverloaded)
	default:
	}
	select {
	case g.calls <- c:
		return nil
	default:
		return ErrOverloaded
	}
}

// Waiting is how many callers wait for a batch.
func (g *Group[In, Out]) Waiting() int { return len(g.calls) }

// Close lets the workers finish what waits and ends them. A later Do is told that the group shuts down.
func (g *Group[In, Out]) Close() {
	g.once.Do(func() {
		g.entry.Lock()
		defer g.entry.Unlock()
		close(g.closed)
	})
	g.workers.Wait()
}

func (g *Group[In, Out]) work() {
	defer g.workers.Done()
	batch := make([]call[In, Out], 0, g.config.Max)
	for {
		select {
		case c := <-g.calls:
			batch = g.gather(append(batch[:0], c))
		case <-g.closed:
			if batch = g.gather(batch[:0]); len(batch) == 0 {
				return
			}
		}
		g.run(batch)
	}
}

// gather takes what waits already, up to the maximum.
func (g *Group[In, Out]) gather(batch []call[In, Out]) []call[In, Out] {
	for len(batch) < g.config.Max {
		select {
		case c := <-g.calls:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

func (g *Group[In, Out]) run(batch []call[In, Out]) {
	items := column(batch, func(c call[In, Out]) In { return c.in })
	out, err := g.config.Run(context.Background(), items)
	if err == nil && len(out) != len(items) {
		err = fmt.Errorf("%d results for %d items", len(out), len(items))
	}
	for i, c := range batch {
		if err != nil {
			c.out <- result[Out]{err: err}
		} else {
			c.out <- result[Out]{out: out[i]}
		}
	}
}
