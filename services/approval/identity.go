package approval

import (
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// identity is a person as the identity provider has just named them. Who it is, is Issuer and Subject; everything else can
// change or be shared, and only ever takes rights away (A4, APR-09).
type identity struct {
	Issuer, Subject string
	Name, Email     string         // for display
	Claims          map[string]any // of the ID token or userinfo; roles are read from them
	SignedInAt      time.Time      // when the person last proved who they are (auth_time); zero where it is not said
	ClaimsAt        time.Time      // when the provider said all this
	Channel         string         // web or api
}

// id is how records name the person: their id in the configuration, or issuer and subject where it has none.
func (who *identity) id(t *tenant) string {
	if p := who.person(t); p != nil {
		return p.ID
	}
	return who.Issuer + "#" + who.Subject
}

// person is who this is in the tenant's configuration, or nil.
func (who *identity) person(t *tenant) *config.Person {
	if p := t.PersonBySubject(who.Issuer, who.Subject); p != nil {
		return p
	}
	if who.Issuer == t.issuer {
		return t.PersonBySubject("", who.Subject)
	}
	return nil
}

// disabled reports whether the configuration has taken everything from the person.
func (who *identity) disabled(t *tenant) bool {
	p := who.person(t)
	return p != nil && p.Disabled
}

// roles that the person holds in the tenant, by the configuration as it is now: the claims give them, and where a role has members,
// to these alone.
func (who *identity) roles(t *tenant) []string { return t.RolesHeldBy(who.person(t), who.Claims) }

// holds reports whether the person has one of the roles.
func (who *identity) holds(t *tenant, roles []string) bool {
	return slices.ContainsFunc(who.roles(t), func(role string) bool { return slices.Contains(roles, role) })
}

// is reports whether a name that an event gave means this person for certain. It gives rights, so only what a person cannot
// change counts: who the configuration says they are, or else the subject itself (APR-09).
func (who *identity) is(t *tenant, name string) bool {
	if meant := t.PersonByAlias(name); meant != nil {
		mine := who.person(t)
		return mine != nil && mine.ID == meant.ID
	}
	return who.Subject != "" && who.Subject == strings.TrimSpace(name)
}

// answersTo reports whether the person may be meant by a name that an event gave. Here the changeable claims count as well: they
// can only keep somebody from approving their own request.
func (who *identity) answersTo(t *tenant, name string) bool {
	name = strings.TrimSpace(name)
	if name == "" {
		return false
	}
	if who.is(t, name) {
		return true
	}
	meant := t.PersonByAlias(name)
	for _, mine := range []string{who.Subject, who.Email, who.Name, claimText(who.Claims, "preferred_username")} {
		if mine != "" && (strings.EqualFold(mine, name) || (meant != nil && t.PersonByAlias(mine) == meant)) {
			return true
		}
	}
	return false
}

// secondAccount is the person of the configuration whose name or address an account has that is not theirs, or nil: somebody
// with two accounts is one person, with one vote (A5).
func (who *identity) secondAccount(t *tenant) *config.Person {
	if who.person(t) != nil {
		return nil
	}
	for _, name := range []string{who.Email, claimText(who.Claims, "preferred_username")} {
		if p := t.PersonByAlias(name); p != nil {
			return p
		}
	}
	return nil
}

func claimText(claims map[string]any, name string) string {
	text, _ := claims[name].(string)
	return text
}
