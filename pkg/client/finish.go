package client

import (
	"cmp"
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/contracts"
)

// Failure is why a worker gives a run back. A handler of Work may return one as its error.
type Failure struct {
	// Retryable lets the run wait and come again, until its source's attempts are used up; else it ends.
	Retryable bool
	// Invalid says that no valid proposal could be made; it goes with a failure that is not retryable (M3).
	Invalid bool
	// Class is one of contracts.Failed…, or empty.
	Class string
	// Reason is for people, and is stored: no secrets, no host names (M5). What is over 2000 bytes is cut.
	Reason string
	// RetryAfter is how long at least the run waits, in whole seconds and at most an hour; 0 leaves it to the source.
	RetryAfter time.Duration
}

// Error is the reason.
func (f *Failure) Error() string { return cmp.Or(f.Reason, f.Class, "the worker gave the run back") }

// Bounds that the API has.
const (
	maxReasonBytes    = 2000
	longestRetryAfter = time.Hour
)

// Submit hands in the proposal, which ends the lease and the task. It may be repeated with the same proposal, for as
// long as it takes: where the first one was stored and its answer lost, the same answer comes again. Give it a ctx that
// outlives the lease, so that this can be found out. A proposal that does not fit (contracts.CodeSchemaInvalid, with
// the places in the problem's Errors) leaves the lease as it is.
func (t *Task) Submit(ctx context.Context, proposal contracts.Proposal) (*contracts.Answer, error) {
	return t.finish(ctx, "proposal", func(l contracts.Lease) any {
		return contracts.Submission{Owner: l.Owner, Version: l.Version, Proposal: proposal}
	})
}

// Fail gives the run back, or ends it, which ends the lease and the task. It may be repeated.
func (t *Task) Fail(ctx context.Context, f Failure) (*contracts.Answer, error) {
	after := min(max(f.RetryAfter, 0), longestRetryAfter)
	return t.finish(ctx, "failure", func(l contracts.Lease) any {
		return contracts.Failure{Owner: l.Owner, Version: l.Version, Retryable: f.Retryable, Invalid: f.Invalid,
			Class: f.Class, Reason: cut(f.Error(), maxReasonBytes),
			RetryAfterSeconds: int((after + time.Second - 1) / time.Second)}
	})
}

// finish makes the call that ends the lease. A renewal that is on its way is waited for: the call needs the version
// that it brings.
func (t *Task) finish(ctx context.Context, what string, body func(contracts.Lease) any) (*contracts.Answer, error) {
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	defer t.done()
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrOwnershipLost) && !t.doubt {
		return nil, cause // the result is dropped, and nobody acts on it
	}
	answer, _, err := t.under(ctx, what, body(t.term.lease))
	switch {
	case err == nil:
		t.Close()
	case errors.Is(err, ErrOwnershipLost):
		t.cancel(err)
	case errors.Is(err, ErrUnanswered):
		t.doubt = true
	}
	return answer, err
}

// cut shortens a text to so many bytes, between characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
