package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// WorkConfig is how Work works. Handle must be set.
type WorkConfig struct {
	// Handle makes the proposal of one run. Its context is the task's: when it ends, stop, and return any error. A
	// *Failure among the errors is what the server is told; of any other it learns only that the handler failed,
	// because errors may hold secrets. Handle may be called by Concurrency goroutines at once.
	Handle func(ctx context.Context, t *Task) (contracts.Proposal, error)
	// Concurrency is how many runs are worked on at once, 1 to 100. Default 1.
	Concurrency int
	// Wait is how long one request waits for work, at most 30 s. Default 20 s.
	Wait time.Duration
	// Drain is how long handlers may go on when Work is asked to stop. Default 30 s.
	Drain time.Duration
	// Report is told of every run that was not submitted, and why; nil tells nobody.
	Report func(t *Task, err error)
}

func (c WorkConfig) validate() error {
	var complaints []error
	if c.Handle == nil {
		complaints = append(complaints, errors.New("there is no Handle"))
	}
	if c.Concurrency < 1 || c.Concurrency > maxTake {
		complaints = append(complaints, fmt.Errorf("the Concurrency is %d; it must be 1 to %d", c.Concurrency, maxTake))
	}
	if c.Wait < 0 || c.Wait > longestTake || c.Drain < 0 {
		complaints = append(complaints, fmt.Errorf("the Wait must be at most %s, and the Drain not negative", longestTake))
	}
	return errors.Join(complaints...)
}

// finishWithin is how long a result is offered when its handler is done: longer than a restart of the server takes.
const finishWithin = time.Minute

// errDrained ends the handlers that were still at work when the time to drain was over.
var errDrained = errors.New("the worker stops, and the time to finish is over")

// worker is one call of Work.
type worker struct {
	WorkConfig
	client *Client
	source string
	slots  chan struct{}   // one token for each run at work
	life   context.Context // of the tasks; it outlives the call's own by Drain
	tasks  sync.WaitGroup
}

// Work takes runs of a source and handles them until ctx ends; then it takes no more, lets handlers finish, gives back
// what they could not, and returns nil. It returns an error where the server refuses to give work at all, such as for a
// key without the scope work; an outage is waited out.
func (c *Client) Work(ctx context.Context, source string, config WorkConfig) error {
	config.Concurrency = cmp.Or(config.Concurrency, 1)
	config.Wait = cmp.Or(config.Wait, 20*time.Second)
	config.Drain = cmp.Or(config.Drain, 30*time.Second)
	if err := config.validate(); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	w := &worker{WorkConfig: config, client: c, source: source, slots: make(chan struct{}, config.Concurrency), life: life}
	err := w.loop(ctx)
	w.drain(end)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loop takes as many runs as there are free slots, again and again.
func (w *worker) loop(ctx context.Context) error {
	for {
		free := w.reserve(ctx)
		if free == 0 {
			return nil
		}
		asked := time.Now()
		tasks, err := w.client.take(ctx, w.life, w.source, free, w.Wait)
		w.release(free - len(tasks))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			w.tasks.Go(func() {
				defer w.release(1)
				w.handle(t)
			})
		}
		if len(tasks) == 0 && !unhurried(ctx, asked) {
			return nil
		}
	}
}

// reserve waits for a free slot and takes all that are free. It takes none when ctx has ended.
func (w *worker) reserve(ctx context.Context) (free int) {
	select {
	case w.slots <- struct{}{}:
		free++
	case <-ctx.Done():
		return 0
	}
	for {
		select {
		case w.slots <- struct{}{}:
			free++
		default:
			return free
		}
	}
}

func (w *worker) release(n int) {
	for range n {
		<-w.slots
	}
}

// drain waits for the handlers, and tells them to stop when their time is over.
func (w *worker) drain(end context.CancelCauseFunc) {
	timer := time.AfterFunc(w.Drain, func() { end(errDrained) })
	defer timer.Stop()
	w.tasks.Wait()
}

// handle brings one run to its end, or gives it back.
func (w *worker) handle(t *Task) {
	defer t.Close()
	proposal, err := w.propose(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.life), finishWithin)
	defer cancel()
	if err != nil {
		w.giveBack(ctx, t, err, asFailure(err))
		return
	}
	if _, err = t.Submit(ctx, proposal); err != nil {
		w.giveBack(ctx, t, err, asRefused(err))
	}
}

// propose calls the handler. One that panics has failed, and takes no other down with it.
func (w *worker) propose(t *Task) (p contracts.Proposal, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler panicked: %v", r)
		}
	}()
	return w.Handle(t.Context(), t)
}

// giveBack tells the server of a failure, where there is one to tell, and whoever watches of everything.
func (w *worker) giveBack(ctx context.Context, t *Task, err error, f *Failure) {
	if f != nil {
		_, refused := t.Fail(ctx, *f)
		err = errors.Join(err, refused)
	}
	if w.Report != nil {
		w.Report(t, err)
	}
}

// asFailure is what the server is told of a handler's error.
func asFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Retryable: true, Class: contracts.FailedInternal, Reason: "The worker's handler failed."}
}

// asRefused is what the server is told where it did not take the proposal; nil where there is nothing to tell:
// ownership is lost, or nobody answers.
func asRefused(err error) *Failure {
	if errors.Is(err, ErrOwnershipLost) || errors.Is(err, ErrUnanswered) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	var problem *contracts.Problem
	if !errors.As(err, &problem) {
		return &Failure{Invalid: true, Class: contracts.FailedInvalidOutput, Reason: "The worker's proposal is no JSON."}
	}
	switch problem.Code {
	case contracts.CodeSchemaInvalid, contracts.CodeMalformed, contracts.CodeTooLarge:
		return &Failure{Invalid: true, Class: contracts.FailedInvalidOutput, Reason: problem.Error()}
	}
	return &Failure{Retryable: true, Class: contracts.FailedInternal, Reason: problem.Error()}
}
