package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const (
	eventsPause    = 500 * time.Millisecond
	eventsBatch    = 64
	eventsHold     = 10 * time.Second // how long what was taken up stays this replica's to apply
	unmatchedPause = 15 * time.Second

	earlyAgain = time.Second            // to an event that came before its sender has reported
	raceAgain  = 100 * time.Millisecond // to one whose effect has moved while it was being applied
)

// An event about nothing that is known may be early: our own record of the write is not stored yet. It is looked at again:
//
//	look    1     2    3    4    5    6     7     8     ...  13 and more
//	after   now   1 s  2 s  4 s  8 s  16 s  32 s  64 s       1 h
//
// After a minute somebody is called, and after a day it is left to an operator.
const (
	longestUnmatched = time.Hour
	callAfter        = time.Minute
	giveUpAfter      = 24 * time.Hour
)

// eventCounters are what is measured of what providers tell.
type eventCounters struct {
	deliveries metric.Int64Counter
	events     metric.Int64Counter
	unmatched  metric.Int64Gauge
}

func newEventCounters(meter metric.Meter) (c eventCounters, err error) {
	var errs [3]error
	c.deliveries, errs[0] = meter.Int64Counter("holdpoint_provider_webhooks_total",
		metric.WithDescription("Webhooks of providers by connector: stored, repeated, conflict, or the code of the problem."))
	c.events, errs[1] = meter.Int64Counter("holdpoint_provider_events_total",
		metric.WithDescription("What became of providers' events by connector: applied, ignored, alert, waiting, unmatched."))
	c.unmatched, errs[2] = meter.Int64Gauge("holdpoint_provider_events_unmatched",
		metric.WithDescription("Providers' events that are about nothing that is known."))
	return c, errors.Join(errs[:]...)
}

func (c *eventCounters) delivery(ctx context.Context, tenant, connector, result string) {
	count(ctx, c.deliveries, tenant, connector, result)
}

func count(ctx context.Context, counter metric.Int64Counter, tenant, connector, result string) {
	counter.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", tenant), attribute.String("connector", connector),
		attribute.String("result", result)))
}

// applyEvents applies a batch of stored events, each to the one effect that it is about.
func (r *Reconciler) applyEvents(ctx context.Context) (bool, error) {
	taken, err := r.env.Ledger.TakeProviderEvents(ctx, eventsBatch, eventsHold)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	effects, err := r.effectsOf(ctx, taken)
	if err != nil {
		return false, err
	}
	var f followed
	for i := range taken {
		p := &taken[i]
		var e *ledger.Open
		if len(p.Matches) == 1 {
			e = effects[p.Matches[0]]
		}
		if e == nil {
			f.notes = append(f.notes, r.unmatched(ctx, p))
			continue
		}
		ruled := hear(e, p)
		r.report(ctx, e, p, &ruled)
		if ruled.move == nil {
			f.notes = append(f.notes, ruled.asNote(p))
			continue
		}
		s := completing(r.declared(e), *ruled.move)
		s.EffectKey, s.RunKey, s.CorrelationID, s.TraceParent = e.EffectKey, e.RunKey, e.CorrelationID, e.TraceParent
		s.ProviderEvent, s.Note = p.ID, ruled.note
		f.moves, f.moving = append(f.moves, s), append(f.moving, p)
	}
	return len(taken) == eventsBatch, r.storeEvents(ctx, f)
}

// followed is what follows of a batch of events.
type followed struct {
	moves  []ledger.Settlement
	moving []*ledger.UnappliedEvent // of each move, the event that led to it
	notes  []ledger.EventNote
}

