package matrix

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// facts are what Postgres and the sandbox say of one cell.
type facts struct {
	state      string // of its effect; "" where there is none
	holdReason string
	rests      bool // nothing more happens to it by itself
	noted      bool // an audit row says why an operator has to settle it
	externalID string
	sharers    int // other effects with the same external id
	attempts   []attempt
	lookups    []lookup
	requests   int      // writes that the provider was asked for
	written    []string // the provider's ids of the writes that it has
	fired      bool     // the provider has misbehaved as the cell wants it
	struck     bool     // the dispatcher has died as the cell wants it
	failure    string   // of the harness
}

// attempt is one attempt as it is on record; its class is "" where no outcome was ever reported.
type attempt struct {
	Number   int
	Started  time.Time
	Finished time.Time // zero where it never was
	Class    string
	Digest   []byte // of the request; nil where none was made, or nobody could say
}

// doubtful reports whether nobody knows from the attempt whether the provider has the write.
func (a *attempt) doubtful() bool {
	return a.Class == "" || outcome.Class(a.Class) == outcome.Ambiguous || outcome.Class(a.Class) == outcome.InProgress
}

// mayHaveReached reports whether the attempt may have reached the provider.
func (a *attempt) mayHaveReached() bool { return outcome.Class(a.Class) != outcome.NotSent }

// lookup is one search for the write.
type lookup struct {
	At         time.Time
	Verdict    string
	Conclusive bool
}

// verdict is what of a cell breaks a promise.
type verdict struct {
	writes, duplicateWrites, blindResends int
	forOperator                           bool // it waits for an operator, who is told why
	unresolved                            bool
	broken                                []string
}

func (v *verdict) tell(format string, args ...any) {
	v.broken = append(v.broken, fmt.Sprintf(format, args...))
}

// judge decides from the facts alone. No operator has decided anything in the matrix, so no profile allows a second
// write.
func judge(p profile, does misbehaviour, wants death, f *facts) verdict {
	v := verdict{writes: len(f.written)}
	if f.failure != "" {
		v.tell("it could not be run: %s", f.failure)
	}
	if extra := len(f.written) - 1; extra > 0 {
		v.duplicateWrites = extra
		v.tell("the provider has %d writes of one operation", len(f.written))
	}
	v.resends(p, f)
	v.rest(f)
	v.record(f)
	switch {
	case wants.site == "" && !f.fired:
		v.tell("the provider never misbehaved, so the cell shows nothing")
	case wants.site != "" && does.well() && !f.struck:
		v.tell("the dispatcher never died, so the cell shows nothing")
	}
	return v
}

// resends looks for attempts that followed a doubtful one without leave: where the profile has a lookup, one must have
// been made in between, and, where the provider knows no key and no version, have proven that the write is not there;
// where it has none, the provider must replay.
func (v *verdict) resends(p profile, f *facts) {
	var doubt *attempt
	for i := range f.attempts {
		a := &f.attempts[i]
		if doubt != nil && a.mayHaveReached() && !allowed(p, doubt, a, f.lookups) {
			v.blindResends++
			v.tell("attempt %d was made blindly after attempt %d, of which nobody knew what had become", a.Number, doubt.Number)
		}
		if a.doubtful() {
			doubt = a
		}
	}
}

func allowed(p profile, doubt, next *attempt, lookups []lookup) bool {
	if !p.lookup {
		return p.replays
	}
	return slices.ContainsFunc(lookups, func(l lookup) bool {
		between := l.At.After(doubt.Started) && l.At.Before(next.Started)
		return between && (p.replays || p.conditional || l.Verdict == "absent" && l.Conclusive)
	})
}

// rest looks whether the effect is settled, or an operator can see why it is not.
func (v *verdict) rest(f *facts) {
	switch f.state {
	case ledger.EffectCompleted:
		if len(f.written) == 0 {
			v.tell("it counts as completed, and the provider has no write")
		}
		return
	case ledger.EffectFailed, ledger.EffectCancelled:
		if len(f.written) > 0 {
			v.tell("it counts as %s, and the provider has the write", f.state)
		}
		return
	case ledger.EffectHeld:
		v.forOperator = f.holdReason != ""
	case ledger.EffectUnknown:
		v.forOperator = f.rests && (f.noted || len(f.lookups) > 0)
	}
	if v.unresolved = !v.forOperator; v.unresolved {
		v.tell("it has not come to rest, and no operator is told of it: state %q, %d attempts, %d lookups", f.state,
			len(f.attempts), len(f.lookups))
	}
}

// record compares what is on record with what the provider has seen.
func (v *verdict) record(f *facts) {
	var digest []byte
	reached := 0
	for i := range f.attempts {
		a := &f.attempts[i]
		if a.mayHaveReached() {
			reached++
		}
		switch {
		case a.Digest == nil:
		case digest == nil:
			digest = a.Digest
		case !bytes.Equal(digest, a.Digest):
			v.tell("attempt %d asked for something else than those before it", a.Number)
		}
	}
	if f.requests > reached {
		v.tell("the provider was asked %d times to write, and %d attempts are on record that can have reached it", f.requests, reached)
	}
	if f.sharers > 0 {
		v.tell("%d other effects have its external id %s", f.sharers, f.externalID)
	}
	if f.externalID != "" && len(f.written) > 0 && !slices.Contains(f.written, f.externalID) {
		v.tell("its external id %s is none of the provider's %v", f.externalID, f.written)
	}
}
