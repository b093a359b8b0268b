package approval

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// offerGlass says whether the person may approve alone, and what stands in the way that they can put right themself.
func (w *web) offerGlass(p *cardPage, t *tenant) {
	card := p.View.Card
	no := t.mayDecide(p.Who, card, want{Decision: ledger.BreakGlass, Reason: "-"}, w.a.settings.RolesMaxAge)
	here := "/approvals/" + card.ApprovalID.String()
	switch {
	case no == nil:
	case no.Code == codeSignInAgain:
		p.GlassHint, p.GlassSignIn = no.Detail, signInPath(here, false)
	case no.Code == codeStepUp:
		p.GlassHint, p.GlassSignIn = no.Detail, signInPath(here, true)
	default:
		return
	}
	if glass := t.breakGlass(card.ActionType); glass != nil {
		p.BreakGlass, p.GlassWithin = true, glass.ReviewWithin
	}
}

// judgeGlassForm takes a verdict about what somebody approved alone. A form that is sent twice has the same command id, and is one
// verdict.
func (w *web) judgeGlassForm(r *http.Request, who *identity) *reply {
	t, card, err := w.find(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	v := glassVerdict{Verdict: r.PostFormValue("verdict"), Reason: typed}
	if v.CommandID, err = uuid.Parse(r.PostFormValue("command_id")); err != nil {
		return w.card(r, who, t, card, http.StatusBadRequest, "The form was incomplete. Nothing was recorded.", typed)
	}
	page, ok := w.wasShown(r.Context(), card.ApprovalID)
	if g := card.Glass; g != nil && g.Verdict == "" && t.mayJudgeGlass(who, card) == nil {
		switch {
		case !ok || page.Hash != card.IntentHash.String():
			return w.card(r, who, t, card, http.StatusConflict,
				"This is not the page that you were shown last. Nothing was recorded: look at it as it is now.", typed)
		case page.Cut && v.Verdict == ledger.GlassRight:
			return w.card(r, who, t, card, http.StatusConflict,
				"A value was not shown whole. Nothing was recorded: open the full values first.", typed)
		}
	}
	v.PageDigest = page.Digest
	judged, err := w.a.judgeGlass(r.Context(), who, t, card, v)
	if err != nil {
		return w.glassRefused(r, who, t, card, typed, err)
	}
	if !judged.Stored {
		return w.again(r, who, card.ApprovalID, http.StatusConflict, judgedBefore(judged), typed)
	}
	w.putFlash(r.Context(), "good", "Recorded: that it was approved alone was "+judged.Verdict+".")
	return seeOther("/approvals/" + card.ApprovalID.String())
}

// glassRefused tells why somebody may not judge, and keeps what was typed.
func (w *web) glassRefused(r *http.Request, who *identity, t *tenant, card *ledger.Card, typed string, err error) *reply {
	var no *refusal
	if !errors.As(err, &no) {
		return w.failure(err)
	}
	switch no.Code {
	case codeSignInAgain:
		return tell(http.StatusForbidden, notice{Heading: "Sign in again", Text: no.Detail + " Nothing was recorded yet.",
			Link: signInPath("/approvals/"+card.ApprovalID.String(), false), Label: "Sign in again"})
	case codeReason, codeReasonLong, codeBadDecision:
		return w.card(r, who, t, card, http.StatusUnprocessableEntity, no.Detail+" Nothing was recorded.", typed)
	}
	return w.card(r, who, t, card, http.StatusForbidden, no.Detail+" Nothing was recorded.", typed)
}
