package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// reply is what a caller is told, on whatever door (K14).
type reply struct {
	status      int    // as HTTP has them
	contentType string // of body
	body        any    // a *contracts.Answer or *contracts.Problem
	result      string // of the answer, or the problem's code; counted
	location    string // where the run can be looked at, "" where there is none
	replayed    bool   // it tells of an event that was handed in before
	retryAfter  string // in whole seconds; "" says nothing
}

// busySeconds is how long a caller waits when nothing could be stored: an outage of less than a second is not seen at
// all.
const busySeconds = "1"

// newProblem is a problem whose detail is not longer than a person wants to read.
func newProblem(code, detail string) *contracts.Problem {
	return contracts.NewProblem(code, clip(detail))
}

func newProblemf(code, format string, args ...any) *contracts.Problem {
	return newProblem(code, fmt.Sprintf(format, args...))
}

func refuse(p *contracts.Problem) reply {
	r := reply{status: p.Status, contentType: contracts.ProblemContentType, body: p, result: p.Code}
	if p.Status == http.StatusServiceUnavailable {
		r.retryAfter = busySeconds
	}
	return r
}

func tell(status int, a *contracts.Answer) reply {
	return reply{status: status, contentType: plainJSON, body: a, result: a.Result, location: a.StatusURL}
}

// encode writes the body.
func (r *reply) encode() []byte {
	data, err := json.Marshal(r.body)
	if err != nil {
		panic(err) // both kinds of bodies are strings, numbers and times
	}
	return data
}

// abandoned is counted where the caller went away before the answer. What it asked for is done all the same.
const abandoned = "abandoned"

// claimed is what a caller is told of a claim, or of a call under its lease. owner is the caller's, and sees its lease.
func (in *Intake) claimed(ctx context.Context, c ledger.Claimed, err error, owner uuid.UUID) reply {
	if err == nil {
		err = c.Err
	}
	if err != nil {
		return in.failure(err)
	}
	run := &c.Run
	switch c.Result {
	case contracts.ResultPayloadMismatch:
		in.env.Log.Warn("a key came again with another payload; nothing ran", "tenant", run.TenantID, "run", run.RunID,
			"key", run.Key)
		return refuse(aboutRun(run, contracts.CodePayloadMismatch,
			"This key belongs to another payload. If this is another event, give it a key of its own."))
	case contracts.ResultOwnershipLost:
		return refuse(aboutRun(run, contracts.CodeOwnershipLost,
			"Stop working on this run: another worker may own it, or it has moved on. "+
				"To work on it again, claim it as another owner."))
	}
	if c.TookOver {
		in.tookOver(ctx, run)
	}
	status := http.StatusAccepted
	if c.Result == contracts.ResultDuplicateWithResult {
		status = http.StatusOK
	}
	r := tell(status, in.describe(run, c.Result, owner))
	r.replayed = c.Result != contracts.ResultAccepted
	return r
}

func aboutRun(run *ledger.Run, code, detail string) *contracts.Problem {
	p := newProblem(code, detail)
	p.RunID = run.RunID.String()
	return p
}

// describe writes a run as callers see it.
func (in *Intake) describe(run *ledger.Run, result string, owner uuid.UUID) *contracts.Answer {
	id := run.RunID.String()
	a := &contracts.Answer{Result: result, RunID: id, IdempotencyKey: run.Key, State: run.State, Outcome: run.Outcome,
		Reason:    run.OutcomeReason,
		StatusURL: in.settings.PublicURL + "/v1/runs/" + id}
	if owner != uuid.Nil && run.LeaseOwner == owner {
		a.Lease = &contracts.Lease{Owner: owner.String(), Version: run.Version, ExpiresAt: run.LeaseExpiresAt(),
			RemainingMS: run.LeaseLeft().Milliseconds()}
	}
	for _, e := range run.Effects {
		a.Effects = append(a.Effects, contracts.Effect{OperationID: e.OperationID, State: e.State,
			ExternalID: e.ExternalID})
	}
	return a
}

// statusOf is the result that a duplicate would be answered with now.
func statusOf(run *ledger.Run) string {
	switch {
	case run.Unknown():
		return contracts.ResultOutcomeUnknown
	case run.Ended():
		return contracts.ResultDuplicateWithResult
	}
	return contracts.ResultDuplicate
}

// failure tells an outage, after which the same call may be made again, from a fault of this item.
func (in *Intake) failure(err error) reply {
	switch {
	case errors.Is(err, ledger.ErrNoSuchRun):
		return refuse(newProblem(contracts.CodeNotFound, ""))
	case errors.Is(err, ledger.ErrNoOriginal), errors.Is(err, ledger.ErrOriginalOpen):
		return refuse(uncorrectable(err))
	case errors.Is(err, context.Canceled):
		r := refuse(newProblem(contracts.CodeInternal, "The caller went away."))
		r.result = abandoned
		return r
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded),
		errors.Is(err, ledger.ErrStaleRules):
		in.env.Log.Warn("a request could not be stored now", "error", err)
		return refuse(newProblem(contracts.CodeUnavailable, "Send it again with the same key."))
	}
	in.env.Log.Error("a request could not be stored", "error", err)
	return refuse(newProblem(contracts.CodeInternal,
		"Send it again with the same key; if it goes on, tell the operator."))
}

// leaseHint is when the run may be free, where another worker has it: never later than the lease ends (INT-03).
func leaseHint(run *ledger.Run, owner uuid.UUID) string {
	left := run.LeaseLeft()
	if left <= 0 || run.LeaseOwner == owner {
		return ""
	}
	return strconv.Itoa(int(left / time.Second))
}

// uncorrectable says why a correction could not be taken (K10).
func uncorrectable(err error) *contracts.Problem {
	if errors.Is(err, ledger.ErrOriginalOpen) {
		return newProblem(contracts.CodeOriginalOpen, "Nobody can say yet what has to be corrected. Wait until that run has ended, "+
			"or take it back, then send the correction again.")
	}
	return newProblem(contracts.CodeNoOriginal, "The correction names a key under which nothing was ever handed in.")
}
