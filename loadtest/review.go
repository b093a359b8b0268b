package main

import "time"

// reviewReport is what the report says of decisions, where people make them.
type reviewReport struct {
	Decisions  decisions `json:"decisions"`
	DecisionMS quantiles `json:"decision_ms"` // of the call that decides

	approvals  int // keys whose approval was given, by us or by somebody else
	rejected   int // keys that were rejected and have ended
	unapproved int // keys whose run was executed without an approval
}

// decisions counts what deciding came to.
type decisions struct {
	Approved       int64 `json:"approved"`
	Rejected       int64 `json:"rejected"`
	AlreadyDecided int64 `json:"already_decided"` // by somebody else, or by another decider (A8)
	Errors         int64 `json:"errors"`          // tries without a usable answer
}

// review takes the numbers over from the deciders, who have left.
func (r *report) review(d *desk, b *board) {
	if d == nil {
		return
	}
	made := &reviewReport{Decisions: d.totals(), DecisionMS: quantilesOf(d.calls())}
	for i := range b.entries {
		e := &b.entries[i]
		decided, ended := e.decided.Load(), e.operation.Load() != nil
		switch {
		case decided == approved:
			made.approvals++
		case e.completed.Load():
			made.unapproved++
		case decided == rejected && ended:
			made.rejected++
		}
	}
	r.endedOther -= int64(made.rejected) // as it was wanted
	r.reviewReport = made
}

// judge lists the promises about people that did not hold.
func (r *reviewReport) judge(broken func(is bool, format string, args ...any), v verdict) {
	broken(r.Decisions.Errors > 0, "%d decision calls got no usable answer", r.Decisions.Errors)
	broken(r.unapproved > 0, "%d runs were executed without an approval (A7)", r.unapproved)
	broken(v.forbidden > 0, "%d writes were made for rejected runs (A9)", v.forbidden)
}

// text is the part for people.
func (r *reviewReport) text(line func(name, format string, args ...any), elapsed time.Duration) {
	rate := 0.0
	if elapsed > 0 {
		rate = float64(r.Decisions.Approved+r.Decisions.Rejected) / elapsed.Seconds()
	}
	line("Decisions", "approved %d · rejected %d · already decided %d · errors %d · %.0f decisions/s",
		r.Decisions.Approved, r.Decisions.Rejected, r.Decisions.AlreadyDecided, r.Decisions.Errors, rate)
	line("Decision call", "%s", r.DecisionMS)
}