// effectsOf reads the effects that the events are about.
func (r *Reconciler) effectsOf(ctx context.Context, taken []ledger.UnappliedEvent) (map[ledger.EffectKey]*ledger.Open, error) {
	var keys []ledger.EffectKey
	for i := range taken {
		if len(taken[i].Matches) == 1 {
			keys = append(keys, taken[i].Matches[0])
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	open, err := r.env.Ledger.Open(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read what providers' events are about: %w", err)
	}
	effects := make(map[ledger.EffectKey]*ledger.Open, len(open))
	for i := range open {
		effects[open[i].EffectKey] = &open[i]
	}
	return effects, nil
}

// storeEvents makes the moves. An event whose effect moved meanwhile is held against it again.
func (r *Reconciler) storeEvents(ctx context.Context, f followed) error {
	var errs []error
	if len(f.moves) > 0 {
		moved, err := r.store(ctx, "apply_provider_events", f.moves)
		errs = append(errs, err)
		for i, p := range f.moving {
			switch {
			case moved[i]:
				count(ctx, r.heard.events, p.TenantID, p.Connector, "applied")
				if f.moves[i].Move == "look" {
					r.again()
				}
			case err == nil:
				f.notes = append(f.notes, ledger.EventNote{UnappliedEvent: p, State: ledger.EventWaiting, Again: raceAgain,
					Detail: "the effect moved while it was being applied"})
			}
		}
	}
	if len(f.notes) > 0 {
		errs = append(errs, r.env.Ledger.NoteProviderEvents(ctx, f.notes))
	}
	return errors.Join(errs...)
}

func (d *ruling) asNote(p *ledger.UnappliedEvent) ledger.EventNote {
	if d.later {
		return ledger.EventNote{UnappliedEvent: p, State: ledger.EventWaiting, Detail: d.note, Again: earlyAgain}
	}
	return ledger.EventNote{UnappliedEvent: p, State: ledger.EventIgnored, Detail: d.note, Again: ledger.Never}
}

// report counts what follows of an event, and tells of what an operator must look at.
func (r *Reconciler) report(ctx context.Context, e *ledger.Open, p *ledger.UnappliedEvent, d *ruling) {
	switch {
	case d.alert:
		r.env.Log.Error("a provider's event contradicts what is known: "+d.note, "event", p.ID, "status", p.Status,
			"external_id", p.ExternalID, "operation", e.OperationID(), "tenant", e.TenantID, "connector", e.Connector)
		count(ctx, r.heard.events, p.TenantID, p.Connector, "alert")
	case d.move == nil && !d.later:
		count(ctx, r.heard.events, p.TenantID, p.Connector, "ignored")
	}
}

// unmatched is what is kept of an event of which nobody knows what it is about. What would move nothing anyway is not waited for.
func (r *Reconciler) unmatched(ctx context.Context, p *ledger.UnappliedEvent) ledger.EventNote {
	if p.Verdict == ledger.ProviderPending {
		count(ctx, r.heard.events, p.TenantID, p.Connector, "ignored")
		return ledger.EventNote{UnappliedEvent: p, State: ledger.EventIgnored, Again: ledger.Never,
			Detail: "it says nothing final, about nothing that is known"}
	}
	n := ledger.EventNote{UnappliedEvent: p, State: ledger.EventUnmatched, Detail: "nothing that is known has its ids",
		Again: min(time.Second<<min(p.Attempts-1, 20), longestUnmatched)}
	if len(p.Matches) > 1 {
		n.Detail = "several effects have its external id"
	}
	if p.Age >= giveUpAfter {
		n.Again = ledger.Never
	}
	if p.Attempts == 1 {
		count(ctx, r.heard.events, p.TenantID, p.Connector, "unmatched")
	}
	if p.Age >= callAfter || len(p.Matches) > 1 && p.Attempts == 1 {
		r.env.Log.Error("a provider's event is about nothing that is known; an operator must look: holdpoint events show", "event", p.ID, "why", n.Detail,
			"operation", p.OperationID, "external_id", p.ExternalID, "tenant", p.TenantID, "connector", p.Connector, "age", p.Age)
	}
	return n
}

// countUnmatched measures how many events wait for somebody who knows what they are about.
func (r *Reconciler) countUnmatched(ctx context.Context) (bool, error) {
	n, err := r.env.Ledger.UnmatchedProviderEvents(ctx)
	if err == nil {
		r.heard.unmatched.Record(ctx, n)
	}
	return false, err
}
