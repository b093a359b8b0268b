package config

import (
	"slices"
	"time"
)

// longestDelegation is for an absence. Who is away for longer hands the role over where roles are given.
const longestDelegation = 90 * 24 * time.Hour

// Delegation lets one person decide for another who is away (A16). It carries the roles of which From is a listed member: what the
// claims of a sign-in give is known only of who signs in, and a qualification is nobody else's (P5).
type Delegation struct {
	From, To     string // ids of people
	Starts, Ends time.Time
	Reason       string
}

// At reports whether the delegation lasts at a time: from Starts on, and before Ends.
func (g *Delegation) At(now time.Time) bool { return !now.Before(g.Starts) && now.Before(g.Ends) }

// DelegatedTo are the delegations to a person that last at a time, in the order of people.yaml. Those of somebody disabled are
// none.
func (t *Tenant) DelegatedTo(p *Person, now time.Time) []*Delegation {
	var lasting []*Delegation
	for _, g := range t.Delegations {
		from := t.personByID(g.From)
		if p != nil && !p.Disabled && g.To == p.ID && g.At(now) && from != nil && !from.Disabled {
			lasting = append(lasting, g)
		}
	}
	return lasting
}

// PersonByID is who has this id in people.yaml, disabled or not, or nil.
func (t *Tenant) PersonByID(id string) *Person { return t.personByID(id) }

// RolesOfMember are the roles that list a person among their members, sorted and each once.
func (t *Tenant) RolesOfMember(id string) []string {
	var roles []string
	for _, r := range t.Roles {
		if slices.Contains(r.Members, id) {
			roles = append(roles, r.Name)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func (d *declared) readDelegations(o *object) {
	for _, part := range o.objects("delegations") {
		g := &Delegation{From: part.text("from"), To: part.text("to"), Starts: part.instant("starts"), Ends: part.instant("ends"),
			Reason: part.text("reason")}
		if g.From != "" && g.From == g.To {
			part.fail("to", "is %s, who would decide for themself; name another person", quote(g.To))
		}
		if lasts := g.Ends.Sub(g.Starts); !g.Starts.IsZero() && !g.Ends.IsZero() {
			switch {
			case lasts <= 0:
				part.fail("ends", "is %s, which must be later than starts, %s", g.Ends.Format(time.RFC3339), g.Starts.Format(time.RFC3339))
			case lasts > longestDelegation:
				part.fail("ends", "is %s, which must not be more than 90 days after starts, %s; who is away for longer hands the role over",
					g.Ends.Format(time.RFC3339), g.Starts.Format(time.RFC3339))
			}
		}
		part.close()
		d.places[g] = part
		d.Delegations = append(d.Delegations, g)
	}
}

// instant is a time of RFC 3339 with its offset, such as 2026-12-01T09:00:00+01:00.
func (o *object) instant(name string) time.Time {
	text := o.text(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		o.fail(name, "is %s, which must be a time of RFC 3339 with its offset, such as 2026-12-01T09:00:00+01:00", quote(text))
	}
	return at
}

// checkDelegations holds the delegations to the people and roles, and to each other.
func (d *declared) checkDelegations() {
	for _, g := range d.Delegations {
		place := d.places[g]
		for _, one := range [][2]string{{"from", g.From}, {"to", g.To}} {
			if one[1] != "" && d.personByID(one[1]) == nil {
				place.fail(one[0], "is %s, whom people does not list, allowed: %s", quote(one[1]),
					names(d.People, func(p *Person) string { return p.ID }))
			}
		}
		if d.personByID(g.From) != nil && len(d.RolesOfMember(g.From)) == 0 {
			place.fail("from", "is %s, who is a member of no role, so that there is nothing to delegate: list %s among the members of a "+
				"role, declared: %s", quote(g.From), g.From, names(d.Roles, func(r *Role) string { return r.Name }))
		}
		d.checkChain(g)
	}
}

// checkChain refuses what would pass a role on twice: who decides for somebody is asked for themself, and no further.
func (d *declared) checkChain(g *Delegation) {
	i := slices.IndexFunc(d.Delegations, func(other *Delegation) bool {
		return other != g && other.From == g.To && other.Starts.Before(g.Ends) && g.Starts.Before(other.Ends)
	})
	if i >= 0 && g.To != "" {
		d.places[g].fail("to", "is %s, whose own roles are delegated at the same time at %s; a delegation is not passed on",
			quote(g.To), d.places[d.Delegations[i]].at("from"))
	}
}
