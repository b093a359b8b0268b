package config

import (
	"math/big"
	"slices"
	"time"
)

// Evaluation is a measurement of how often proposals of an action type are right. A rule that lets some of them act with no person
// asked names one (P4). It belongs to the policy's version, and is stored with it.
type Evaluation struct {
	ID         string
	Action     string
	MeasuredAt time.Time
	ValidUntil time.Time // from then on no rule can rely on it
	Cases      int       // how many proposals were compared with what was right
	Passed     int       // how many of them were right
	By         string    // who answers for the measurement
	Report     string    // where it can be read, "" where it is not said
}

// Exception lets the cases of one auto rule act with no person asked, and has people look at a sample of them afterwards. One bad
// sample, or a sample that nobody looks at in time, sends the rule's cases to people again (P4).
type Exception struct {
	Evaluation   string
	Threshold    string        // exact decimal above 0 and at most 1: the share of its cases that the evaluation must have passed
	OneIn        int           // one case in so many is looked at, chosen by its intent hash and a seed that nobody outside knows
	ReviewWithin time.Duration // how long the people have for it

	Until time.Time `json:"-"` // of the evaluation
}

const (
	maxCases       = 1_000_000_000
	maxOneIn       = 1_000_000
	defaultReviews = 7 * 24 * time.Hour
)

func (d *declared) readEvaluations(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("evaluations") {
		e := &Evaluation{
			ID: part.id("id", slug), Action: part.text("action"), MeasuredAt: part.time("measured_at"), ValidUntil: part.time("valid_until"),
			Cases: part.need("cases", maxCases), Passed: part.number("passed", 0, 0, maxCases),
			By: part.text("by"), Report: part.optText("report"),
		}
		if part.take("passed") == nil {
			part.fail("passed", "is missing; it must be a whole number from 0 to %d", maxCases)
		}
		if e.Passed > e.Cases {
			part.fail("passed", "is %d, which must not be more than cases, %d", e.Passed, e.Cases)
		}
		if !e.ValidUntil.IsZero() && !e.MeasuredAt.Before(e.ValidUntil) {
			part.fail("valid_until", "must be after measured_at")
		}
		unique(seen, part, "id", e.ID)
		part.close()
		d.places[e] = part
		d.Evaluations = append(d.Evaluations, e)
	}
}

// need is a required whole number from 1 to high.
func (o *object) need(name string, high int) int {
	if o.take(name) == nil {
		o.fail(name, "is missing; it must be a whole number from 1 to %d", high)
		return 0
	}
	return o.number(name, 0, 1, high)
}

// readException is nil where the rule makes none.
func (d *declared) readException(o *object) *Exception {
	part := o.object("exception")
	if part == nil {
		return nil
	}
	e := &Exception{Evaluation: part.text("evaluation"), Threshold: part.exact("threshold", share), OneIn: part.need("one_in", maxOneIn),
		ReviewWithin: part.duration("review_within", defaultReviews)}
	part.close()
	d.places[e] = part
	return e
}

// checkUnattended refuses a window or an exception that the rule cannot have: both are for cases that can be undone (P4).
func (d *declared) checkUnattended(r *Rule) {
	place := d.places[r]
	for setting, set := range map[string]bool{"window": r.Window > 0, "exception": r.Exception != nil} {
		if !set {
			continue
		}
		action := d.Action(r.Action)
		switch {
		case r.Route != RouteAuto && r.Route != "":
			place.fail(setting, "is for rules of route %s alone: what a person decides needs none", RouteAuto)
		case r.Action == "*":
			place.fail(setting, "is for rules of one action type, found *: name the type")
		case action != nil && !action.Reversible:
			place.fail(setting, "is for what can be undone, and %s cannot: it is not reversible", r.Action)
		}
	}
	if r.Exception != nil {
		d.checkEvaluation(r)
	}
}

func (d *declared) checkEvaluation(r *Rule) {
	part := d.places[r.Exception]
	i := slices.IndexFunc(d.Evaluations, func(e *Evaluation) bool { return e.ID == r.Exception.Evaluation })
	if i < 0 {
		if r.Exception.Evaluation != "" {
			part.fail("evaluation", "is %s, which evaluations does not hold, allowed: %s", quote(r.Exception.Evaluation),
				names(d.Evaluations, func(e *Evaluation) string { return e.ID }))
		}
		return
	}
	e := d.Evaluations[i]
	r.Exception.Until = e.ValidUntil
	if e.Action != r.Action {
		part.fail("evaluation", "is of %s, but the rule is about %s", quote(e.Action), quote(r.Action))
	}
	threshold, ok := new(big.Rat).SetString(r.Exception.Threshold)
	if ok && e.Cases > 0 && big.NewRat(int64(e.Passed), int64(e.Cases)).Cmp(threshold) < 0 {
		part.fail("threshold", "is %s, but evaluation %s passed %d of %d: the rule may not rely on it",
			r.Exception.Threshold, e.ID, e.Passed, e.Cases)
	}
}

// checkEvaluations finds those that are of no registered action.
func (d *declared) checkEvaluations() {
	for _, e := range d.Evaluations {
		if e.Action != "" && d.Action(e.Action) == nil {
			d.places[e].fail("action", "is %s, which actions.yaml does not register, allowed: %s", quote(e.Action),
				names(d.Actions, func(a *Action) string { return a.Type }))
		}
	}
}
