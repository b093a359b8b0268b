package connectorcheck

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
)

// sight is how a lookup came to see a write.
type sight struct {
	result connector.LookupResult // of the last look
	missed time.Duration          // after the write, at the last look that did not find it; negative where the first one did
	seen   time.Duration          // after the write, at the look that found it
}

// found reports whether the write was seen at all.
func (s sight) found() bool {
	return s.result.Verdict == connector.Found || s.result.Verdict == connector.Several
}

// awaitSight looks for the write until it is seen, or the patience is over.
func (r *run) awaitSight() error {
	if r.op.Lookup == nil {
		return nil
	}
	declared, written := r.op.Lookup.IndexLag, r.sentAt
	step := min(max(declared/20, 10*time.Millisecond), time.Second)
	for s := (sight{missed: -1}); ; {
		since := time.Since(written)
		s.result = r.conn.Reconcile(r.ctx, r.first.operation)
		if s.found() {
			s.seen, r.sight = since, s
			return r.ctx.Err()
		}
		s.missed, r.sight = since, s
		if since >= declared+r.config.Patience {
			return r.ctx.Err()
		}
		pause := step
		if since < declared && since+step > declared { // a look that begins as the declared lag ends decides about it
			pause = declared - since
		}
		if err := r.wait(pause); err != nil {
			return err
		}
	}
}

func (r *run) wait(pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-timer.C:
		return nil
	}
}

// lookAgain looks once more for what was written, when all that was sent after it must be visible too, and for what was never sent.
func (r *run) lookAgain() error {
	if r.op.Lookup == nil {
		return nil
	}
	if err := r.wait(time.Until(r.sentAt.Add(max(r.op.Lookup.IndexLag, r.sight.seen)))); err != nil {
		return err
	}
	never, err := r.operation("9", r.samples[0], r.before)
	if err != nil {
		return err
	}
	r.again, r.never = r.conn.Reconcile(r.ctx, r.first.operation), r.conn.Reconcile(r.ctx, never)
	late := !r.sight.found() || r.sight.missed >= r.op.Lookup.IndexLag
	r.judges = append(r.judges, func() { r.reportLookup(); r.reportLag(late); r.reportConclusive(late) })
	return r.ctx.Err()
}

// reportConclusive wants what was never sent told as absent, and what was written never missed once the declared lag was over.
func (r *run) reportConclusive(late bool) {
	if r.op.Lookup.Conclusive {
		r.report.found(config.CapabilityConclusive, !late && r.again.Verdict == connector.Found && r.never.Verdict == connector.Absent,
			"what was written is %s after the declared lag of %s; a key never used is %s", r.again.Verdict, r.op.Lookup.IndexLag,
			r.never.Verdict)
	}
}

func (r *run) reportLag(late bool) {
	declared := r.op.Lookup.IndexLag
	if r.sight.missed >= 0 {
		r.report.Lag = max(r.sight.seen, r.sight.missed).Round(time.Millisecond)
	}
	switch {
	case !r.sight.found():
		r.report.found(IndexLag, false, "not found for %s after the write; declared %s", r.report.Lag, declared)
	case late:
		r.report.found(IndexLag, false, "first found %s after the write, and not yet after %s; declared %s", r.report.Lag,
			r.sight.missed.Round(time.Millisecond), declared)
	case r.sight.missed < 0:
		r.report.found(IndexLag, true, "found at the first look; declared %s", declared)
	default:
		r.report.found(IndexLag, true, "found %s after the write; declared %s", r.report.Lag, declared)
	}
}

// reportLookup takes the provider's id for right where it is the one that the write was answered with. A lookup that is unclear about
// what was never sent tells nothing false.
func (r *run) reportLookup() {
	again, unsent, wanted := r.again, r.never, r.first.result.ExternalID
	switch {
	case again.Verdict != connector.Found:
		r.report.found(config.CapabilityLookup, false, "what was written is %s: %s", again.Verdict, again.Evidence)
	case wanted != "" && again.ExternalID != wanted:
		r.report.found(config.CapabilityLookup, false, "what was written is found as %s, and was answered as %s", again.ExternalID, wanted)
	case unsent.Verdict == connector.Found || unsent.Verdict == connector.Several:
		r.report.found(config.CapabilityLookup, false, "an operation id that was never sent is %s: %s", unsent.Verdict, unsent.Evidence)
	default:
		r.report.found(config.CapabilityLookup, true, "found as %s; an operation id that was never sent is %s", again.ExternalID,
			unsent.Verdict)
	}
}
