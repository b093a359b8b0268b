package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// consumerOf is where a service gets its messages from, if it does.
func consumerOf(service string) (stream, durable string) {
	switch service {
	case ledger.Intake:
		return bus.IngressStream(tenant), bus.IntakeConsumer
	case ledger.Policy:
		return bus.InternalStream, bus.PolicyConsumer
	case ledger.Dispatcher:
		return bus.InternalStream, bus.DispatchConsumer
	}
	return "", ""
}

func claimOverHTTP(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.through(ctx, t.deliver); err != nil {
		return err
	}
	// Whoever was still connected when the answer to the COMMIT was lost is told what is true: it was accepted
	// (STO-04).
	if t.side == mid && t.answers[0] != contracts.ResultAccepted {
		return fmt.Errorf("intake answered %q to a first event that it had stored (STO-04)", t.answers[0])
	}
	return nil
}

func claimOverNATS(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, func(ctx context.Context) error { return t.deliverByNATS(ctx, t.event()) })
}

func ackByIntake(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Intake); err != nil {
		return err
	}
	return claimOverNATS(ctx, t)
}

// start has a service die before it does anything for an event.
func start(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	return t.deliver(ctx)
}

func parkByIntake(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, func(ctx context.Context) error { return t.deliverByNATS(ctx, []byte("no JSON")) })
}

// parkInside has a service of ours find a message on its stream that nobody can read.
func parkInside(subject string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.arm(); err != nil {
			return err
		}
		return t.through(ctx, func(ctx context.Context) error {
			return t.publish(ctx, subject, nil, []byte("no JSON from "+t.key))
		})
	}
}

// conflict sends another payload under a key that is taken; nothing may run but what was claimed (K4).
func conflict(ctx context.Context, t *trial) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, func(ctx context.Context) error {
		other := fmt.Appendf(nil, `{"event_id":%q,"proposal":%s}`, t.key, t.proposal("Porto"))
		a, err := t.post(ctx, "/v1/sources/"+t.source()+"/events", map[string]string{"Idempotency-Key": t.key}, other)
		if err == nil && a.Code != contracts.CodePayloadMismatch {
			err = fmt.Errorf("intake answered HTTP %d %s to another payload under the same key", a.status, a.Code)
		}
		return err
	})
}

// claimBy asks for the run as a worker.
func (t *trial) claimBy(ctx context.Context, owner uuid.UUID) (answer, error) {
	return t.post(ctx, "/v1/sources/"+t.source()+"/claims",
		map[string]string{"Idempotency-Key": t.key, "Holdpoint-Owner": owner.String()}, t.event())
}

// own makes a worker's call under a lease.
func (t *trial) own(ctx context.Context, call string, lease *contracts.Lease, more map[string]any) (answer, error) {
	more["owner"], more["version"] = lease.Owner, lease.Version
	body, err := json.Marshal(more)
	if err != nil {
		return answer{}, err
	}
	return t.post(ctx, "/v1/runs/"+t.runID.String()+"/"+call, nil, body)
}

func (t *trial) submit(ctx context.Context, lease *contracts.Lease) (answer, error) {
	return t.own(ctx, "proposal", lease, map[string]any{"proposal": json.RawMessage(t.proposal("Lisbon"))})
}

// work claims the run and submits its proposal, as worker after worker, until one has done it before its lease ended.
func (t *trial) work(ctx context.Context) error {
	return poll(ctx, "a worker to submit its proposal", func() (bool, error) {
		a, err := t.claimBy(ctx, uuid.New())
		if err != nil || a.Lease == nil {
			submitted := a.State != "" && a.State != ledger.RunProcessing
			return submitted || a.Result == contracts.ResultDuplicateWithResult, err
		}
		a, err = t.submit(ctx, a.Lease)
		return a.Result == contracts.ResultAccepted, err
	})
}

func claimByWorker(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	owner := uuid.New()
	err := t.through(ctx, func(ctx context.Context) error {
		a, err := t.claimBy(ctx, owner)
		if err == nil && a.Lease == nil {
			err = fmt.Errorf("a worker that asked again got no lease: HTTP %d %s %s", a.status, a.Result, a.Code)
		}
		return err
	})
	return errors.Join(err, t.work(ctx))
}

