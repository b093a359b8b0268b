package intake

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// repeatedTakeovers of one run raise an alert: its workers keep dying, or its lease is too short (K7).
const repeatedTakeovers = 3

// answer is what a caller is told of a claim: an answer, or a problem (K14). owner is the caller's, and sees its lease.
func (in *Intake) answer(ctx context.Context, claimed ledger.Claimed, err error, owner uuid.UUID) (*contracts.Answer, *contracts.Problem) {
	if err == nil {
		err = claimed.Err
	}
	if err != nil {
		return nil, in.problem(err)
	}
	in.answered.Add(ctx, 1, metric.WithAttributes(attribute.String("result", claimed.Result)))
	run := &claimed.Run
	switch claimed.Result {
	case contracts.ResultPayloadMismatch:
		in.env.Log.Warn("a key came again with another payload; nothing ran", "tenant", run.TenantID, "run", run.RunID, "key", run.Key)
		p := contracts.NewProblem(contracts.CodePayloadMismatch, "This key belongs to another payload. If this is another event, give it a key of its own.")
		p.RunID = run.RunID.String()
		return nil, p
	case contracts.ResultOwnershipLost:
		p := contracts.NewProblem(contracts.CodeOwnershipLost, "Stop working on this run: another worker may own it, or it has moved on.")
		p.RunID = run.RunID.String()
		return nil, p
	}
	if claimed.Result == contracts.ResultAccepted && run.Takeovers > 0 && run.LeaseOwner == owner {
		in.takeovers.Add(ctx, 1)
		if run.Takeovers >= repeatedTakeovers {
			in.env.Log.Error("a run changes hands again and again: its workers die, or its lease is too short", "tenant", run.TenantID,
				"run", run.RunID, "key", run.Key, "takeovers", run.Takeovers)
		}
	}
	return in.describe(run, claimed.Result, owner), nil
}

// describe writes a run as callers see it.
func (in *Intake) describe(run *ledger.Run, result string, owner uuid.UUID) *contracts.Answer {
	a := &contracts.Answer{Result: result, RunID: run.RunID.String(), IdempotencyKey: run.Key, State: run.State, Outcome: run.Outcome,
		StatusURL: in.settings.PublicURL + "/v1/runs/" + run.RunID.String()}
	if run.LeaseOwner != uuid.Nil && run.LeaseOwner == owner {
		a.Lease = &contracts.Lease{Owner: owner.String(), Version: run.Version, ExpiresAt: run.LeaseExpiresAt()}
	}
	for _, e := range run.Effects {
		a.Effects = append(a.Effects, contracts.Effect{OperationID: e.OperationID, State: e.State, ExternalID: e.ExternalID})
	}
	return a
}

// problem tells an outage, after which the same call may be made again, from a fault of this item.
func (in *Intake) problem(err error) *contracts.Problem {
	switch {
	case errors.Is(err, ledger.ErrNoSuchRun):
		return contracts.NewProblem(contracts.CodeNotFound, "")
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded), errors.Is(err, ledger.ErrStaleRules):
		in.env.Log.Warn("an event could not be stored now", "error", err)
		return contracts.NewProblem(contracts.CodeUnavailable, "Send it again with the same key.")
	}
	in.env.Log.Error("an event could not be stored", "error", err)
	return contracts.NewProblem(contracts.CodeInternal, "Send it again with the same key; if it goes on, tell the operator.")
}
