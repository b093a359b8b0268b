package approval

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// decisionForm takes one decision. A form that is sent twice has the same command id, and is one vote (A8).
func (w *web) decisionForm(r *http.Request, who *identity) *reply {
	t, card, err := w.find(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	b := ballot{Tenant: t, Card: card, Decision: r.PostFormValue("decision"), Reason: typed, Token: w.linkToken(r)}
	if b.CommandID, err = uuid.Parse(r.PostFormValue("command_id")); err == nil {
		b.Shown, err = canonical.ParseDigest(r.PostFormValue("intent_hash"))
	}
	if err != nil {
		return w.card(r, who, t, card, http.StatusBadRequest, "The form was incomplete. Nothing was decided.", typed)
	}
	page, ok := w.wasShown(r.Context(), card.ApprovalID)
	switch {
	case !ok && card.State == "pending" && voteOf(card, who) == nil, ok && page.Hash != b.Shown.String():
		return w.card(r, who, t, card, http.StatusConflict,
			"This is not the page that you were shown last. Nothing was decided: look at it as it is now, then decide.",
			typed)
	case ok && card.State == "pending" && voteOf(card, who) == nil && page.Target != targetShown(card.Reading):
		return w.card(r, who, t, card, http.StatusConflict,
			"What the target holds has changed since you were shown it. Nothing was decided: look at it as it is now, then decide.",
			typed)
	case page.Cut && b.Decision == ledger.Approve:
		return w.card(r, who, t, card, http.StatusConflict,
			"A value was not shown whole. Nothing was decided: open the full values, then decide.", typed)
	}
	b.PageDigest, b.Seen = page.Digest, page.seen(card.Reading)
	voted, err := w.a.decide(r.Context(), who, b)
	if err != nil {
		return w.notDecided(r, who, &b, err)
	}
	return w.decided(r, who, &b, voted)
}

// seen is what the page showed of the target: the values are those that are known now, or the decision would have been refused.
func (s *shown) seen(now *ledger.Reading) *ledger.Reading {
	if s.Target == "" || !now.Answered() {
		return nil
	}
	seen := *now
	seen.ReadAt = s.ReadAt
	return &seen
}

// voteOf is the person's vote, cast by themself or for them.
func voteOf(card *ledger.Card, who *identity) *ledger.Cast {
	for i, c := range card.Cast {
		mine := c.Issuer == who.Issuer && c.Subject == who.Subject
		if mine || c.For != nil && c.For.Issuer == who.Issuer && c.For.Subject == who.Subject {
			return &card.Cast[i]
		}
	}
	return nil
}

// decided tells what a vote came to. Only what counted leads on; everything else shows the request as it stands.
func (w *web) decided(r *http.Request, who *identity, b *ballot, voted ledger.Voted) *reply {
	id := b.Card.ApprovalID
	said := ""
	switch voted.Result {
	case ledger.VoteApproved:
		said = "Approved. What you saw is queued, and has to be executed within " + span(b.Card.ExecuteWithin) + "."
	case ledger.VoteRejected:
		said = "Rejected. The run has ended and nothing is sent."
	case ledger.VoteCounted:
		said = fmt.Sprintf("Your approval is counted: %d of %d. Nothing is sent before all have approved.",
			approvals(voted.Cast), voted.Quorum)
	}
	if said != "" {
		w.sessions.Remove(r.Context(), keyDraft+id.String())
		w.putFlash(r.Context(), "good", said)
		return seeOther("/approvals/" + id.String()).with(w.linkCookie(id, "", -1))
	}
	// The link's token is dropped, so that a spent one does not stand in the way of a decision from the queue.
	return w.again(r, who, id, http.StatusConflict, standing(voted), b.Reason).with(w.linkCookie(id, "", -1))
}

// again shows the request as it is by now.
func (w *web) again(r *http.Request, who *identity, id uuid.UUID, status int, problem, typed string) *reply {
	t, card, err := w.a.cardFor(r.Context(), who, id)
	if err != nil {
		return w.failure(err)
	}
	return w.card(r, who, t, card, status, problem, typed)
}

// notDecided tells why a decision was not taken, and keeps what was typed.
func (w *web) notDecided(r *http.Request, who *identity, b *ballot, err error) *reply {
	var no *refusal
	if !errors.As(err, &no) {
		return w.failure(err)
	}
	id := b.Card.ApprovalID
	switch no.Code {
	case codeSignInAgain, codeStepUp:
		return w.proveAgain(r, b, no)
	case codeReason, codeReasonLong, codeBadDecision:
		return w.card(r, who, b.Tenant, b.Card, http.StatusUnprocessableEntity, no.Detail+" Nothing was decided.",
			b.Reason)
	case codeNotYourLink:
		return w.card(r, who, b.Tenant, b.Card, http.StatusForbidden, no.Detail, b.Reason).
			with(w.linkCookie(id, "", -1))
	}
	return w.card(r, who, b.Tenant, b.Card, http.StatusForbidden, no.Detail+" Nothing was decided.", b.Reason)
}

// proveAgain leads through the provider and back to the card, where the typed reason waits. It is a page and no
// redirect: browsers hold a form's redirects against form-action, and the provider's own may lead anywhere.
func (w *web) proveAgain(r *http.Request, b *ballot, no *refusal) *reply {
	id := b.Card.ApprovalID.String()
	if b.Reason != "" {
		w.forgetPages(r.Context())
		w.sessions.Put(r.Context(), keyDraft+id, b.Reason)
	}
	return tell(http.StatusForbidden, notice{Heading: "Sign in again to decide",
		Text: no.Detail + " Nothing was decided yet; your reason is kept.",
		Link: signInPath("/approvals/"+id, no.Code == codeStepUp), Label: "Sign in again"})
}

// withdrawForm takes a request back.
func (w *web) withdrawForm(r *http.Request, who *identity) *reply {
	t, card, err := w.find(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	voted, err := w.a.withdraw(r.Context(), who, t, card, typed)
	if err != nil {
		return w.notDecided(r, who, &ballot{Tenant: t, Card: card, Reason: typed}, err)
	}
	if voted.Result == ledger.VoteRejected {
		w.putFlash(r.Context(), "good", "Withdrawn. The run has ended and nothing is sent.")
		return seeOther("/approvals/" + card.ApprovalID.String())
	}
	return w.again(r, who, card.ApprovalID, http.StatusConflict, standing(voted), typed)
}
