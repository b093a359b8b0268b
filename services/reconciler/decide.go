package reconciler

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Lookups of an unknown effect, with the provider's index lag L:
//
//	lookup   1          2      3    4    5    6     7     8    9     10 and more
//	after    L          +1 s   2 s  4 s  8 s  16 s  32 s  64 s 128 s 5 min
//
// and after a conclusive "not there" L more. A provider that is down for a minute is asked about seven times; one that
// never answers, every five minutes until an operator settles the effect.
const (
	longestLook = 5 * time.Minute
	shortestLag = 200 * time.Millisecond
	// probes is how many conclusive "not there" answers are proof (R8).
	probes = 2
	// operatorLook is how often an effect is looked at that only an operator can settle.
	operatorLook = time.Hour
)

// Notes for the audit and the operator.
const (
	noteNoWay    = "it cannot be found by reading and not be repeated safely; an operator must settle it"
	noteSilent   = "it is not there, but a former sender never reported and may still write; an operator must settle it"
	noteUsedUp   = "its attempts are used up; it is only looked for by now, and an operator must settle it"
	noteTooLate  = "its execute-by has passed; it is only looked for by now, and an operator must settle it"
	noteRepeated = "the provider answers a repeated key with the first result"
)

// again is when the connector's backoff lets another attempt begin; !ok is never.
type again struct {
	wait time.Duration
	ok   bool
}

// decide is what follows for a due effect without asking anybody; the moves "look" and "verify" mean that the provider must be
// asked, and false that nothing follows. The precedence is:
//
//  1. a former owner reported success: the effect is done, unless an operator disputes it or somebody is sending it;
//  2. a former owner reported that it may have sent, and the effect waits to be sent again: it is unknown after all;
//  3. the lease of a sender has ended: what it did is unknown;
//  4. the provider says that it is done, and its target is to be read: the move "verify" (R7);
//  5. an acceptance is overdue: ask (R5);
//  6. the effect was not sent in time: people decide again, unless it may have been sent;
//  7. it is unknown: ask.
func decide(e *ledger.Open, op *config.Operation) (ledger.Settlement, bool) {
	reported := outcome.Class(e.ReportedClass)
	switch {
	case e.UnreadOutcome && reported == outcome.Succeeded && mayCompleteLate(e):
		return ledger.Settlement{
			Move: "late_success", MaybeSent: true, ExternalID: e.ExternalID, NextCheck: ledger.Never,
		}, true
	case e.UnreadOutcome && e.State == ledger.EffectPending && reported.MaybeSent():
		return ledger.Settlement{Move: "doubt", MaybeSent: true, NextCheck: indexLag(op)}, true
	case e.State == ledger.EffectSending && e.LeaseOver:
		return ledger.Settlement{
			Move: "expire_lease", Attempt: e.Attempt, Owner: e.Owner, MaybeSent: true, NextCheck: indexLag(op),
		}, true
	case e.State == ledger.EffectAccepted && !e.SucceededAt.IsZero():
		return ledger.Settlement{Move: "verify"}, true
	case e.State == ledger.EffectAccepted && e.Now.Sub(e.LastAttempt) >= outcome.AcceptedDeadline:
		return ledger.Settlement{Move: "overdue", MaybeSent: true}, true
	case e.State == ledger.EffectPending && e.Overdue && e.MaybeSent:
		return ledger.Settlement{Move: "doubt", MaybeSent: true}, true
	case e.State == ledger.EffectPending && e.Overdue:
		return ledger.Settlement{
			Move: "expire", HoldReason: ledger.HoldReview, NextCheck: ledger.Never, Review: notInTime(),
		}, true
	case e.State == ledger.EffectUnknown:
		return ledger.Settlement{Move: "look"}, true
	}
	return ledger.Settlement{}, false
}

// mayCompleteLate: the effect is open, nobody is sending it, and the provider's word is not in doubt: by an operator, or by what its
// target holds.
func mayCompleteLate(e *ledger.Open) bool {
	switch e.State {
	case ledger.EffectPending, ledger.EffectUnknown, ledger.EffectAccepted:
		return true
	case ledger.EffectHeld:
		return e.HoldReason != ledger.HoldDisputed && e.HoldReason != ledger.HoldMismatch
	}
	return false
}

// notInTime is what people are told of an effect whose execute-by has passed (A14).
func notInTime() *ledger.Review {
	return &ledger.Review{
		Reasons: []byte(`[{"code":"execute_by_passed",` +
			`"message":"It was not sent before its execute-by; nothing was sent."}]`),
		ReasonCodes: []string{"execute_by_passed"},
	}
}

