package reconciler

import (
	"cmp"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// ruling is what follows of a provider's event for the effect that it is about: a move, or none and why.
type ruling struct {
	move  *ledger.Settlement // nil moves nothing
	note  string             // for the audit and the operator
	alert bool               // somebody has to look
	later bool               // it cannot be applied yet
}

// hear holds an event against the effect as it stands (R4). The precedence is:
//
//  1. what says neither that it succeeded nor that it failed moves nothing;
//  2. what an operator disputes is not revived, whatever the provider says;
//  3. an event about another object than the one that is known contradicts it: somebody has to look;
//  4. while somebody is sending, the event is early, and waits for what the sender says;
//  5. a success completes what may have been sent, and a failure ends what the provider had accepted;
//  6. what has ended stays as it is; a contradiction is told.
func hear(e *ledger.Open, p *ledger.UnappliedEvent) ruling {
	switch {
	case p.Verdict == ledger.ProviderPending:
		return ruling{note: "it says neither that the write took place nor that it never will"}
	case e.State == ledger.EffectHeld && e.HoldReason == ledger.HoldDisputed:
		return ruling{note: "an operator disputes what the provider says"}
	case p.ExternalID != "" && e.ExternalID != "" && p.ExternalID != e.ExternalID:
		return ruling{note: fmt.Sprintf("it is about %s, and the effect is known as %s", p.ExternalID, e.ExternalID), alert: true}
	case e.State == ledger.EffectSending:
		return ruling{note: "it came before the sender has reported", later: true}
	case p.Verdict == ledger.ProviderFailed:
		return hearFailure(e, p)
	}
	return hearSuccess(e, p)
}

func hearSuccess(e *ledger.Open, p *ledger.UnappliedEvent) ruling {
	everSent := e.MaybeSent || !e.FirstSentAt.IsZero() // proof of absence takes the mark away, and may have looked too early
	switch {
	case e.State == ledger.EffectCompleted:
		return ruling{note: "it is completed already"}
	case e.State == ledger.EffectFailed, e.State == ledger.EffectCancelled:
		return ruling{note: fmt.Sprintf("the provider says that it succeeded, and the effect is %s", e.State), alert: true}
	case e.State == ledger.EffectPending && !everSent:
		// It must not be sent now: somebody has used its id, or our own memory of sending it was lost (D17).
		return ruling{note: "the provider says that it succeeded, and nothing was sent", alert: true,
			move: &ledger.Settlement{Move: "suspect", HoldReason: ledger.HoldIncident, NextCheck: ledger.Never}}
	case e.State == ledger.EffectAccepted && !e.SucceededAt.IsZero():
		return ruling{note: "that it succeeded is known already, and its target is being read"}
	case e.State == ledger.EffectHeld && (!everSent || e.HoldReason == ledger.HoldIncident || e.HoldReason == ledger.HoldReview ||
		e.HoldReason == ledger.HoldMismatch):
		return ruling{note: fmt.Sprintf("the provider says that it succeeded, and the effect is held as %s", e.HoldReason), alert: true}
	}
	return ruling{note: "the provider told that it succeeded", move: &ledger.Settlement{Move: "report_success", MaybeSent: true,
		ExternalID: cmp.Or(p.ExternalID, e.ExternalID), RecordVersion: p.RecordVersion, NextCheck: ledger.Never, ClearUnread: true}}
}

// hearFailure ends only what the provider had accepted: of anything else its word is no proof that nothing was written (D6).
func hearFailure(e *ledger.Open, p *ledger.UnappliedEvent) ruling {
	switch e.State {
	case ledger.EffectAccepted:
		if !e.SucceededAt.IsZero() {
			return ruling{note: "the provider says that it failed, and has said before that it succeeded", alert: true}
		}
		return ruling{note: "the provider told that it failed", move: &ledger.Settlement{Move: "report_failure", MaybeSent: true,
			ExternalID: cmp.Or(p.ExternalID, e.ExternalID), NextCheck: ledger.Never, ClearUnread: true,
			Reason: fmt.Sprintf("the provider had accepted it, and reported %s in event %s", p.Status, p.ID)}}
	case ledger.EffectUnknown:
		return ruling{note: "the provider told that it failed, which a lookup has to prove", move: &ledger.Settlement{Move: "look"}}
	case ledger.EffectCompleted:
		return ruling{note: "the provider says that it failed, and the effect is completed", alert: true}
	}
	return ruling{note: fmt.Sprintf("the provider says that it failed, which proves nothing of what is %s", e.State)}
}
