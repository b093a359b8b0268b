package approval

import (
	"errors"
	"fmt"
	"net/http"
	"time"

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
	if b.CommandID, b.Shown, err = formIDs(r.PostFormValue("command_id"), r.PostFormValue("intent_hash")); err != nil {
		return w.card(r, who, t, card, http.StatusBadRequest, "The form was incomplete. Nothing was decided.", typed)
	}
	if problem := w.fromShown(r, who, &b); problem != "" {
		return w.card(r, who, t, card, http.StatusConflict, problem, typed)
	}
	voted, err := w.a.decide(r.Context(), who, b)
	if err != nil {
		return w.notDecided(r, who, &b, err)
	}
	return w.decided(r, who, &b, voted)
}

// formIDs reads what a form says of one decision: its command id and the hash that was shown.
func formIDs(command, hash string) (uuid.UUID, canonical.Digest, error) {
	id, notID := uuid.Parse(command)
	shown, notHash := canonical.ParseDigest(hash)
	return id, shown, errors.Join(notID, notHash)
}

// fromShown takes the page that the person was shown last into the ballot, or says why that was not what they decide about.
func (w *web) fromShown(r *http.Request, who *identity, b *ballot) (problem string) {
	page, ok := w.wasShown(r.Context(), b.Card.ApprovalID)
	waits := b.Card.State == "pending" && voteOf(b.Card, who) == nil
	switch {
	case !ok && waits, ok && page.Hash != b.Shown.String():
		return "This is not the page that you were shown last. Nothing was decided: look at it as it is now, then decide."
	case ok && waits && page.Target != targetsShown(b.Card.Readings):
		return "What " + movedTargets(page.Target, b.Card) + " holds has changed since you were shown it. Nothing was decided: look at " +
			"it as it is now, then decide."
	case page.Cut && (b.Decision == ledger.Approve || b.Decision == ledger.BreakGlass):
		return "A value was not shown whole. Nothing was decided: open the full values, then decide."
	}
	b.PageDigest, b.Seen = page.Digest, page.seen(b.Card.Readings)
	return ""
}

// seen is what the page showed of the targets: the values are those that are known now, or the decision would have been refused.
func (s *shown) seen(now ledger.Readings) ledger.Readings {
	if s.Target == "" || !now.Answered() {
		return nil
	}
	seen := make(ledger.Readings, len(now))
	at := append([]time.Time{s.ReadAt}, s.Further...)
	for i, r := range now {
		if r.Answered() && i < len(at) {
			shown := *r
			shown.ReadAt = at[i]
			seen[i] = &shown
		}
	}
	return seen
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
	if said := counted(b, voted); said != "" {
		w.sessions.Remove(r.Context(), keyDraft+id.String())
		w.tellNext(r.Context(), who, "good", said, id)
		return seeOther("/approvals/" + id.String()).with(w.linkCookie(id, "", -1))
	}
	// The link's token is dropped, so that a spent one does not stand in the way of a decision from the queue.
	return w.again(r, who, id, http.StatusConflict, standing(voted), b.Reason).with(w.linkCookie(id, "", -1))
}

// counted says what a vote came to that counted, "" where it did not.
func counted(b *ballot, voted ledger.Voted) string {
	switch voted.Result {
	case ledger.VoteApproved:
		if b.Decision == ledger.BreakGlass {
			return "Approved alone. What you saw is queued. Others are told now, and look at it afterwards."
		}
		return "Approved. What you saw is queued, and has to be executed within " + span(b.Card.ExecuteWithin) + "."
	case ledger.VoteRejected:
		return "Rejected. The run has ended and nothing is sent."
	case ledger.VoteSentBack:
		return "Sent back. Whoever proposed it is told why and may bring a better proposal, which is asked for anew. Nothing is sent " +
			"meanwhile."
	case ledger.VoteCounted:
		return fmt.Sprintf("Your approval is counted: %d of %d. Nothing is sent before all have approved.",
			approvals(voted.Cast), voted.Quorum)
	}
	return ""
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
	case codeNotYourLink, codeNotByLink:
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
		w.forgetPages(r.Context(), 1)
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

// takeBackApproved has what people approved not sent, where it is certain that it was not (D14).
func (w *web) takeBackApproved(r *http.Request, who *identity) *reply {
	t, card, err := w.find(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	back, err := w.a.takeBack(r.Context(), who, t, card.RunID, card.Now, typed)
	if err != nil {
		return w.notDecided(r, who, &ballot{Tenant: t, Card: card, Reason: typed}, err)
	}
	if back.Done {
		w.putFlash(r.Context(), "good", "Taken back. The run has ended and nothing is sent.")
		return seeOther("/approvals/" + card.ApprovalID.String())
	}
	return w.again(r, who, card.ApprovalID, http.StatusConflict, tooLate(back), typed)
}
