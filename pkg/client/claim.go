package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
)

// Bounds of what Take asks for.
const (
	maxTake     = 100
	longestTake = 30 * time.Second
)

// TakenError is the answer to a claim that gave no lease: another worker has the run, or it needs none any more.
type TakenError struct {
	Answer *contracts.Answer
	// RetryAfter is when the other worker's lease may end, 0 where there is none to wait for.
	RetryAfter time.Duration
}

// Error says where the run stands.
func (e *TakenError) Error() string {
	return fmt.Sprintf("the run of key %q is not to be had: %s, state %s %s", e.Answer.IdempotencyKey, e.Answer.Result,
		e.Answer.State, e.Answer.Outcome)
}

// Claim hands an event in and takes its run, or a *TakenError where that is not to be had. ctx bounds the call, and
// then the task: its Context ends with it. Needs the scope work.
func (c *Client) Claim(ctx context.Context, source string, e Event) (*Task, error) {
	answer := new(contracts.Answer)
	k := &call{method: http.MethodPost, path: sourcePath(source, "claims"), header: e.header(), body: e.Body, into: answer}
	k.header.Set("Holdpoint-Owner", uuid.NewString()) // the same on every attempt, so that a lost lease is given again
	r, err := c.do(ctx, k)
	if err != nil {
		return nil, lost(err)
	}
	if answer.Lease == nil {
		return nil, &TakenError{answer, c.retryAfter(r.header)}
	}
	event := contracts.WorkEvent{ContentType: k.header.Get("Content-Type"), Headers: shown(e.Headers), Body: e.Body}
	return c.own(ctx, contracts.WorkItem{Run: *answer, Event: event}, r)
}

// shown are headers as a worker sees them: names in lower case, several values as one list.
func shown(h http.Header) map[string]string {
	all := make(map[string]string, len(h))
	for name, values := range h {
		all[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return all
}

// Take takes up to most runs of a source that wait for a worker, at most 100, and waits up to wait for the first one,
// at most 30 s. It returns none where nothing waits. ctx bounds the call, and then the tasks. Needs the scope work.
func (c *Client) Take(ctx context.Context, source string, most int, wait time.Duration) ([]*Task, error) {
	return c.take(ctx, ctx, source, most, wait)
}

// take is Take with tasks that may outlive the call.
func (c *Client) take(ctx, life context.Context, source string, most int, wait time.Duration) ([]*Task, error) {
	hold := min(max(wait, 0), longestTake).Truncate(time.Second)
	body, err := encode(contracts.WorkRequest{Owner: uuid.NewString(), Max: min(max(most, 1), maxTake),
		WaitSeconds: int(hold / time.Second)})
	if err != nil {
		return nil, err
	}
	var given contracts.Work
	r, err := c.do(ctx, &call{method: http.MethodPost, path: sourcePath(source, "work"), header: jsonHeader(), body: body,
		into: &given, limit: maxWorkBytes, hold: hold})
	if err != nil {
		return nil, err
	}
	return c.ownAll(life, given.Work, r)
}

// ownAll makes tasks of what was given. A run that was lost meanwhile is left to whoever has it now.
func (c *Client) ownAll(life context.Context, items []contracts.WorkItem, r *reply) ([]*Task, error) {
	tasks, errs := make([]*Task, len(items)), make([]error, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { tasks[i], errs[i] = c.own(life, item, r) })
	}
	all.Wait()
	var owned []*Task
	for i, task := range tasks {
		if task != nil {
			owned = append(owned, task)
		}
		if errors.Is(errs[i], ErrOwnershipLost) {
			errs[i] = nil
		}
	}
	if err := errors.Join(errs...); len(owned) == 0 && err != nil {
		return nil, err
	}
	return owned, nil
}
