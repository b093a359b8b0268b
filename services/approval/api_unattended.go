package approval

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiUnattended lists what rules let act, as far as the person may see it.
func (a *Approval) apiUnattended(w http.ResponseWriter, r *http.Request, who *identity) {
	all, err := a.unattendedFor(r.Context(), who)
	if err != nil {
		a.failed(w, err)
		return
	}
	a.answer(w, http.StatusOK, contracts.UnattendedList{HeldBack: cases(all.HeldBack), Samples: cases(all.Samples),
		BreakGlass: brokenGlass(all.Glass)})
}

func (a *Approval) apiCase(w http.ResponseWriter, r *http.Request, who *identity) (*tenant, *ledger.Unattended, bool) {
	run, err := uuid.Parse(r.PathValue("run"))
	if err != nil {
		a.failed(w, ledger.ErrNoUnattended)
		return nil, nil, false
	}
	t, u, err := a.unattendedCase(r.Context(), who, run)
	if err != nil {
		a.failed(w, err)
		return nil, nil, false
	}
	return t, u, true
}

// apiTakeBack has a case not sent. The same wish again is answered as the first was.
func (a *Approval) apiTakeBack(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.WithdrawalRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, u, ok := a.apiCase(w, r, who)
	if !ok {
		return
	}
	back, err := a.takeBack(r.Context(), who, t, u.RunID, u.Now, body.Reason)
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.TakeBackAnswer{RunID: u.RunID.String(), TakenBack: back.Done, RunState: back.RunState, FirstSentAt: back.FirstSentAt}
	if e := back.Effect; e != nil {
		answer.Effect, answer.Attempts = effectOf(e), e.Attempts
	}
	if back.Done {
		a.answer(w, http.StatusOK, answer)
		return
	}
	p := contracts.NewProblem(contracts.CodeNotDecided, tooLate(back))
	a.write(w, p.Status, contracts.ProblemContentType, struct {
		*contracts.Problem
		contracts.TakeBackAnswer
		RunID string `json:"run_id"` // both of the others have it
	}{p, answer, answer.RunID})
}

// apiJudge takes a verdict about a sample. The Idempotency-Key header, where it is sent, makes a repeated call the same verdict.
func (a *Approval) apiJudge(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.JudgementRequest
	if !a.read(w, r, maxBody, &body) {
		return
	}
	t, u, ok := a.apiCase(w, r, who)
	if !ok {
		return
	}
	sample, err := uuid.Parse(body.SampleID)
	if err != nil {
		a.problem(w, contracts.CodeSchemaInvalid, "sample_id must be one of the case's samples.")
		return
	}
	judged, err := a.judge(r.Context(), who, t, u, verdict{CommandID: commandID(r, who, sample), SampleID: sample, Verdict: body.Verdict,
		Reason: body.Reason})
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.JudgementAnswer{SampleID: body.SampleID, Verdict: judged.Verdict, ReviewerID: judged.By, JudgedAt: judged.At,
		RuleID: judged.Class.Rule, Stopped: judged.Stopped}
	if judged.Stored {
		a.answer(w, http.StatusOK, answer)
		return
	}
	p := contracts.NewProblem(contracts.CodeNotDecided, standsVerdict(judged.By, judged.Verdict))
	a.write(w, p.Status, contracts.ProblemContentType, struct {
		*contracts.Problem
		contracts.JudgementAnswer
	}{p, answer})
}

func cases(list []ledger.Unattended) []contracts.Unattended {
	all := make([]contracts.Unattended, len(list))
	for i := range list {
		all[i] = caseOf(&list[i])
	}
	return all
}

func caseOf(u *ledger.Unattended) contracts.Unattended {
	c := contracts.Unattended{RunID: u.RunID.String(), TenantID: u.TenantID, IdempotencyKey: u.Key, CorrelationID: u.CorrelationID,
		ActionType: u.ActionType, Target: contracts.ApprovalTarget{System: u.TargetSystem, RecordID: u.TargetRecord},
		RequestedBy: u.RequestedBy, IntentHash: u.IntentHash.String(), Intent: u.Canonical, Reasons: u.Reasons,
		PolicyVersion: u.PolicyVersion, AuthorizedAt: u.AuthorizedAt, CancelUntil: u.CancelUntil, RunState: u.RunState,
		Effect: *effectOf(&u.Effect)}
	for _, s := range u.Samples {
		c.Samples = append(c.Samples, contracts.Sample{SampleID: s.SampleID.String(), RuleID: s.Rule, Evaluation: s.Evaluation,
			Audience: s.Audience, ReviewBy: s.ReviewBy, Verdict: text0(s.Verdict), ReviewerID: text0(s.By), Reason: text0(s.Reason)})
	}
	return c
}

func effectOf(e *ledger.EffectView) *contracts.Effect {
	return &contracts.Effect{OperationID: e.OperationID, State: e.State, ExternalID: text0(e.ExternalID)}
}
