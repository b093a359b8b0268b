package intake

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// headerOwner is where a worker may name the owner of the lease that it claims, so that it can ask again after a lost
// answer.
const headerOwner = "Holdpoint-Owner"

// source finds a source, or says that there is none.
func (t *tenant) source(name string) (*source, *contracts.Problem) {
	if s := t.sources[name]; s != nil {
		return s, nil
	}
	return nil, newProblemf(contracts.CodeUnknownSource, "No source is called %q.", name)
}

// event takes an event in: 202 where its run has yet to end, 200 with the result where it has.
func (in *Intake) event(ctx context.Context, t *tenant, s *source, d *delivery) reply {
	claim, problem := t.admit(s, d)
	if problem != nil {
		return refuse(problem)
	}
	claimed, err := in.claims.Do(ctx, claim)
	return in.claimed(ctx, claimed, err, uuid.Nil)
}

// claim takes an event in and gives its run to the caller under a lease, unless another worker has it.
func (in *Intake) claim(ctx context.Context, t *tenant, s *source, d *delivery) reply {
	if s.Mode != config.ModeWorker {
		return refuse(newProblem(contracts.CodeForbidden,
			"This source's events carry their proposals; post them as events."))
	}
	owner, problem := newOwner(d)
	if problem != nil {
		return refuse(problem)
	}
	claim, problem := t.admit(s, d)
	if problem != nil {
		return refuse(problem)
	}
	claim.Lease = &ledger.LeaseTerms{Owner: owner, Duration: s.Lease.Duration, MaxLifetime: s.Lease.MaxLifetime}
	claimed, err := in.claims.Do(ctx, claim)
	r := in.claimed(ctx, claimed, err, owner)
	if r.retryAfter == "" {
		r.retryAfter = leaseHint(&claimed.Run, owner)
	}
	return r
}

// newOwner is the owner that the caller names, or a random one.
func newOwner(d *delivery) (uuid.UUID, *contracts.Problem) {
	text, times := d.headers.one(headerOwner)
	if times == 0 {
		return uuid.New(), nil
	}
	owner, err := uuid.Parse(text)
	if err != nil || owner == uuid.Nil {
		return uuid.Nil, newProblem(contracts.CodeMalformed,
			"Holdpoint-Owner must be a random UUID, new for every execution.")
	}
	return owner, nil
}

// get tells where a run stands.
func (in *Intake) get(ctx context.Context, t *tenant, id uuid.UUID) reply {
	run, err := in.runs.Do(ctx, runName{t.ID, id})
	switch {
	case err != nil:
		return in.failure(err)
	case run == nil:
		return refuse(newProblem(contracts.CodeNotFound, ""))
	}
	return tell(http.StatusOK, in.describe(run, statusOf(run), uuid.Nil))
}

// runName names a run to look at.
type runName struct {
	tenant string
	id     uuid.UUID
}

// readRuns looks at many runs for many callers at once. A run that does not exist is nil.
func (in *Intake) readRuns(ctx context.Context, names []runName) ([]*ledger.Run, error) {
	ids := map[string][]uuid.UUID{}
	for _, n := range names {
		ids[n.tenant] = append(ids[n.tenant], n.id)
	}
	found := make(map[runName]*ledger.Run, len(names))
	for tenant, ids := range ids {
		runs, err := in.env.Ledger.Runs(ctx, tenant, ids...)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			found[runName{tenant, runs[i].RunID}] = &runs[i]
		}
	}
	out := make([]*ledger.Run, len(names))
	for i, n := range names {
		out[i] = found[n]
	}
	return out, nil
}
