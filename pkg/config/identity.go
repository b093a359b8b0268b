package config

import (
	"slices"
	"strings"
)

// PersonBySubject is who signed in as this subject, disabled or not; nil where the tenant does not know anybody so. Both
// are compared exactly, and issuer is "" for the deployment's own (A4).
func (t *Tenant) PersonBySubject(issuer, subject string) *Person {
	i := slices.IndexFunc(t.People, func(p *Person) bool { return p.Issuer == issuer && p.Subject == subject })
	if i < 0 || subject == "" {
		return nil
	}
	return t.People[i]
}

// PersonByAlias is whom an event calls by this id, mail address or alias, disabled or not; nil where that is nobody.
// Letter case and space around it do not count. It finds who asked (A5) and never proves who signed in.
func (t *Tenant) PersonByAlias(alias string) *Person {
	wanted := fold(alias)
	if wanted == "" {
		return nil
	}
	called := func(name string) bool { return fold(name) == wanted }
	for _, p := range t.People {
		if called(p.ID) || called(p.Email) || slices.ContainsFunc(p.Aliases, called) {
			return p
		}
	}
	return nil
}

// fold makes texts equal that differ in letter case or in space around them. Going through the upper case also unites
// letters that share it, such as the long and the round s.
func fold(text string) string { return strings.ToLower(strings.ToUpper(strings.TrimSpace(text))) }

// RolesOf are the roles that the claims of a sign-in give, sorted and each once. A claim counts where it is a text or a
// list of texts (as []string, or []any from encoding/json); anything else gives nothing.
func (t *Tenant) RolesOf(claims map[string]any) []string {
	var roles []string
	for _, r := range t.Roles {
		if r.heldBy(claims) {
			roles = append(roles, r.Name)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// RolesHeldBy are the roles that a sign-in gives a person, who is nil where the tenant does not know whoever signed in: those
// of RolesOf, without the ones that other people alone can hold.
func (t *Tenant) RolesHeldBy(p *Person, claims map[string]any) []string {
	var roles []string
	for _, r := range t.Roles {
		if r.heldBy(claims) && r.admits(p) {
			roles = append(roles, r.Name)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// QualificationsOf are the professions in which a person is qualified, by themselves or by a role that they hold, sorted and
// each once (P5). The person is nil where the tenant does not know whoever signed in.
func (t *Tenant) QualificationsOf(p *Person, claims map[string]any) []string {
	var qualifications []string
	if p != nil {
		qualifications = append(qualifications, p.Qualifications...)
	}
	for _, r := range t.Roles {
		if r.heldBy(claims) && r.admits(p) {
			qualifications = append(qualifications, r.Qualifications...)
		}
	}
	slices.Sort(qualifications)
	return slices.Compact(qualifications)
}

// admits reports whether the person may hold the role with the right claim.
func (r *Role) admits(p *Person) bool {
	return len(r.Members) == 0 || p != nil && slices.Contains(r.Members, p.ID)
}

func (t *Tenant) personByID(id string) *Person {
	i := slices.IndexFunc(t.People, func(p *Person) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return t.People[i]
}

func (r *Role) heldBy(claims map[string]any) bool {
	for name, accepted := range r.Claims {
		for _, value := range ClaimTexts(claims[name]) {
			if slices.Contains(accepted, value) {
				return true
			}
		}
	}
	return false
}

// ClaimTexts are the texts of a claim, a text or a list of texts (as []string, or []any from encoding/json); nil for
// anything else.
func ClaimTexts(claim any) []string {
	switch value := claim.(type) {
	case string:
		return []string{value}
	case []string:
		return value
	case []any:
		var list []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}
