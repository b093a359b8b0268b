package crash

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// expected is what must have become of one case's event.
type expected struct {
	name   string // of the case
	key    string
	run    uuid.UUID
	ends   ending
	asks   bool // a person has to decide it
	staged bool // it has two effects, one after the other
}

// findings are the verdict of the whole suite. Every broken promise is counted once and told in a line.
type findings struct {
	duplicateWrites, lostRuns, unauthorisedEffects int
	broken                                         []string
}

func (f *findings) tell(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// check compares what must be with what is. It is given all runs, effects and writes that there are, so that
// nothing can hide outside what is expected.
func check(all []expected, is facts) findings {
	c := checker{facts: is, names: map[uuid.UUID]string{}, staged: map[uuid.UUID]bool{}, runsByID: map[uuid.UUID]*runFact{},
		effectsOf: map[uuid.UUID][]*effectFact{}, written: map[string][]sandbox.Write{}}
	for _, e := range all {
		c.names[e.run], c.staged[e.run] = e.name, e.staged
	}
	for i := range is.runs {
		c.runsByID[is.runs[i].RunID] = &is.runs[i]
	}
	for i := range is.effects {
		e := &is.effects[i]
		c.effectsOf[e.RunID] = append(c.effectsOf[e.RunID], e)
	}
	for _, w := range is.writes {
		c.written[w.Reference] = append(c.written[w.Reference], w)
	}
	c.duplicates()
	c.authority()
	for i := range is.effects {
		c.doubt(&is.effects[i])
	}
	for i := range is.runs {
		c.rest(&is.runs[i])
		c.once(&is.runs[i])
	}
	for _, e := range all {
		c.arrival(e)
	}
	c.decisions(all)
	if is.queued > 0 {
		c.tell("%d events are committed and were never published (B3)", is.queued)
	}
	if is.uncalled > 0 {
		c.tell("%d runs have ended and whoever asked for it was never called", is.uncalled)
	}
	return c.findings
}

type checker struct {
	facts
	findings
	names     map[uuid.UUID]string // of the cases
	staged    map[uuid.UUID]bool
	runsByID  map[uuid.UUID]*runFact
	effectsOf map[uuid.UUID][]*effectFact
	written   map[string][]sandbox.Write // by reference
}

// about names a run by its case, for people.
func (c *checker) about(run uuid.UUID) string {
	name := c.names[run]
	if name == "" {
		name = "a run of no case"
	}
	return name + " (run " + run.String() + ")"
}

// duplicates looks for a second accepted write: under one operation id, or to one target under another id, which
// would be the same effect in disguise. Every case has a target of its own (O6, D2).
func (c *checker) duplicates() {
	for reference, writes := range c.written {
		if extra := len(writes) - 1; extra > 0 {
			c.duplicateWrites += extra
			c.tell("the provider accepted %d writes of operation %s (D2)", len(writes), reference)
		}
	}
	targets := map[string]map[string]bool{}
	for _, w := range c.writes {
		target := targetOf(w)
		if targets[target] == nil {
			targets[target] = map[string]bool{}
		}
		targets[target][w.Reference] = true
	}
	for target, references := range targets {
		if extra := len(references) - 1; extra > 0 {
			c.duplicateWrites += extra
			c.tell("the provider accepted writes to %s under %d operation ids (D2)", target, len(references))
		}
	}
}

// targetOf a write: what it changed, or the payment that it gave back.
func targetOf(w sandbox.Write) string {
	if w.Refund != nil {
		return w.Refund.PaymentID
	}
	return w.ObjectID
}

// clockSlack is what the sandbox's clock and Postgres's, on one machine, may read apart.
const clockSlack = 50 * time.Millisecond

// authority looks for effects without an authorization, and for writes that were not on record before they were
// made (D1, D3).
func (c *checker) authority() {
	known := map[string]*effectFact{}
	for i := range c.effects {
		e := &c.effects[i]
		known[e.OperationID] = e
		if !e.Authorized {
			c.unauthorisedEffects++
			c.tell("%s: effect %s has no authorization (D1)", c.about(e.RunID), e.OperationID)
		}
	}
	for reference, writes := range c.written {
		e := known[reference]
		switch {
		case e == nil:
			c.unauthorisedEffects++
			c.tell("the provider accepted a write %q that belongs to no effect (D1)", reference)
		case !e.Authorized: // told already
		case e.FirstAttempt.Unix() <= 0 || writes[0].Time.Add(clockSlack).Before(e.FirstAttempt):
			c.unauthorisedEffects++
			c.tell("%s: the provider had the write before an attempt was on record (D3)", c.about(e.RunID))
		}
	}
}

// rest looks whether a run has an end, or an owner and a next step (O6).
func (c *checker) rest(r *runFact) {
	lost := func(format string, args ...any) {
		c.lostRuns++
		c.tell(c.about(r.RunID)+": "+format, args...)
	}
	effects := c.effectsOf[r.RunID]
	switch {
	case !atRest(r, effects):
		lost("it is %s and nothing happens to it%s (O6)", r.State, states(effects))
	case r.State == ledger.RunCompleted && !slices.ContainsFunc(effects, c.isWritten):
		lost("it is completed, and the provider has no write (R2)")
	case r.State == ledger.RunFailedTerminal && slices.ContainsFunc(effects, c.isWritten):
		lost("it is told as failed, and the provider has the write (DSP-08)")
	}
}

func (c *checker) isWritten(e *effectFact) bool { return len(c.written[e.OperationID]) > 0 }

// atRest reports whether nothing more is to happen to a run by itself: it has ended, or waits for a person who is
// told why.
func atRest(r *runFact, effects []*effectFact) bool {
	switch r.State {
	case ledger.RunCompleted, ledger.RunFailedTerminal:
		return true
	case ledger.RunAwaitingHuman:
		return r.PendingApprovals == 1
	case ledger.RunApproved:
		// An effect that has ended takes its run along, so one that is approved waits for an effect that is held.
		return slices.ContainsFunc(effects, isHeld) && !slices.ContainsFunc(effects, isUnderWay)
	}
	return false
}

// isHeld reports whether an effect waits for an operator, who is told why.
func isHeld(e *effectFact) bool { return e.State == ledger.EffectHeld && e.HoldReason != "" }

// isUnderWay reports whether something has yet to happen to an effect by itself.
func isUnderWay(e *effectFact) bool {
	over := e.State == ledger.EffectCompleted || e.State == ledger.EffectFailed || e.State == ledger.EffectCancelled
	return !over && !isHeld(e)
}

func states(effects []*effectFact) string {
	var all []string
	for _, e := range effects {
		all = append(all, "effect "+e.State)
	}
	if all == nil {
		return ", without an effect"
	}
	return ", " + strings.Join(all, ", ")
}

// doubt looks whether an attempt of unknown outcome was treated as one that may have been sent: its lease was found
// to have ended, and nothing was sent again before the provider had been asked (DSP-08, R1).
func (c *checker) doubt(e *effectFact) {
	if e.Unfinished > e.Expired {
		c.tell("%s: %d attempts have no outcome, and only %d were found out (R1)",
			c.about(e.RunID), e.Unfinished, e.Expired)
	}
	if e.Resent && e.Lookups == 0 {
		c.tell("%s: it was sent again, and the provider was never asked what became of the first time (R1)",
			c.about(e.RunID))
	}
}

// once looks for what happened twice inside, though the provider saw it once: each of these commits together with
// the move that makes it, and the move is made once (B1, B2, K2).
func (c *checker) once(r *runFact) {
	ended := 0
	if r.State == ledger.RunCompleted || r.State == ledger.RunFailedTerminal {
		ended = 1
	}
	for _, count := range []struct {
		what      string
		is        int
		low, high int
	}{
		{"claims in the audit", r.Claims, 1, 1},
		{"intents", r.Intents, 0, 1},
		{"policy decisions", r.Decisions, min(r.Intents, 1), 1},
		{"authorizations", r.Authorizations, 0, 1},
		{"effects", r.Effects, 0, c.effectsAllowed(r.RunID)},
		{"events that tell of its end", r.Endings, ended, ended},
		{"audit rows of its end", r.EndingAudits, ended, ended},
	} {
		if count.is < count.low || count.is > count.high {
			c.tell("%s: it has %d %s (B1, B2)", c.about(r.RunID), count.is, count.what)
		}
	}
}

func (c *checker) effectsAllowed(run uuid.UUID) int {
	if c.staged[run] {
		return 2
	}
	return 1
}

// arrival looks whether an event that was answered or acknowledged came to the rest that its case is for.
func (c *checker) arrival(e expected) {
	r := c.runsByID[e.run]
	switch {
	case e.ends == parked && !strings.Contains(strings.Join(c.parked, "\n"), e.key):
		c.lostRuns++
		c.tell("%s: its message is neither parked nor a run (B5)", e.name)
	case e.ends == parked:
	case r == nil:
		c.lostRuns++
		c.tell("%s: its event was taken, and there is no run (K11)", e.name)
	case e.ends == completed && r.State != ledger.RunCompleted && atRest(r, c.effectsOf[e.run]):
		c.tell("%s: the run ended as %s%s, not as completed", c.about(e.run), r.State, states(c.effectsOf[e.run]))
	case e.staged && r.State == ledger.RunCompleted && c.accepted(e.run) != 2:
		c.tell("%s: it is completed, and the provider has %d writes of its two effects (D10)", c.about(e.run), c.accepted(e.run))
	case e.ends == spent && r.State != ledger.RunFailedTerminal:
		c.tell("%s: its attempts are used up, and it is %s (M4)", c.about(e.run), r.State)
	case e.ends == unsent && slices.ContainsFunc(c.effectsOf[e.run], func(f *effectFact) bool { return f.State != ledger.EffectCancelled }):
		c.tell("%s: it was taken back, and its effect is not cancelled%s (D14)", c.about(e.run), states(c.effectsOf[e.run]))
	case e.ends == unsent && r.State != ledger.RunFailedTerminal:
		c.tell("%s: it was taken back, and its run is %s (D14)", c.about(e.run), r.State)
	case e.ends == withheld && !slices.ContainsFunc(c.effectsOf[e.run], isHeld):
		c.tell("%s: its effect is not held for the operator%s", c.about(e.run), states(c.effectsOf[e.run]))
	}
}

// accepted is how many effects of the run the provider has.
func (c *checker) accepted(run uuid.UUID) (n int) {
	for _, e := range c.effectsOf[run] {
		if c.isWritten(e) {
			n++
		}
	}
	return n
}

// settled reports whether everything has come to rest, so that check may judge it.
func settled(all []expected, is facts) bool {
	runs := map[uuid.UUID]*runFact{}
	effects := map[uuid.UUID][]*effectFact{}
	for i := range is.effects {
		effects[is.effects[i].RunID] = append(effects[is.effects[i].RunID], &is.effects[i])
	}
	for i := range is.runs {
		r := &is.runs[i]
		runs[r.RunID] = r
		if !atRest(r, effects[r.RunID]) {
			return false
		}
	}
	for _, e := range all {
		if e.ends != parked && runs[e.run] == nil {
			return false
		}
	}
	return is.queued == 0 && is.uncalled == 0 && is.hasToldEverybody()
}
