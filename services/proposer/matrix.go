package proposer

import (
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// class is what one call came to.
type class string

const (
	answered class = "answered" // with a valid proposal; what it means is for policy and people to judge, never retried
	notSent  class = "not_sent" // certainly not asked: DNS, refused, TLS, no credential
	busy     class = "busy"     // 429, 503, 529
	unclear  class = "unclear"  // asked, and no whole answer: timeout, reset, other 5xx, a truncated or unreadable body
	invalid  class = "invalid"  // prose, wrong shape, cut off at the limit, empty, or a tool call
	refused  class = "refused"  // other statuses, redirects, context too long
	declined class = "declined" // the model or a filter of its provider refused the content
)

// How the author is asked again.
type manner int

const (
	never    manner = iota
	same            // the same request, after a wait
	repaired        // with the answer and what is wrong with it, at once (M3)
)

// row is what follows from a class: how the author is asked again, how often at most for one run under one lease, and
// what becomes of the run when that is used up or when no further call fits into its time and tokens (M4).
type row struct {
	again manner
	bound int
	then  client.Failure
}

// matrix is the failure matrix of the model step. All bounds together are the most calls that a run can cause under one
// lease: the first, 3 + 3 + 1 more, and up to 3 repairs.
var matrix = map[class]row{
	notSent:  {same, 3, client.Failure{Retryable: true, Class: contracts.FailedNotSent}},
	busy:     {same, 3, client.Failure{Retryable: true, Class: contracts.FailedBusy}},
	unclear:  {same, 1, client.Failure{Retryable: true, Class: contracts.FailedTimeout}},
	invalid:  {repaired, declaredRepairs, client.Failure{Invalid: true, Class: contracts.FailedInvalidOutput}},
	refused:  {never, 0, client.Failure{Class: contracts.FailedRefused}},
	declined: {never, 0, client.Failure{Class: contracts.FailedRefused}},
}

// agentMatrix is the same for an agent. Once it may have begun, its tools may have done something, so it is never asked
// again: not for a repair, and not by another worker, which is why nothing unclear is given back (M4).
var agentMatrix = map[class]row{
	notSent: matrix[notSent],
	busy:    matrix[busy],
	unclear: {never, 0, client.Failure{Class: contracts.FailedTimeout}},
	invalid: {never, 0, client.Failure{Invalid: true, Class: contracts.FailedInvalidOutput}},
	refused: matrix[refused],
}

// declaredRepairs is the bound that the source's declaration says (config.Proposer.Repair).
const declaredRepairs = -1

// The wait before the same request is made again is a random time below min(longestPause, firstPause·2ⁿ⁻¹): up to 1s, 2s,
// 4s. It is meant for a hiccup; a longer outage is waited out by the run, which gives its lease back. What an endpoint
// asks for in Retry-After is waited for here where a call still fits behind it, and by the run otherwise, up to
// longestRetryAfter.
const (
	firstPause        = time.Second
	longestPause      = 8 * time.Second
	longestRetryAfter = 15 * time.Minute
)

// newWaits makes a backoff for every class after which the same request is made again. No wait ends so late that no call
// fits behind it.
func newWaits(rows map[class]row, l limits) (map[class]*outcome.Backoff, error) {
	waits := map[class]*outcome.Backoff{}
	for c, rule := range rows {
		if rule.again != same {
			continue
		}
		b, err := outcome.NewBackoff(outcome.BackoffConfig{MaxRetryAfter: longestRetryAfter, Declared: config.Backoff{
			Base: firstPause, Cap: longestPause, Attempts: rule.bound + 1, Total: l.total - l.timeout + 1,
		}})
		if err != nil {
			return nil, err
		}
		waits[c] = b
	}
	return waits, nil
}
