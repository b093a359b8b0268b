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

// roles that the person holds in the tenant, by the configuration as it is now.
func (who *identity) roles(t *tenant) []string { return t.RolesOf(who.Claims) }

// holds reports whether the person has one of the roles.
func (who *identity) holds(t *tenant, roles []string) bool {
	return slices.ContainsFunc(who.roles(t), func(role string) bool { return slices.Contains(roles, role) })
}

// answersTo reports whether the person may be meant by a name that an event gave. Here the changeable claims count as well: they
// can only keep somebody from approving their own request.
func (who *identity) answersTo(t *tenant, name string) bool {
	name = strings.TrimSpace(name)
	if name == "" {
		return false
	}
	if meant := t.PersonByAlias(name); meant != nil {
		mine := who.person(t)
		return mine != nil && mine.ID == meant.ID
	}
	for _, mine := range []string{who.Subject, who.Email, who.Name, claimText(who.Claims, "preferred_username")} {
		if mine != "" && strings.EqualFold(mine, name) {
			return true
		}
	}
	return false
}

func claimText(claims map[string]any, name string) string {
	text, _ := claims[name].(string)
	return text
}
