package intake

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Bounds of a worker's call, in bytes.
const (
	maxWorkerBytes = 1 << 20
	maxReasonBytes = 2000
)

// workerVerb is one thing that the owner of a lease can do with its run. The body is an object of owner, version, and
// members.
type workerVerb struct {
	name    string
	status  int
	members []string
	fill    func(*workerCall, *ledger.Owned) *contracts.Problem
}

// workerCall is a call under a lease, with the run that it is about.
type workerCall struct {
	tenant *tenant
	source *source
	body   canonical.Value
	run    *ledger.Run
	before []byte // the canonical intent that was sent back, nil where none was
}

// The worker's verbs. A submission is queued like an event (K11); the others are done when they are answered.
var (
	renewal = workerVerb{name: "renew", status: http.StatusOK, fill: (*workerCall).renew}
	// submission hands in the proposal and ends the lease (K6).
	submission = workerVerb{name: "submit", status: http.StatusAccepted, members: []string{"proposal"},
		fill: (*workerCall).submit}
	// giveUp gives the run back; "invalid": true says that no valid proposal could be made (M3).
	giveUp = workerVerb{name: "fail", status: http.StatusOK, members: []string{"retryable", "reason", "invalid", "class", "retry_after_seconds"},
		fill: (*workerCall).fail}
)

// renew lengthens the caller's lease, up to its cap (K7).
func (c *workerCall) renew(o *ledger.Owned) *contracts.Problem {
	o.Renew = c.source.Lease.Duration
	return nil
}

func (c *workerCall) submit(o *ledger.Owned) (problem *contracts.Problem) {
	proposal, ok := c.body.Get("proposal")
	if !ok {
		return invalid([]contracts.FieldError{{Pointer: "/proposal", Detail: "is missing"}}, "")
	}
	revision := max(c.run.IntentRevision, 1) // a submission that is repeated is the one that was made
	if c.run.ReviseBy != nil {
		revision++
	}
	o.Submit, problem = c.tenant.intent(config.NewDocument(proposal), c.source, "/proposal", c.run.Key, revision)
	if problem == nil && c.before != nil && intent.SameProposal(c.before, o.Submit.Canonical) {
		return newProblem(contracts.CodeSchemaInvalid, "This is the proposal that was sent back. Change what the reasons name, or give the run back.")
	}
	return problem
}

// own makes a worker's move and answers with the run as it then stands. run is the run's id, or "" where the body has
// it.
func (in *Intake) own(ctx context.Context, t *tenant, run string, d *delivery, v *workerVerb) reply {
	owned, problem := v.read(run, d)
	if problem != nil {
		return refuse(problem)
	}
	owned.TenantID = t.ID
	found, err := in.runs.Do(ctx, runName{t.ID, owned.RunID})
	if err != nil {
		return in.failure(err)
	}
	if found == nil || t.sources[found.Source] == nil {
		return refuse(newProblem(contracts.CodeNotFound, ""))
	}
	owned.Ref = contracts.RunRef{TenantID: t.ID, RunID: owned.RunID.String(), IdempotencyKey: found.Key,
		CorrelationID: found.CorrelationID}
	call := &workerCall{tenant: t, source: t.sources[found.Source], body: d.body, run: found}
	if owned.Revising = found.ReviseBy != nil; owned.Revising && v.name == submission.name {
		if call.before, err = in.env.Ledger.SentBackIntent(ctx, found); err != nil {
			return in.failure(err)
		}
	}
	if problem := v.fill(call, owned); problem != nil {
		return refuse(problem)
	}
	claimed, err := in.owned.Do(ctx, *owned)
	r := in.claimed(ctx, claimed, err, owned.Owner)
	if r.status == http.StatusAccepted {
		r.status = v.status
	}
	return r
}

// read takes the lease that the caller shows out of its body.
func (v *workerVerb) read(run string, d *delivery) (*ledger.Owned, *contracts.Problem) {
	if problem := d.read(maxWorkerBytes); problem != nil {
		return nil, problem
	}
	allowed := append([]string{"owner", "version"}, v.members...)
	if run == "" {
		allowed = append(allowed, "run_id")
		run = textOf(d.body, "run_id")
	}
	if problem := knownMembers(d.body, allowed); problem != nil {
		return nil, problem
	}
	version, _ := d.body.Get("version")
	number, isNumber := version.Int64()
	owner, err := uuid.Parse(textOf(d.body, "owner"))
	if err != nil || !isNumber {
		return nil, newProblem(contracts.CodeSchemaInvalid,
			`Send back the "owner" and "version" of the lease that you were given.`)
	}
	id, problem := runID(run)
	return &ledger.Owned{RunID: id, Owner: owner, Version: number}, problem
}

func runID(text string) (uuid.UUID, *contracts.Problem) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, newProblem(contracts.CodeNotFound, "A run's id is a UUID.")
	}
	return id, nil
}

// textOf is a member that is text, or "".
func textOf(body canonical.Value, name string) string {
	value, _ := body.Get(name)
	if value.Kind() != canonical.String {
		return ""
	}
	return value.Text()
}

func knownMembers(body canonical.Value, allowed []string) *contracts.Problem {
	if body.Kind() != canonical.Object {
		return newProblem(contracts.CodeSchemaInvalid, "The body must be a JSON object.")
	}
	for name := range body.Members() {
		if !slices.Contains(allowed, name) {
			return newProblemf(contracts.CodeSchemaInvalid, "The member %q is not known here; allowed: %v.", name,
				allowed)
		}
	}
	return nil
}
