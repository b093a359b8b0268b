package intake

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// repeatedTakeovers of one run raise an alert: its workers keep dying, or its lease is too short (K7).
const repeatedTakeovers = 3

// Doors, as the counter of answers names them.
const (
	doorHTTP  = "http"
	doorNATS  = "nats"
	doorMicro = "request_reply"
)

// counters is what intake measures. A refused request leaves nothing else behind.
type counters struct {
	answers   metric.Int64Counter
	takeovers metric.Int64Counter

	sets sync.Map // of counted to its metric.AddOption; few, and made once
}

// counted is what answers are told apart by. The tenant is empty where the caller is not known.
type counted struct{ tenant, door, verb, result string }

func newCounters(meter metric.Meter) (*counters, error) {
	var c counters
	var errs [2]error
	c.answers, errs[0] = meter.Int64Counter("holdpoint_intake_answers_total",
		metric.WithDescription("Answers by door, verb and result or problem code."))
	c.takeovers, errs[1] = meter.Int64Counter("holdpoint_lease_takeovers_total",
		metric.WithDescription("Runs taken from a worker whose lease had ended; repeated: three times or more."))
	return &c, errors.Join(errs[:]...)
}

func (c *counters) answer(ctx context.Context, what counted) {
	option, known := c.sets.Load(what)
	if !known {
		option, _ = c.sets.LoadOrStore(what, metric.WithAttributeSet(attribute.NewSet(
			attribute.String("tenant", what.tenant), attribute.String("door", what.door),
			attribute.String("verb", what.verb), attribute.String("result", what.result),
		)))
	}
	c.answers.Add(ctx, 1, option.(metric.MeasurementOption))
}

// tookOver counts a takeover, and calls an operator when one run changes hands again and again.
func (in *Intake) tookOver(ctx context.Context, run *ledger.Run) {
	repeated := run.Takeovers >= repeatedTakeovers
	in.counters.takeovers.Add(ctx, 1, metric.WithAttributes(
		attribute.String("tenant", run.TenantID), attribute.Bool("repeated", repeated)))
	if repeated {
		in.env.Log.Error("a run changes hands again and again: its workers die, or its lease is too short",
			"tenant", run.TenantID, "run", run.RunID, "key", run.Key, "takeovers", run.Takeovers)
	}
}
