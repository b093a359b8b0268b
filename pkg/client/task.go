package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// Task is a run under this process's lease, which is renewed until Submit, Fail or Close ends it, until its cap (K7),
// or until the context of Claim or Take ends.
type Task struct {
	// Run is the run as it was given: RunID, IdempotencyKey, State.
	Run contracts.Answer
	// Attempt counts from 1 how often the run was given to a worker. It is 0 where the run was claimed.
	Attempt int
	// Event is what the run is about.
	Event contracts.WorkEvent
	// SentBack is why an earlier proposal was sent back, and what it was; nil where none was.
	SentBack *contracts.SentBack

	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	// turn holds one token: every call under the lease carries its version and may change it, so they are made one
	// after the other, each to its end.
	turn  chan struct{}
	term  term
	doubt bool        // a Submit or Fail may have been stored without an answer
	stop  *time.Timer // ends ctx before the lease ends
}

// own makes a task of a lease. One whose answer was long on its way is renewed first, so that nobody begins to work
// under the last seconds of a lease.
func (c *Client) own(ctx context.Context, item contracts.WorkItem, r *reply) (*Task, error) {
	now, err := newTerm(item.Run.Lease, r)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", item.Run.RunID, err)
	}
	t := &Task{Run: item.Run, Attempt: item.Attempt, Event: item.Event, SentBack: item.SentBack, client: c, turn: make(chan struct{}, 1), term: now}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	next := now.renewAt()
	if time.Now().Before(next) {
		t.stop = time.AfterFunc(time.Until(now.stopAt()), t.tooLate)
	} else {
		// Nobody works under it yet, so there is time for one more attempt, even if the lease may have ended.
		t.stop = time.AfterFunc(max(now.length, c.config.AttemptTimeout), t.tooLate)
		if _, err = t.renew(); err != nil {
			t.stop.Stop()
			t.Close()
			return nil, err
		}
		next = t.term.renewAt()
	}
	go t.keep(next)
	return t, nil
}

// Context ends when the task does. Its cause (context.Cause) Is ErrOwnershipLost where the lease is lost, or has so
// little left that it may be.
func (t *Task) Context() context.Context { return t.ctx }

// Close stops renewing the lease, which then runs out by itself. It tells the server nothing; Fail gives the run back
// at once. A task that was submitted or given back needs no Close, and another does no harm.
func (t *Task) Close() { t.cancel(nil) }

// tooLate ends the task before the lease can end.
func (t *Task) tooLate() {
	t.cancel(fmt.Errorf("%w: the lease of run %s could not be renewed in time", ErrOwnershipLost, t.Run.RunID))
}

// keep renews the lease until the task ends. A zero time means that it cannot be renewed any more.
func (t *Task) keep(next time.Time) {
	defer t.stop.Stop()
	for !next.IsZero() && sleep(t.ctx, time.Until(next)) {
		var err error
		if next, err = t.renew(); err != nil {
			return
		}
	}
	<-t.ctx.Done()
}

// renew lengthens the lease and says when to do it again: never, where it is at its cap. Where it cannot, the task has
// ended.
func (t *Task) renew() (next time.Time, err error) {
	if err := t.begin(t.ctx); err != nil {
		return next, err
	}
	defer t.done()
	shown := contracts.Renewal{Owner: t.term.lease.Owner, Version: t.term.lease.Version}
	answer, r, err := t.under(t.ctx, "renewal", shown)
	if err != nil {
		return next, t.refused(err)
	}
	now, err := newTerm(answer.Lease, r)
	if err != nil {
		return next, t.refused(err)
	}
	longer := now.lease.ExpiresAt.After(t.term.lease.ExpiresAt)
	t.term = now
	t.stop.Reset(time.Until(now.stopAt()))
	if longer {
		next = now.renewAt()
	}
	return next, nil
}

// refused ends the task after a renewal that will not be had.
func (t *Task) refused(err error) error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if !errors.Is(err, ErrOwnershipLost) {
		err = fmt.Errorf("%w: the lease of run %s could not be renewed: %w", ErrOwnershipLost, t.Run.RunID, err)
	}
	t.cancel(err)
	return err
}

// begin waits for the turn to make a call under the lease.
func (t *Task) begin(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		t.done()
		return context.Cause(ctx)
	}
	return nil
}

func (t *Task) done() { <-t.turn }

// under makes a call under the lease. Its attempts are short: a renewal that hangs must leave time for another one.
func (t *Task) under(ctx context.Context, what string, body any) (*contracts.Answer, *reply, error) {
	data, err := encode(body)
	if err != nil {
		return nil, nil, err
	}
	k := &call{method: http.MethodPost, path: "/v1/runs/" + url.PathEscape(t.Run.RunID) + "/" + what, header: jsonHeader(),
		body: data, into: new(contracts.Answer)}
	if margin := t.term.margin(); what == "renewal" && margin > 0 {
		k.timeout = min(margin, t.client.config.AttemptTimeout)
	}
	r, err := t.client.do(ctx, k)
	if err != nil {
		return nil, nil, lost(err)
	}
	return k.into.(*contracts.Answer), r, nil
}
