package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// unattendedListed is how many cases a list of one tenant has at most.
const unattendedListed = 200

// unattended is what a person may see of what rules let act with no person asked, and of what somebody approved alone (P4, A16).
type unattended struct {
	HeldBack []ledger.Unattended  // not sent yet, the next one first
	Samples  []ledger.Unattended  // to be looked at, the most urgent first
	Glass    []ledger.BrokenGlass // approved alone and to be looked at, the most urgent first
}

// unattendedFor lists what acts in all tenants in which the person has a role and is not disabled.
func (a *Approval) unattendedFor(ctx context.Context, who *identity) (all unattended, err error) {
	var tenants, roles []string
	for id := range a.tenants {
		t := a.tenant(id)
		if mine := who.roles(t); len(mine) > 0 && !who.disabled(t) {
			tenants, roles = append(tenants, id), append(roles, mine...)
		}
	}
	if len(tenants) == 0 {
		return all, nil
	}
	if all.HeldBack, err = a.env.Ledger.HeldBack(ctx, tenants, unattendedListed); err != nil {
		return all, err
	}
	if all.Samples, err = a.env.Ledger.Samples(ctx, tenants, roles, unattendedListed); err != nil {
		return all, err
	}
	if all.Glass, err = a.glassFor(ctx, who, tenants, roles); err != nil {
		return all, err
	}
	hidden := func(u ledger.Unattended) bool { return !a.tenant(u.TenantID).sees(who, &u) }
	all.HeldBack = slices.DeleteFunc(all.HeldBack, hidden)
	all.Samples = slices.DeleteFunc(all.Samples, func(u ledger.Unattended) bool {
		return a.tenant(u.TenantID).waitingSample(who, &u) == nil
	})
	return all, nil
}

