package approval

import (
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiJudgeGlass takes a verdict about what somebody approved alone. The Idempotency-Key header, where it is sent, makes a repeated call
// the same verdict.
func (a *Approval) apiJudgeGlass(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.GlassJudgementRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, card, ok := a.apiCard(w, r, who)
	if !ok {
		return
	}
	judged, err := a.judgeGlass(r.Context(), who, t, card, verdict{CommandID: commandID(r, who, card.ApprovalID), Verdict: body.Verdict,
		Reason: body.Reason})
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.GlassJudgementAnswer{ApprovalID: card.ApprovalID.String(), Verdict: judged.Verdict, ReviewerID: judged.By,
		JudgedAt: judged.At}
	if judged.Stored {
		a.answer(w, http.StatusOK, answer)
		return
	}
	p := contracts.NewProblem(contracts.CodeNotDecided, standsVerdict(judged.By, judged.Verdict))
	a.write(w, p.Status, contracts.ProblemContentType, struct {
		*contracts.Problem
		contracts.GlassJudgementAnswer
	}{p, answer})
}

func brokenGlass(list []ledger.BrokenGlass) []contracts.BrokenGlass {
	all := make([]contracts.BrokenGlass, len(list))
	for i := range list {
		all[i] = contracts.BrokenGlass{Approval: summary(&list[i].ApprovalSummary), BreakGlass: *glassOf(&list[i].Glass)}
	}
	return all
}

// glassOf is nil where nobody approved alone.
func glassOf(g *ledger.GlassReview) *contracts.GlassReview {
	if g == nil {
		return nil
	}
	return &contracts.GlassReview{BrokenBy: g.BrokenBy, Reason: g.Reason, BrokenAt: g.BrokenAt, ReviewBy: g.ReviewBy, Audience: g.Audience,
		Verdict: g.Verdict, ReviewerID: g.ReviewerID, VerdictReason: g.Said, JudgedAt: g.JudgedAt}
}
