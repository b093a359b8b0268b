package dispatcher

import (
	"context"
	"errors"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/connector"
)

// errLate means that the call does not wait for a receipt any more.
var errLate = errors.New("the call is over")

// report takes a receipt. It is errLate where nothing waits for it any more, and a problem where it is not the sender's to
// report.
func (c *call) report(t token, r connector.Receipt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.result != nil && c.result.Class == r.Status && c.result.ExternalID == r.ExternalID:
		return nil // again, while it is being stored
	case c.result != nil:
		return otherOutcome(string(c.result.Class))
	case c.state == over:
		return errLate
	case c.state == offered && t.leave == "":
		c.state = over
	case c.state == granted && t.leave == c.leave:
	default:
		return contracts.NewProblem(contracts.CodeForbidden,
			"Leave was given to another. Only who has it reports, with the token that came with it.")
	}
	result := r.Result(t.leave != "")
	c.result = &result
	close(c.reported)
	return nil
}

func otherOutcome(class string) error {
	return contracts.NewProblem(contracts.CodeOwnershipLost,
		"Another outcome of this attempt is recorded and stands: "+class+". Tell an operator if it is wrong.")
}

// finish tells those who wait for it that the outcome was stored, or why not.
func (c *call) finish(err error) {
	c.err = err
	close(c.recorded)
}

// stored waits until the outcome is.
func (c *call) stored(ctx context.Context) error {
	select {
	case <-c.recorded:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
