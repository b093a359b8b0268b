package intake

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// maxRetryAfter bounds what a worker may ask its run to wait, in seconds.
const maxRetryAfter = 3600

var failureClasses = []string{contracts.FailedNotSent, contracts.FailedBusy, contracts.FailedTimeout,
	contracts.FailedInvalidOutput, contracts.FailedRefused, contracts.FailedInternal}

// fail reads how a worker gives its run back. A retryable failure waits for its turn, and when the source's attempts are used
// up it is the last one (M4).
func (c *workerCall) fail(o *ledger.Owned) *contracts.Problem {
	retryable, _ := c.body.Get("retryable")
	reason := textOf(c.body, "reason")
	invalid, given := c.body.Get("invalid")
	if retryable.Kind() != canonical.Bool || reason == "" || len(reason) > maxReasonBytes ||
		given && invalid.Kind() != canonical.Bool {
		return newProblemf(contracts.CodeSchemaInvalid,
			`Say "retryable": true or false, and a "reason" of 1 to %d bytes; "invalid" is true or false, or left out.`,
			maxReasonBytes)
	}
	class, given := c.body.Get("class")
	if given && (class.Kind() != canonical.String || !slices.Contains(failureClasses, class.Text())) {
		return newProblemf(contracts.CodeSchemaInvalid, `"class" must be one of %v, or left out.`, failureClasses)
	}
	wait, problem := c.retryAfter()
	if problem != nil {
		return problem
	}
	o.Fail = &ledger.Failure{Retryable: retryable.True(), Invalid: invalid.True(), Reason: reason,
		Class: textOf(c.body, "class"), RetryAfter: wait}
	if o.Fail.Retryable && c.run.Attempts >= c.source.Attempts {
		o.Fail.Retryable = false
		o.Fail.Reason += " (the last of " + strconv.Itoa(c.source.Attempts) + " attempts" + ")"
	}
	return nil
}

// retryAfter is how long the run waits for its next worker: as long as its attempts say, or longer where the worker asks.
func (c *workerCall) retryAfter() (time.Duration, *contracts.Problem) {
	backoff := ledger.Backoff(c.run.Attempts)
	asked, given := c.body.Get("retry_after_seconds")
	if !given {
		return backoff, nil
	}
	seconds, whole := asked.Int64()
	if !whole || seconds < 1 || seconds > maxRetryAfter {
		return 0, newProblemf(contracts.CodeSchemaInvalid, `"retry_after_seconds" must be a number from 1 to %d.`,
			maxRetryAfter)
	}
	return max(backoff, time.Duration(seconds)*time.Second), nil
}
