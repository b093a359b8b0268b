package config

import (
	"slices"
	"strings"
)

// checkReviewers refuses an action that nobody could ever release (P5, P9). Who holds a role is known from the files
// alone where the role has members; elsewhere the claims of a sign-in say so, and there may always be one more person.
func (d *declared) checkReviewers(a *Action) {
	place := d.places[a]
	qualified, known := d.qualified(a.Profession)
	if a.Profession != "" && known && len(qualified) == 0 {
		place.fail("profession", "is %s, but nobody who may sign in is qualified in it: write qualifications: [%s] at a "+
			"role or at a person who is not disabled, in people.yaml (P5)", a.Profession, a.Profession)
		return
	}
	if len(a.Review.Stages) > 0 {
		d.checkGroups(a)
		return
	}
	may, known := d.mayDecide(a, qualified, known)
	if !known {
		return
	}
	if a.Review.Quorum > len(may) {
		d.failQuorum(a, "only %s may approve %s; lower it, or add to the members%s of %s", listed(may), a.Type,
			orQualifications(a), strings.Join(a.Audience, ", "))
		return // what follows would say it again
	}
	for _, k := range d.APIKeys {
		asks := slices.Contains(k.Scopes, ScopePublish) || slices.Contains(k.Scopes, ScopeWork)
		if !asks || !slices.Contains(may, k.Owner) || len(may)-1 >= a.Review.Quorum {
			continue
		}
		place.fail("audience", "leaves only %s to approve %s, of whom %s answers for the API key %s (%s) and so counts as "+
			"having asked for whatever comes with it; %d must approve: add to the members%s of %s, lower the quorum, or give "+
			"the key another owner (P9, A5)", listed(may), a.Type, k.Owner, k.Name, d.places[keyName(k.Name)].at("owner"),
			a.Review.Quorum, orQualifications(a), strings.Join(a.Audience, ", "))
	}
}

func orQualifications(a *Action) string {
	if a.Profession == "" {
		return ""
	}
	return " and qualified people"
}

func listed(people []string) string {
	if len(people) == 0 {
		return "nobody"
	}
	return strings.Join(people, ", ")
}

// failQuorum points at the quorum, or at the audience where the quorum is left out.
func (d *declared) failQuorum(a *Action, format string, args ...any) {
	place := d.places[a]
	if review := place.object("review"); review != nil && review.take("quorum") != nil {
		review.fail("quorum", "is %d, but "+format+" (P9)", append([]any{a.Review.Quorum}, args...)...)
		return
	}
	place.fail("audience", "must let %d approve, but "+format+" (P9)", append([]any{a.Review.Quorum}, args...)...)
}

// mayDecide are the ids of all who might approve an action, and whether that is known.
func (d *declared) mayDecide(a *Action, qualified []string, known bool) ([]string, bool) {
	return d.mayDecideAs(a, a.Audience, qualified, known)
}

// mayDecideAs are the ids of all who might approve an action by one of the roles, and whether that is known.
func (d *declared) mayDecideAs(a *Action, roles, qualified []string, known bool) ([]string, bool) {
	var may []string
	closed := len(roles) > 0
	for _, name := range roles {
		for _, r := range d.Roles {
			if r.Name == name {
				closed = closed && len(r.Members) > 0
				may = append(may, r.Members...)
			}
		}
	}
	for _, name := range roles { // a role that nobody declares is reported as such
		closed = closed && slices.ContainsFunc(d.Roles, func(r *Role) bool { return r.Name == name })
	}
	switch {
	case closed && a.Profession != "" && known:
		may = slices.DeleteFunc(may, func(id string) bool { return !slices.Contains(qualified, id) })
	case !closed && a.Profession != "" && known:
		may = qualified // who also hold a role of the audience, which only a sign-in can tell
	case !closed:
		return nil, false
	}
	return d.active(may), true
}

// qualified are the ids of all who might be qualified in a profession, and whether that is known.
func (d *declared) qualified(profession string) ([]string, bool) {
	var ids []string
	for _, p := range d.People {
		if slices.Contains(p.Qualifications, profession) {
			ids = append(ids, p.ID)
		}
	}
	for _, r := range d.Roles {
		if !slices.Contains(r.Qualifications, profession) {
			continue
		}
		if len(r.Members) == 0 {
			return nil, false
		}
		ids = append(ids, r.Members...)
	}
	return d.active(ids), true
}

// checkGroups refuses groups and stages that different people could never satisfy (A16, P9).
func (d *declared) checkGroups(a *Action) {
	d.checkStages(a)
	if short := d.fill(a, ""); short != nil {
		short.at.fail("role", "asks for %d of %s, whom only %s may be: too few different people are left, since one person counts for "+
			"one group of %s alone; lower approvals, or add to the members%s of %s (P9)", short.group.Approvals, short.group.Role,
			listed(short.may), a.Type, orQualifications(a), short.group.Role)
		return // what follows would say it again
	}
	for _, k := range d.APIKeys {
		if !slices.Contains(k.Scopes, ScopePublish) && !slices.Contains(k.Scopes, ScopeWork) || k.Owner == "" {
			continue
		}
		if short := d.fill(a, k.Owner); short != nil {
			short.at.fail("role", "leaves only %s to be %s, since %s answers for the API key %s (%s) and so counts as having asked for "+
				"whatever comes with it; %d must approve: add to the members%s of %s, lower approvals, or give the key another owner "+
				"(P9, A5)", listed(short.may), short.group.Role, k.Owner, k.Name, d.places[keyName(k.Name)].at("owner"),
				short.group.Approvals, orQualifications(a), short.group.Role)
		}
	}
}

// mayApproveAs are the ids of all who might approve an action as one role, and whether that is known.
func (d *declared) mayApproveAs(a *Action, role string) ([]string, bool) {
	qualified, known := d.qualified(a.Profession)
	return d.mayDecideAs(a, []string{role}, qualified, known)
}

// active are those who may decide at all, sorted and each once.
func (d *declared) active(ids []string) []string {
	kept := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		p := d.personByID(id)
		return p == nil || p.Disabled
	})
	slices.Sort(kept)
	return slices.Compact(kept)
}
