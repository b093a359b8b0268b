package approval

import (
	"context"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// plan is when those who were told are reminded, and when more people may decide (A12). From here on the request keeps who must
// approve it (A16).
func (a *Approval) plan(asked *ledger.Asked) ledger.Plan {
	p := ledger.Plan{ApprovalID: asked.ApprovalID, RemindBefore: asked.DecideBy.Sub(asked.RequestedAt) / 4}
	t := a.tenant(asked.TenantID)
	if t == nil || t.action(asked.ActionType) == nil {
		return p
	}
	kept := configured(t.action(asked.ActionType))
	p.Terms = &kept
	review := t.action(asked.ActionType).Review
	p.RemindBefore = review.RemindBefore
	if review.Escalation != nil {
		p.EscalateBefore = review.Escalation.Before
	}
	return p
}

// remind has everybody told again of what nobody has decided for long.
func (a *Approval) remind(ctx context.Context) (bool, error) {
	reminded, err := a.env.Ledger.Remind(ctx, noticeBatch)
	return reminded == noticeBatch, err
}

// escalate lets more people decide what nobody has, or what nobody could be told of.
func (a *Approval) escalate(ctx context.Context) (bool, error) {
	escalated, err := a.env.Ledger.Escalate(ctx, noticeBatch, a.widen)
	if escalated > 0 && err == nil {
		a.env.Log.Warn("requests escalated: nobody has decided them in time, or nobody could be told", "requests", escalated)
	}
	return escalated == noticeBatch, err
}

// widen is who may decide besides the audience, by the configuration as it is now.
func (a *Approval) widen(asked *ledger.Asked) ledger.Widening {
	t := a.tenant(asked.TenantID)
	if t == nil || t.action(asked.ActionType) == nil || t.action(asked.ActionType).Review.Escalation == nil {
		return ledger.Widening{} // the configuration has changed: nobody else may decide
	}
	roles := t.action(asked.ActionType).Review.Escalation.To
	return ledger.Widening{Roles: roles, To: a.addresses(asked, roles)}
}
