package approval

import (
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
	v := verdict{Verdict: r.PostFormValue("verdict"), Reason: typed}
	if v.CommandID, err = uuid.Parse(r.PostFormValue("command_id")); err != nil {
		return w.card(r, who, t, card, http.StatusBadRequest, "The form was incomplete. Nothing was recorded.", typed)
	}
	page, ok := w.wasShown(r.Context(), card.ApprovalID)
	if g := card.Glass; g != nil && g.Verdict == "" && t.mayJudgeGlass(who, card) == nil {
		if problem := v.onPage(page, ok, card.IntentHash.String()); problem != "" {
			return w.card(r, who, t, card, http.StatusConflict, problem, typed)
		}
	}
	v.PageDigest = page.Digest
	judged, err := w.a.judgeGlass(r.Context(), who, t, card, v)
	if err != nil {
		return w.notRecorded(err, "/approvals/"+card.ApprovalID.String(), func(status int, problem string) *reply {
			return w.card(r, who, t, card, status, problem, typed)
		})
	}
	if !judged.Stored {
		return w.again(r, who, card.ApprovalID, http.StatusConflict, standsVerdict(judged.By, judged.Verdict), typed)
	}
	w.putFlash(r.Context(), "good", "Recorded: that it was approved alone was "+judged.Verdict+".")
	return seeOther("/approvals/" + card.ApprovalID.String())
}
