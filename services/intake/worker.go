package intake

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// maxWorkerBytes bounds a worker's call where no source says otherwise.
const maxWorkerBytes = 1 << 20

// renew lengthens the caller's lease, up to its cap (K7). Body: {"owner", "version"}.
func (d *httpDoor) renew(w http.ResponseWriter, r *http.Request, c *caller) {
	d.own(w, r, c, nil, func(o *ledger.Owned, s *source, _ canonical.Value, _ *ledger.Run) *contracts.Problem {
		o.Renew = s.Lease.Duration
		return nil
	})
}

// submit hands in the proposal and ends the lease. Body: {"owner", "version", "proposal"}.
func (d *httpDoor) submit(w http.ResponseWriter, r *http.Request, c *caller) {
	d.own(w, r, c, []string{"proposal"}, func(o *ledger.Owned, s *source, body canonical.Value, run *ledger.Run) *contracts.Problem {
		proposal, _ := body.Get("proposal")
		intent, problem := c.tenant.intent(proposal, s, "/proposal", run.Key, 1)
		o.Submit = intent
		return problem
	})
}

// fail gives the run back. Body: {"owner", "version", "retryable", "reason"}, and "invalid": true where no valid proposal could be made.
func (d *httpDoor) fail(w http.ResponseWriter, r *http.Request, c *caller) {
	d.own(w, r, c, []string{"retryable", "reason", "invalid"}, func(o *ledger.Owned, _ *source, body canonical.Value, _ *ledger.Run) *contracts.Problem {
		retryable, _ := body.Get("retryable")
		invalid, _ := body.Get("invalid")
		reason, _ := body.Get("reason")
		if retryable.Kind() != canonical.Bool || reason.Kind() != canonical.String || reason.Text() == "" || len(reason.Text()) > 2000 {
			return contracts.NewProblem(contracts.CodeSchemaInvalid, `Say "retryable": true or false, and a "reason" of 1 to 2000 bytes.`)
		}
		o.Fail = &ledger.Failure{Retryable: retryable.True(), Invalid: invalid.True(), Reason: reason.Text()}
		return nil
	})
}

// own reads a worker's call, lets fill say what the worker wants, and answers with the run as it then stands.
func (d *httpDoor) own(w http.ResponseWriter, r *http.Request, c *caller, members []string,
	fill func(*ledger.Owned, *source, canonical.Value, *ledger.Run) *contracts.Problem) {
	owned, problem := d.owned(w, r, c, members, fill)
	if problem != nil {
		writeProblem(w, problem)
		return
	}
	claimed, err := d.in.owned.Do(r.Context(), *owned)
	d.answer(w, r, claimed, err, owned.Owner)
}

func (d *httpDoor) owned(w http.ResponseWriter, r *http.Request, c *caller, members []string,
	fill func(*ledger.Owned, *source, canonical.Value, *ledger.Run) *contracts.Problem) (*ledger.Owned, *contracts.Problem) {
	raw, problem := readBody(w, r, maxWorkerBytes)
	if problem != nil {
		return nil, problem
	}
	body, err := canonical.Parse(raw)
	if err != nil {
		return nil, contracts.NewProblem(contracts.CodeMalformed, err.Error())
	}
	if problem := knownMembers(body, append(members, "owner", "version")); problem != nil {
		return nil, problem
	}
	ownerText, _ := body.Get("owner")
	versionValue, _ := body.Get("version")
	owner, ownerErr := uuid.Parse(ownerText.Text())
	version, isNumber := versionValue.Int64()
	if ownerErr != nil || !isNumber {
		return nil, contracts.NewProblem(contracts.CodeSchemaInvalid, `Send back the "owner" and "version" of the lease that you were given.`)
	}
	id, err := uuid.Parse(r.PathValue("run"))
	if err != nil {
		return nil, contracts.NewProblem(contracts.CodeNotFound, "A run's id is a UUID.")
	}
	runs, err := d.in.env.Ledger.Runs(r.Context(), c.tenant.ID, id)
	if err != nil {
		return nil, d.in.problem(err)
	}
	if len(runs) == 0 || c.tenant.sources[runs[0].Source] == nil {
		return nil, contracts.NewProblem(contracts.CodeNotFound, "")
	}
	run := &runs[0]
	owned := &ledger.Owned{TenantID: c.tenant.ID, RunID: id, Owner: owner, Version: version,
		Ref: contracts.RunRef{TenantID: c.tenant.ID, RunID: id.String(), IdempotencyKey: run.Key, CorrelationID: run.CorrelationID}}
	return owned, fill(owned, c.tenant.sources[run.Source], body, run)
}

func knownMembers(body canonical.Value, allowed []string) *contracts.Problem {
	if body.Kind() != canonical.Object {
		return contracts.NewProblem(contracts.CodeSchemaInvalid, "The body must be a JSON object.")
	}
	known := map[string]bool{}
	for _, name := range allowed {
		known[name] = true
	}
	for name := range body.Members() {
		if !known[name] {
			return contracts.NewProblem(contracts.CodeSchemaInvalid, fmt.Sprintf("The member %q is not known here; allowed: %v.", name, allowed))
		}
	}
	return nil
}
