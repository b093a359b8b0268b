package proposer

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/client"
)

// meters are what all sources count.
type meters struct {
	calls, tokens, runs metric.Int64Counter
}

func newMeters(meter metric.Meter) (*meters, error) {
	var m meters
	var errs [3]error
	m.calls, errs[0] = meter.Int64Counter("holdpoint_proposer_calls_total",
		metric.WithDescription("Calls of a model by class, as the failure matrix names it."))
	m.tokens, errs[1] = meter.Int64Counter("holdpoint_proposer_tokens_total",
		metric.WithDescription("Tokens that calls used, as the endpoint says or at most."))
	m.runs, errs[2] = meter.Int64Counter("holdpoint_proposer_runs_total",
		metric.WithDescription("Runs that a model was asked about, by result: drafted, lost, or the class of the failure."))
	return &m, errors.Join(errs[:]...)
}

// tally counts and tells what becomes of one source's runs.
type tally struct {
	*meters

	source metric.MeasurementOption
	log    *slog.Logger
}

func (m *meters) of(tenant, source string, log *slog.Logger) *tally {
	return &tally{m, metric.WithAttributeSet(attribute.NewSet(
		attribute.String("tenant", tenant), attribute.String("source", source),
	)), log.With("tenant", tenant, "source", source)}
}

func (t *tally) call(ctx context.Context, c class, tokens int64) {
	t.calls.Add(ctx, 1, t.source, metric.WithAttributes(attribute.String("class", string(c))))
	t.tokens.Add(ctx, tokens, t.source)
}

// run counts one run. What ends a run without a person having looked at it calls somebody (M3).
func (t *tally) run(ctx context.Context, task *client.Task, err error) {
	log := t.log.With("run", task.Run.RunID, "key", task.Run.IdempotencyKey, "attempt", task.Attempt)
	result := "drafted"
	var f *client.Failure
	switch {
	case err == nil:
		log.Info("a proposal was drafted")
	case !errors.As(err, &f):
		result = "lost"
		log.Warn("a draft was dropped", "error", err)
	case f.Retryable:
		result = f.Class
		log.Warn("no proposal could be drafted; the run waits and comes again", "class", f.Class, "reason", f.Reason)
	default:
		result = f.Class
		log.Error("no proposal can be drafted; the run has failed", "class", f.Class, "reason", f.Reason)
	}
	t.runs.Add(ctx, 1, t.source, metric.WithAttributes(attribute.String("result", result)))
}

// report is told of every run that was not submitted. What run has told is not told again.
func (t *tally) report(task *client.Task, err error) {
	var f *client.Failure
	log := t.log.With("run", task.Run.RunID, "key", task.Run.IdempotencyKey)
	switch {
	case errors.As(err, &f), errors.Is(err, errStopped):
	case errors.Is(err, client.ErrOwnershipLost):
		log.Warn("a proposal was dropped, because the run was no longer ours", "error", err)
	default:
		log.Error("a proposal was not taken", "error", err)
	}
}
