package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Bounds of a request for work.
const (
	maxWork     = 100
	maxWorkWait = 30 // seconds
)

// workEvery is how often a source is looked at while workers wait at it. Only one of a replica's waiting requests looks.
const workEvery = 200 * time.Millisecond

// workRequest is a contracts.WorkRequest as it was read.
type workRequest struct {
	owner uuid.UUID
	most  int
	wait  time.Duration
}

// work gives waiting runs of a source to a worker (M1): of one whose events carry their proposals, those whose proposal was sent back
// (P2, A18). Where none waits, it looks again until the worker's patience ends.
func (in *Intake) work(ctx context.Context, t *tenant, s *source, d *delivery) reply {
	request, problem := readWorkRequest(d)
	if problem != nil {
		return refuse(problem)
	}
	patience, cancel := context.WithTimeout(ctx, request.wait)
	defer cancel()
	for {
		given, err := in.take(ctx, t, s, request)
		if err != nil {
			return in.failure(err)
		}
		if len(given.Work) > 0 || !s.await(patience, in.stopping) {
			return reply{status: http.StatusOK, contentType: plainJSON, body: given, result: contracts.ResultAccepted}
		}
	}
}

// await is true when it is this request's turn to look at the source again, and false when its time is over.
func (s *source) await(ctx context.Context, stopping <-chan struct{}) bool {
	select {
	case s.looking <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-stopping:
		return false
	}
	defer func() { <-s.looking }()
	select {
	case <-time.After(workEvery):
		return true
	case <-ctx.Done():
	case <-stopping:
	}
	return false
}

func readWorkRequest(d *delivery) (r workRequest, problem *contracts.Problem) {
	if problem := d.read(maxWorkerBytes); problem != nil {
		return r, problem
	}
	if problem := knownMembers(d.body, []string{"owner", "max", "wait_seconds"}); problem != nil {
		return r, problem
	}
	r = workRequest{owner: uuid.New(), most: 1}
	if owner, given := d.body.Get("owner"); given {
		id, err := uuid.Parse(textOf(d.body, "owner"))
		if err != nil || id == uuid.Nil || owner.Kind() != canonical.String {
			return r, newProblem(contracts.CodeSchemaInvalid, `"owner" must be a random UUID, new for every execution.`)
		}
		r.owner = id
	}
	if most, given := d.body.Get("max"); given {
		n, whole := most.Int64()
		if !whole || n < 1 || n > maxWork {
			return r, newProblemf(contracts.CodeSchemaInvalid, `"max" must be a number from 1 to %d.`, maxWork)
		}
		r.most = int(n)
	}
	if wait, given := d.body.Get("wait_seconds"); given {
		n, whole := wait.Int64()
		if !whole || n < 0 || n > maxWorkWait {
			return r, newProblemf(contracts.CodeSchemaInvalid, `"wait_seconds" must be a number from 0 to %d.`, maxWorkWait)
		}
		r.wait = time.Duration(n) * time.Second
	}
	return r, nil
}

// take leases what waits now. A run that was given out as often as the source allows ends here, and an operator is told.
func (in *Intake) take(ctx context.Context, t *tenant, s *source, r workRequest) (*contracts.Work, error) {
	tasks, spent, err := in.env.Ledger.Take(ctx, ledger.Take{TenantID: t.ID, Source: s.ID, Max: r.most, Attempts: s.Attempts,
		Lease: ledger.LeaseTerms{Owner: r.owner, Duration: s.Lease.Duration, MaxLifetime: s.Lease.MaxLifetime}})
	if err != nil {
		return nil, err
	}
	for i := range spent {
		in.env.Log.Error("a run ended without a proposal: its attempts are used up", "tenant", t.ID, "source", s.ID,
			"run", spent[i].RunID, "key", spent[i].Key, "attempts", spent[i].Attempts)
	}
	if len(spent) > 0 {
		in.env.WakeRelay()
	}
	given := &contracts.Work{Work: make([]contracts.WorkItem, 0, len(tasks))}
	for i := range tasks {
		given.Work = append(given.Work, in.workItem(ctx, &tasks[i], r.owner))
	}
	return given, nil
}

func (in *Intake) workItem(ctx context.Context, task *ledger.Task, owner uuid.UUID) contracts.WorkItem {
	if task.TookOver {
		in.tookOver(ctx, &task.Run)
	}
	item := contracts.WorkItem{
		Run:     *in.describe(&task.Run, contracts.ResultAccepted, owner),
		Attempt: task.Run.Attempts,
		Event: contracts.WorkEvent{ContentType: task.ContentType, Headers: task.Headers,
			Body: json.RawMessage(bytes.TrimSpace(task.Payload))},
	}
	if b := task.SentBack; b != nil {
		item.SentBack = &contracts.SentBack{Revision: b.Revision, SentBy: b.By, Reasons: b.Reasons, Intent: b.Canonical}
	}
	return item
}
