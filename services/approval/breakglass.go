package approval

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// breakGlass is who may approve actions of a type alone, nil where nobody may.
func (t *tenant) breakGlass(actionType string) *config.BreakGlass {
	if action := t.action(actionType); action != nil {
		return action.Review.BreakGlass
	}
	return nil
}

// breaks is by which of their own roles the person would approve alone, or why they may not. Nobody does so for somebody who is away.
func (t *tenant) breaks(who *identity, card *ledger.Card) (capacity, *refusal) {
	glass := t.breakGlass(card.ActionType)
	if glass == nil {
		return capacity{}, &refusal{codeNoGlass, "Nobody approves such an action alone: the configuration lets no role."}
	}
	if roles := among(who.roles(t), glass.Roles); len(roles) > 0 {
		return capacity{Roles: roles}, nil
	}
	return capacity{}, &refusal{codeWrongRole, "In an emergency this is approved alone by " + strings.Join(glass.Roles, " or ") +
		", which is no role of yours."}
}

// alone are the terms of somebody who approves alone: they say why, and have just proved who they are.
func (rule terms) alone(glass *config.BreakGlass) terms {
	rule.TypedReason = true
	if rule.RecentSignIn == 0 || rule.RecentSignIn > glass.RecentSignIn {
		rule.RecentSignIn = glass.RecentSignIn
	}
	return rule
}

// glass is what follows where the card is approved alone: who looks at it, and where they are told.
func (a *Approval) glass(t *tenant, card *ledger.Card) ledger.Glass {
	declared := t.breakGlass(card.ActionType)
	asked := ledger.Asked{TenantID: card.TenantID, ApprovalID: card.ApprovalID}
	return ledger.Glass{ReviewWithin: declared.ReviewWithin, Roles: declared.Roles,
		To: a.addresses(&asked, slices.Concat(card.Audience, declared.Roles))}
}

// glassFor lists what was approved alone and waits for a verdict of the person.
func (a *Approval) glassFor(ctx context.Context, who *identity, tenants, roles []string) ([]ledger.BrokenGlass, error) {
	list, err := a.env.Ledger.BrokenGlass(ctx, tenants, roles, unattendedListed)
	return slices.DeleteFunc(list, func(b ledger.BrokenGlass) bool {
		card := listedCard(&b.Listed)
		card.Glass = &b.Glass
		return a.tenant(b.TenantID).mayJudgeGlass(who, card) != nil
	}), err
}

// mayJudgeGlass says why a person may not judge what somebody approved alone, nil where they may: neither whoever did, by whatever
// name or account, nor whoever asked for it.
func (t *tenant) mayJudgeGlass(who *identity, card *ledger.Card) *refusal {
	g := card.Glass
	switch {
	case g == nil:
		return &refusal{codeNoGlass, "Nobody has approved this alone."}
	case who.disabled(t):
		return &refusal{codeDisabled, "You may not decide any more. Ask whoever keeps Holdpoint's configuration."}
	case who.Issuer == g.Issuer && who.Subject == g.Subject, who.id(t) == g.BrokenBy, who.answersTo(t, g.BrokenBy):
		return &refusal{codeOwnGlass, "You approved this alone, so somebody else has to look at it."}
	case t.asked(who, card):
		return &refusal{codeOwnRequest, "You asked for this, or corrected it, so somebody else has to look at it."}
	case who.secondAccount(t) != nil:
		return &refusal{codeSecond, "Holdpoint knows you by another account. Sign in with that one."}
	case !who.holds(t, g.Audience):
		return &refusal{codeWrongRole, "This is looked at by " + strings.Join(g.Audience, " or ") + ", which is no role of yours."}
	}
	return nil
}

// judgeGlass stores a verdict. A wrong one is told to the operators by their alerts.
func (a *Approval) judgeGlass(ctx context.Context, who *identity, t *tenant, card *ledger.Card, v verdict) (
	ledger.GlassJudged, error) {
	for _, check := range []func() *refusal{
		func() *refusal { return a.fresh(who, card.Now) },
		func() *refusal { return t.mayJudgeGlass(who, card) },
		v.known,
		func() *refusal { return v.said("Say what was wrong with it.") },
	} {
		if no := check(); no != nil {
			return ledger.GlassJudged{}, no
		}
	}
	judged, err := a.env.Ledger.JudgeGlass(ctx, ledger.GlassJudgement{CommandID: v.CommandID, TenantID: card.TenantID, RunID: card.RunID,
		ApprovalID: card.ApprovalID, Verdict: v.Verdict, Reason: strings.TrimSpace(v.Reason), Channel: who.Channel, PageDigest: v.PageDigest,
		Reviewer: t.reviewer(who, capacity{})})
	if err == nil && judged.Stored && judged.Verdict == ledger.VerdictWrong {
		a.env.Log.Error("somebody approved alone, and it was wrong", "tenant", card.TenantID, "approval", card.ApprovalID, "run", card.RunID,
			"approved_by", card.Glass.BrokenBy, "by", judged.By)
	}
	return judged, err
}

// glassAlert is how often a tenant's overdue looks are told of again.
const glassAlert = time.Hour

// alertGlass tells operators of what was approved alone and nobody has looked at in time. Nothing happens to it by itself: it stays on
// the list until somebody has.
func (a *Approval) alertGlass(ctx context.Context) (bool, error) {
	overdue, err := a.env.Ledger.OverdueGlass(ctx)
	if err != nil {
		return false, err
	}
	counts := map[string]int{}
	for _, o := range overdue {
		counts[o.TenantID] = o.Count
		if time.Since(a.glassAlerted[o.TenantID]) < glassAlert {
			continue
		}
		a.glassAlerted[o.TenantID] = time.Now()
		a.env.Log.Error("approved alone, and nobody else has looked at it in time", "tenant", o.TenantID, "approvals", o.Count,
			"oldest", o.Approval, "review_by", o.ReviewBy)
	}
	for id := range a.tenants {
		a.glassOverdue.Record(ctx, int64(counts[id]), metric.WithAttributes(attribute.String("tenant", id)))
	}
	return false, nil
}
