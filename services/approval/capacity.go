package approval

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// capacity is by what right somebody decides: by their own roles, or by those of a person who is away (A16).
type capacity struct {
	For   *config.Person     // who is away; nil where the roles are the reviewer's own
	By    *config.Delegation // that lets the reviewer decide for them, or nil
	Roles []string           // of the audience, by which the vote may count in a group
}

// capacityFor is by what right the person would make this decision now, or why there is none. Somebody who holds a role of the
// audience decides as themself; only where that would not count, and a delegation would, they decide for another. One of
// whoever asked lets nobody approve: separation of duties holds for both.
func (t *tenant) capacityFor(who *identity, card *ledger.Card, decision string) (capacity, *refusal) {
	if decision == ledger.BreakGlass {
		return t.breaks(who, card)
	}
	rights := t.capacities(who, card)
	if len(rights) == 0 {
		return capacity{}, wrongRole(card)
	}
	if decision != ledger.Approve {
		return rights[0], nil
	}
	rights = slices.DeleteFunc(rights, func(c capacity) bool { return c.For != nil && t.asked(t.standIn(c.For), card) })
	if len(rights) == 0 {
		return capacity{}, &refusal{codeOwnRequest, "Whoever you decide for asked for this, or corrected it, so somebody else has to " +
			"approve it. You may reject it."}
	}
	rule := t.termsOf(card)
	for _, c := range rights {
		voted := c.For != nil && voteOf(card, t.standIn(c.For)) != nil
		if !voted && ledger.Refuses(rule.All, card.Cast, c.Roles) == "" {
			return c, nil
		}
	}
	return rights[0], nil
}

// capacities are all rights of the person to decide on this card at its time, their own first.
func (t *tenant) capacities(who *identity, card *ledger.Card) []capacity {
	var rights []capacity
	if roles := among(who.roles(t), card.Audience); len(roles) > 0 {
		rights = append(rights, capacity{Roles: t.countingAs(card, roles)})
	}
	for _, g := range t.DelegatedTo(who.person(t), card.Now) {
		if roles := among(t.RolesOfMember(g.From), card.Audience); len(roles) > 0 {
			rights = append(rights, capacity{For: t.PersonByID(g.From), By: g, Roles: t.countingAs(card, roles)})
		}
	}
	return rights
}

// countingAs adds the roles that somebody stands in for: who may decide only since the request has escalated counts for any group,
// since nobody of the groups has decided in time (A12).
func (t *tenant) countingAs(card *ledger.Card, roles []string) []string {
	action := t.action(card.ActionType)
	if action == nil || action.Review.Escalation == nil {
		return roles
	}
	named := t.termsOf(card).roles()
	for _, role := range roles {
		if slices.Contains(action.Review.Escalation.To, role) && !slices.Contains(named, role) {
			return append(slices.Clone(roles), named...)
		}
	}
	return roles
}

// delegatedRoles are those of people for whom the person may decide at a time.
func (t *tenant) delegatedRoles(who *identity, now time.Time) []string {
	var roles []string
	for _, g := range t.DelegatedTo(who.person(t), now) {
		roles = append(roles, t.RolesOfMember(g.From)...)
	}
	return roles
}

// actsFor reports whether the person may decide for somebody who holds one of the roles.
func (t *tenant) actsFor(who *identity, roles []string, now time.Time) bool {
	return len(among(t.delegatedRoles(who, now), roles)) > 0
}

// standIn is a person of the configuration as if they had signed in, to be told from whoever asked and from who has voted.
func (t *tenant) standIn(p *config.Person) *identity {
	return &identity{Issuer: cmp.Or(p.Issuer, t.issuer), Subject: p.Subject, Name: p.Name, Email: p.Email}
}

// reviewer is the person as the decision records them: "sam for nora" where sam decides for nora.
func (t *tenant) reviewer(who *identity, c capacity) ledger.Reviewer {
	r := ledger.Reviewer{Issuer: who.Issuer, Subject: who.Subject, ID: who.id(t), Authority: t.authority(who, c), Roles: c.Roles}
	if c.For != nil {
		away := t.standIn(c.For)
		r.ID += " for " + c.For.ID
		r.For = &ledger.Principal{Issuer: away.Issuer, Subject: away.Subject, ID: c.For.ID, Starts: c.By.Starts, Ends: c.By.Ends}
	}
	return r
}

// among are those of the names that are on the list.
func among(names, list []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(list, name) })
}