// unattendedCase reads one case that the person may see. To anybody else it does not exist.
func (a *Approval) unattendedCase(ctx context.Context, who *identity, run uuid.UUID) (*tenant, *ledger.Unattended, error) {
	u, err := a.env.Ledger.UnattendedOf(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	t := a.tenant(u.TenantID)
	if t == nil || !t.sees(who, u) {
		return nil, nil, ledger.ErrNoUnattended
	}
	return t, u, nil
}

// sees reports whether a person may see a case, and have it not sent: who decides on such actions otherwise, who looks at its
// samples, operators, and whoever asked; nobody who is disabled.
func (t *tenant) sees(who *identity, u *ledger.Unattended) bool {
	if who.disabled(t) {
		return false
	}
	roles := []string{roleOperator}
	if action := t.action(u.ActionType); action != nil {
		roles = append(roles, action.Audience...)
	}
	for _, s := range u.Samples {
		roles = append(roles, s.Audience...)
	}
	return who.holds(t, roles) || who.is(t, u.RequestedBy)
}

// waitingSample is the sample of the case that the person may judge now, nil where there is none. Nobody judges what they asked for.
func (t *tenant) waitingSample(who *identity, u *ledger.Unattended) *ledger.SampleView {
	if who.disabled(t) || who.secondAccount(t) != nil || who.answersTo(t, u.RequestedBy) {
		return nil
	}
	i := slices.IndexFunc(u.Samples, func(s ledger.SampleView) bool { return s.Verdict == nil && who.holds(t, s.Audience) })
	if i < 0 {
		return nil
	}
	return &u.Samples[i]
}

// fresh is why what the provider said of the person is too old to go by, nil where it is not.
func (a *Approval) fresh(who *identity, now time.Time) *refusal {
	if now.Sub(who.ClaimsAt) > a.settings.RolesMaxAge {
		return &refusal{codeSignInAgain, fmt.Sprintf("Sign in again: roles are read from a sign-in that is at most %s old.",
			a.settings.RolesMaxAge)}
	}
	return nil
}

// takeBack has what a run would send not sent, where it is certain that it was not (D14). Whoever sees it may. now is the database's.
func (a *Approval) takeBack(ctx context.Context, who *identity, t *tenant, run uuid.UUID, now time.Time, reason string) (ledger.TakenBack, error) {
	no := a.fresh(who, now)
	if no == nil {
		no = checkWhy(reason, "Say why: the run ends with it.")
	}
	if no != nil {
		return ledger.TakenBack{}, no
	}
	return a.env.Ledger.TakeBack(ctx, ledger.TakeBack{TenantID: t.ID, RunID: run, By: who.id(t), Reason: strings.TrimSpace(reason)})
}

// judge stores a verdict, and stops the rule's exceptions where the case was wrong (P4).
func (a *Approval) judge(ctx context.Context, who *identity, t *tenant, u *ledger.Unattended, v verdict) (ledger.Judged, error) {
	if no := a.mayJudge(who, t, u, v); no != nil {
		return ledger.Judged{}, no
	}
	judged, err := a.env.Ledger.JudgeSample(ctx, ledger.Judgement{CommandID: v.CommandID, TenantID: u.TenantID, RunID: u.RunID,
		SampleID: v.SampleID, Verdict: v.Verdict, Reason: strings.TrimSpace(v.Reason), Channel: who.Channel, PageDigest: v.PageDigest,
		Reviewer: t.reviewer(who, capacity{})})
	if err == nil && judged.Stored && judged.Verdict == ledger.VerdictWrong {
		a.env.Log.Error("a rule's exceptions are stopped: a sample was wrong; its cases go to people until the rule names another evaluation",
			"tenant", u.TenantID, "rule", judged.Class.Rule, "evaluation", judged.Class.Evaluation, "run", u.RunID, "by", judged.By)
	}
	return judged, err
}

func (a *Approval) mayJudge(who *identity, t *tenant, u *ledger.Unattended, v verdict) *refusal {
	if no := v.known(); no != nil {
		return no
	}
	if no := a.fresh(who, u.Now); no != nil {
		return no
	}
	i := slices.IndexFunc(u.Samples, func(s ledger.SampleView) bool { return s.SampleID == v.SampleID })
	switch {
	case i < 0:
		return &refusal{codeWrongRole, "The case has no such sample."}
	case who.answersTo(t, u.RequestedBy):
		return &refusal{codeOwnRequest, "You asked for this, so somebody else has to look at it."}
	case who.secondAccount(t) != nil:
		return &refusal{codeSecond, "Holdpoint knows you by another account. Sign in with that one."}
	case !who.holds(t, u.Samples[i].Audience):
		return &refusal{codeWrongRole, "This is looked at by " + strings.Join(u.Samples[i].Audience, " or ") + ", which is no role of yours."}
	}
	return v.said("Say what was wrong: the rule lets nothing act any more.")
}

// checkWhy wants a reason that says something.
func checkWhy(reason, missing string) *refusal {
	switch {
	case !says(reason):
		return &refusal{codeReason, missing}
	case utf8.RuneCountInString(strings.TrimSpace(reason)) > longestReason:
		return tooLong()
	}
	return nil
}

// tooLate says why a case could not be taken back.
func tooLate(b ledger.TakenBack) string {
	switch {
	case b.Effect == nil || b.RunState != ledger.RunApproved && b.Effect.State != ledger.EffectCompleted:
		return "It is not about to be sent: the run is " + human(b.RunState) + ". " + b.OutcomeReason
	case b.Effect.State == ledger.EffectCompleted:
		return fmt.Sprintf("Too late: it was done. The provider calls it %s; operation %s, %d attempts, the first of %s.",
			orNothing(b.Effect.ExternalID), b.Effect.OperationID, b.Effect.Attempts, momentOf(b.FirstSentAt))
	case b.FirstSentAt != nil || b.Effect.State == ledger.EffectSending:
		return fmt.Sprintf("Too late: operation %s may have been sent. It is %s after %d attempts; the first request left at %s.",
			b.Effect.OperationID, human(b.Effect.State), b.Effect.Attempts, momentOf(b.FirstSentAt))
	case b.MaybeSent && b.Effect.Unsent():
		return fmt.Sprintf("Operation %s may have been sent: Holdpoint's database was put back to a backup, which does not know. It is looked "+
			"for at the provider before it is sent, and can be taken back where it is not found.", b.Effect.OperationID)
	}
	return fmt.Sprintf("Operation %s is %s: an operator settles it.", b.Effect.OperationID, human(b.Effect.State))
}

func orNothing(text *string) string {
	if text == nil {
		return "nothing that we know of"
	}
	return *text
}

func momentOf(at *time.Time) string {
	if at == nil {
		return "a moment that is not known"
	}
	return at.UTC().Format("15:04:05 UTC on 2 January 2006")
}