// indexLag is how long a write may be invisible to lookups.
func indexLag(op *config.Operation) time.Duration {
	if op.Lookup == nil {
		return 0
	}
	return op.Lookup.IndexLag
}

// judge turns what a lookup said into a move (R2). The precedence is:
//
//  1. exactly one was found: done; several: an incident;
//  2. absence is proven, and nobody can still be writing: it may be sent again, as if for the first time, or, where no
//     attempt is left, is held for an operator;
//  3. absence is not proven yet: look again;
//  4. nothing is clear: the same key again, where that is safe (D13), else look again.
//
// Absence is proof only where the connector declares it, after the index lag, twice, the second time after twice the
// lag, since indexes have been seen to lag longer than documented (R8, REC-03).
func judge(e *ledger.Open, op *config.Operation, next again, found connector.LookupResult) ledger.Settlement {
	looked := &ledger.Looked{
		Verdict: string(found.Verdict), Conclusive: found.Conclusive, ExternalID: found.ExternalID, Evidence: found.Evidence,
	}
	since := e.Now.Sub(e.UnknownSince)
	absent := found.Verdict == connector.Absent && found.Conclusive && since >= indexLag(op)
	proven := absent && e.Absences+1 >= probes && since >= 2*indexLag(op)
	switch {
	case found.Verdict == connector.Found:
		return ledger.Settlement{
			Move: "find", MaybeSent: true, ExternalID: found.ExternalID, RecordVersion: found.RecordVersion,
			NextCheck: ledger.Never, Looked: looked,
		}
	case found.Verdict == connector.Several:
		return ledger.Settlement{Move: "incident", HoldReason: ledger.HoldIncident, NextCheck: ledger.Never, Looked: looked}
	case proven && nobodyWrites(e, op) && !next.ok:
		return ledger.Settlement{Move: "exhaust", HoldReason: ledger.HoldExhausted, NextCheck: ledger.Never, Looked: looked}
	case proven && nobodyWrites(e, op):
		// Where a sender fell silent, the mark stays: what comes next may still meet its write.
		return ledger.Settlement{Move: "prove_absent", MaybeSent: e.Silent, NextCheck: next.wait, Looked: looked}
	case proven:
		return ledger.Settlement{Move: "look", Absent: true, NextCheck: longestLook, Note: noteSilent, Looked: looked}
	case absent:
		later := max(indexLag(op), shortestLag) + lookAgain(e)
		return ledger.Settlement{Move: "look", Absent: true, NextCheck: later, Looked: looked}
	}
	s := repeat(e, op, next, max(lookAgain(e), indexLag(op)-since))
	s.Looked = looked
	return s
}

// withoutLookup is for operations that cannot be found by reading: a same-key retry where that is safe, else an
// operator.
func withoutLookup(e *ledger.Open, op *config.Operation, next again) ledger.Settlement {
	s := repeat(e, op, next, operatorLook)
	if s.Move == "look" && s.Note == "" {
		s.Note = noteNoWay
	}
	return s
}

// repeat is a same-key retry after the backoff, or, where that is not safe or no attempt is left, another look after so
// long.
func repeat(e *ledger.Open, op *config.Operation, next again, look time.Duration) ledger.Settlement {
	switch {
	case !outcome.SameKeyAllowed(op, e.FirstSentAt, e.Now.Add(next.wait)):
		return ledger.Settlement{Move: "look", NextCheck: look}
	case !next.ok:
		return ledger.Settlement{Move: "look", NextCheck: max(look, longestLook), Note: noteUsedUp}
	case !e.Now.Add(next.wait).Before(e.ExecuteBy):
		return ledger.Settlement{Move: "look", NextCheck: max(look, longestLook), Note: noteTooLate}
	}
	return ledger.Settlement{Move: "retry_same_key", MaybeSent: true, NextCheck: next.wait, Note: noteRepeated}
}

// nobodyWrites reports whether no former sender can still do a second write. It is certain where all have reported.
// One that fell silent may be frozen; its late write is harmless only where the provider honours the same idempotency
// key, or takes the update at one version of the target and no other (R2).
func nobodyWrites(e *ledger.Open, op *config.Operation) bool {
	return !e.Silent || outcome.SameKeyAllowed(op, e.FirstSentAt, e.Now) ||
		(op.Kind == config.OperationUpdate && op.Conditional.Counts())
}

// lookAgain is the time to the next lookup, see the table above.
func lookAgain(e *ledger.Open) time.Duration {
	if e.Lookups >= 9 {
		return longestLook
	}
	return time.Second << max(e.Lookups-1, 0)
}
