package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// ErrOwnershipLost says that the run is no longer this process's, or may soon not be: stop working on it and drop the
// result. It is the cause of a task's ended Context, and errors of its methods.
var ErrOwnershipLost = errors.New("ownership of the run is lost")

// lost marks a refusal that means lost ownership.
func lost(err error) error {
	var problem *contracts.Problem
	if errors.As(err, &problem) && problem.Code == contracts.CodeOwnershipLost {
		return fmt.Errorf("%w: %w", ErrOwnershipLost, err)
	}
	return err
}

// term is a lease as this process may count on it. Only the server's clock says when a lease ends, and this process's
// may be wrong by any amount. So what is left of the lease is taken from the answer alone, as it says by the database's
// clock, and counted on the monotonic clock from before the request was sent: the answer was written later than that, so
// the count ends earlier than the lease (STO-06). An older server does not say it; then it is the time between the
// answer's Date and the lease's end, less a second.
//
//	lease of 30 s    the count    why
//	renew            at 10 s      a third of it
//	renew again      until 25 s   about three attempts of at most 5 s each
//	stop             at 25 s      a sixth before its end, at most 5 s: the caller's work needs time to stop
//	the lease ends   at 30 s      at the earliest
//
// A process that is frozen as a whole cannot
// see time pass; what it sends after it wakes up is refused by the lease's version.
type term struct {
	lease  contracts.Lease
	from   time.Time
	length time.Duration
}

const (
	dateGrain     = time.Second
	longestMargin = 5 * time.Second
)

func newTerm(lease *contracts.Lease, r *reply) (term, error) {
	if lease == nil {
		return term{}, errors.New("the answer has no lease")
	}
	if left := time.Duration(lease.RemainingMS) * time.Millisecond; left > 0 {
		return term{*lease, r.sentAt, left}, nil
	}
	if r.date.IsZero() {
		return term{}, errors.New("the answer has no Date header, so how long the lease lasts cannot be known; " +
			"a proxy must not remove it")
	}
	return term{*lease, r.sentAt, lease.ExpiresAt.Sub(r.date) - dateGrain}, nil
}

func (t *term) renewAt() time.Time    { return t.from.Add(t.length / 3) }
func (t *term) margin() time.Duration { return min(max(t.length/6, 0), longestMargin) }
func (t *term) stopAt() time.Time     { return t.from.Add(t.length - t.margin()) }