func reclaim(ctx context.Context, t *trial) error {
	if _, err := t.claimBy(ctx, uuid.New()); err != nil {
		return err
	}
	if err := t.until(ctx, "the worker's lease to end", "r.lease_expires_at <= clock_timestamp()"); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	owner := uuid.New()
	err := t.through(ctx, func(ctx context.Context) error {
		a, err := t.claimBy(ctx, owner)
		if err == nil && a.Lease == nil {
			err = fmt.Errorf("the worker that took over got no lease: HTTP %d %s %s", a.status, a.Result, a.Code)
		}
		return err
	})
	return errors.Join(err, t.work(ctx))
}

// owning arms intake, claims the run and makes a call under the lease, which intake does not outlive.
func owning(ctx context.Context, t *trial, call func(context.Context, *contracts.Lease) (answer, error)) error {
	if err := t.arm(); err != nil {
		return err
	}
	a, err := t.claimBy(ctx, uuid.New())
	if err != nil || a.Lease == nil {
		return fmt.Errorf("claim the run: HTTP %d %s: %w", a.status, a.Code, err)
	}
	err = t.through(ctx, func(ctx context.Context) error {
		answered, err := call(ctx, a.Lease)
		// The lease may have ended meanwhile. Then the worker is told so; anything else is wrong (K8).
		if err == nil && answered.Result != contracts.ResultAccepted && answered.Code != contracts.CodeOwnershipLost {
			err = fmt.Errorf("a worker was answered HTTP %d %s %s", answered.status, answered.Result, answered.Code)
		}
		return err
	})
	return errors.Join(err, t.work(ctx))
}

func submission(ctx context.Context, t *trial) error { return owning(ctx, t, t.submit) }

func renewal(ctx context.Context, t *trial) error {
	return owning(ctx, t, func(ctx context.Context, lease *contracts.Lease) (answer, error) {
		return t.own(ctx, "renewal", lease, map[string]any{})
	})
}

func givenBack(ctx context.Context, t *trial) error {
	return owning(ctx, t, func(ctx context.Context, lease *contracts.Lease) (answer, error) {
		return t.own(ctx, "failure", lease, map[string]any{"retryable": true, "reason": "The model is away."})
	})
}

// deliverCalling hands in the event with an address to call when its run has ended.
func (t *trial) deliverCalling(ctx context.Context) error {
	header := map[string]string{"Idempotency-Key": t.key, "Holdpoint-Callback": t.provider.URL() + "/hooks/" + t.key}
	a, err := t.post(ctx, "/v1/sources/"+t.source()+"/events", header, t.event())
	if err == nil && a.status != http.StatusAccepted && a.status != http.StatusOK {
		err = fmt.Errorf("intake refused an event: HTTP %d %s: %s", a.status, a.Code, a.Detail)
	}
	return err
}

func calling(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, t.deliverCalling)
}

// calledBack has intake die when whoever asked has been called, and nobody knows it yet: the call comes again.
func calledBack(ctx context.Context, t *trial) error {
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, t.deliverCalling)
}

// take asks for the runs that wait for a worker.
func (t *trial) take(ctx context.Context) error {
	a, err := t.post(ctx, "/v1/sources/"+t.source()+"/work", nil, []byte(`{"max": 10}`))
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("intake answered HTTP %d %s to a worker that asks for work", a.status, a.Code)
	}
	return err
}

// taken has intake die while it gives the run to a worker, who never hears of it; another worker does the work.
func taken(ctx context.Context, t *trial) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	return errors.Join(t.through(ctx, t.take), t.work(ctx))
}

// usedUp has intake die while it ends a run that was given to workers too often.
func usedUp(ctx context.Context, t *trial) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if _, err := t.db.Exec(ctx, "update runs set attempts = 100 where run_id = $1", t.runID); err != nil {
		return fmt.Errorf("use up the attempts: %w", err)
	}
	if err := t.arm(); err != nil {
		return err
	}
	err := t.through(ctx, t.take)
	return errors.Join(err, poll(ctx, "the run to end", func() (ended bool, err error) {
		if err := t.take(ctx); err != nil {
			return false, err
		}
		row := t.db.QueryRow(ctx, "select ended_at is not null from runs where run_id = $1", t.runID)
		return ended, row.Scan(&ended)
	}))
}
