package reconciler

import (
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// Lookups of an unknown effect:
//
//	lookup   1          2        3    4    5    6     7     8 and more
//	after    index lag  lag+1s   2s   4s   8s   16s   32s   60s … 5 min
//
// A provider that is down for a minute is asked about seven times; one that never answers, every five minutes until an operator
// settles the effect.
const (
	longestLook = 5 * time.Minute
	// probes is how many conclusive "not there" answers in a row are proof (R8).
	probes = 2
)

// decide is what follows for a due effect without asking anybody; the move "look" means that the provider must be asked. The
// precedence is:
//
//  1. a former owner reported success: the effect is done;
//  2. a former owner reported that it may have sent, and the effect waits to be sent again: it is unknown after all;
//  3. the lease of a sender has ended: what it did is unknown;
//  4. an acceptance is overdue: ask;
//  5. the effect was not sent in time: people decide again, unless it may have been sent;
//  6. it is unknown: ask.
func decide(e *ledger.Open, op *config.Operation) (ledger.Settlement, bool) {
	soon := settleTime(op)
	switch {
	case e.UnreadOutcome && e.ReportedClass == string(outcome.Succeeded) && e.State != ledger.EffectSending:
		return ledger.Settlement{Move: "late_success", MaybeSent: true, ExternalID: e.ExternalID, NextCheck: ledger.Never}, true
	case e.UnreadOutcome && e.State == ledger.EffectPending && outcome.Class(e.ReportedClass).MaybeSent():
		return ledger.Settlement{Move: "doubt", MaybeSent: true, NextCheck: soon}, true
	case e.State == ledger.EffectSending && e.LeaseOver:
		return ledger.Settlement{Move: "expire_lease", Attempt: e.Attempt, Owner: e.Owner, MaybeSent: true, NextCheck: soon}, true
	case e.State == ledger.EffectAccepted:
		return ledger.Settlement{Move: "overdue", MaybeSent: true, NextCheck: 0}, true
	case e.State == ledger.EffectPending && e.Overdue && e.MaybeSent:
		return ledger.Settlement{Move: "doubt", MaybeSent: true, NextCheck: 0}, true
	case e.State == ledger.EffectPending && e.Overdue:
		return ledger.Settlement{Move: "expire", HoldReason: ledger.HoldReview, NextCheck: ledger.Never, Review: &ledger.Review{
			Reasons:     []byte(`[{"code":"execute_by_passed","message":"It was not sent before its execute-by; nothing was sent."}]`),
			ReasonCodes: []string{"execute_by_passed"}}}, true
	case e.State == ledger.EffectUnknown:
		return ledger.Settlement{Move: "look"}, true
	}
	return ledger.Settlement{}, false
}

// settleTime is how long a write may be invisible to lookups.
func settleTime(op *config.Operation) time.Duration {
	if op.Lookup == nil {
		return 0
	}
	return op.Lookup.IndexLag
}

// judge turns what a lookup said into a move (R2). Absence is proof only when the connector declares it, after its settle time, twice
// in a row, and when nobody can still be writing.
func judge(e *ledger.Open, op *config.Operation, found connector.LookupResult) ledger.Settlement {
	looked := &ledger.Looked{Verdict: string(found.Verdict), Conclusive: found.Conclusive, ExternalID: found.ExternalID, Evidence: found.Evidence}
	settled := e.Now.Sub(e.UnknownSince) >= settleTime(op)
	switch {
	case found.Verdict == connector.Found:
		return ledger.Settlement{Move: "find", MaybeSent: true, ExternalID: found.ExternalID, RecordVersion: found.RecordVersion,
			NextCheck: ledger.Never, Looked: looked}
	case found.Verdict == connector.Several:
		return ledger.Settlement{Move: "incident", HoldReason: ledger.HoldIncident, NextCheck: ledger.Never, Looked: looked}
	case found.Verdict == connector.Absent && found.Conclusive && settled && e.Absences+1 >= probes && ownerGone(e, op):
		return ledger.Settlement{Move: "prove_absent", NextCheck: 0, Looked: looked}
	case found.Verdict == connector.Absent && found.Conclusive && settled:
		return ledger.Settlement{Move: "look", Absent: true, NextCheck: max(settleTime(op), 200*time.Millisecond) + lookAgain(e), Looked: looked}
	case sameKeyAllowed(e, op):
		return ledger.Settlement{Move: "retry_same_key", MaybeSent: true, NextCheck: 0, Looked: looked}
	}
	return ledger.Settlement{Move: "look", NextCheck: lookAgain(e), Looked: looked}
}

// withoutLookup is for operations that cannot be found by reading: a same-key retry where that is safe, else an operator.
func withoutLookup(e *ledger.Open, op *config.Operation) ledger.Settlement {
	if sameKeyAllowed(e, op) {
		return ledger.Settlement{Move: "retry_same_key", MaybeSent: true, NextCheck: 0}
	}
	return ledger.Settlement{Move: "look", NextCheck: time.Hour, Note: "it cannot be found by reading; an operator must settle it"}
}

// ownerGone reports whether the last sender can no longer do a second write. It is certain where it has reported its outcome. A sender
// that fell silent may be frozen; its late write is harmless only where the provider honours the same idempotency key, or
// takes the update at one version of the target and no other.
func ownerGone(e *ledger.Open, op *config.Operation) bool {
	return e.LastClass != "" || sameKeyAllowed(e, op) || (op.Kind == config.OperationUpdate && op.Conditional != nil)
}

// sameKeyAllowed is D13: the provider answers a repeated key with the first result, and still remembers the key, with a margin, by the
// database's clock.
func sameKeyAllowed(e *ledger.Open, op *config.Operation) bool {
	return op.Replays && op.IdempotencyHeader != "" && !e.FirstSentAt.IsZero() &&
		e.Now.Before(e.FirstSentAt.Add(op.KeyWindow-op.KeyMargin))
}

func lookAgain(e *ledger.Open) time.Duration {
	if e.Lookups >= 9 {
		return longestLook
	}
	return min(longestLook, time.Second<<max(e.Lookups-1, 0))
}
