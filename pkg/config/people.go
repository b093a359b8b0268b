package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// subjectID is what an issuer may call somebody (OpenID Connect Core 1.0, section 2).
var subjectID = shape{regexp.MustCompile(`^[ -~]{1,255}$`), "1 to 255 ASCII characters, as in the claim sub"}

// mutableClaims are those of OpenID Connect Core 1.0, section 5.7, that must not identify anybody: people choose them
// themselves at many issuers, and an address of someone who left is given to someone else.
var mutableClaims = []string{"email", "preferred_username", "name"}

func (d *declared) readPeople(o *object) {
	d.readPersons(o)
	d.readRoles(o)
	d.readDelegations(o)
	d.readChannels(o)
}

func (d *declared) readPersons(o *object) {
	subjects, calls := map[[2]string]Position{}, callings{}
	for _, part := range o.objects("people") {
		p := &Person{
			ID:       part.id("id", slug),
			Name:     part.text("name"),
			Subject:  part.id("subject", subjectID),
			Issuer:   readIssuer(part),
			Email:    part.address("email"),
			Disabled: part.optFlag("disabled"),

			Qualifications: part.choices("qualifications", professions),
		}
		calls.add(part, "id", part.at("id"), p, p.ID)
		calls.add(part, "email", part.at("email"), p, p.Email)
		p.Aliases = part.texts("aliases", func(at Position, text string) {
			if strings.TrimSpace(text) == "" {
				part.problems.add(at, "aliases must hold no empty text")
			}
			calls.add(part, "aliases", at, p, text)
		})
		who := [2]string{p.Issuer, p.Subject}
		if first, twice := subjects[who]; twice && p.Subject != "" {
			part.fail("subject", "%s of the same issuer is another person already at %s", quote(p.Subject), first)
		} else {
			subjects[who] = part.at("subject")
		}
		part.close()
		d.People = append(d.People, p)
	}
}

// readIssuer is exact, since it is compared with the claim iss as text. Plain http is for an issuer on this machine.
func readIssuer(o *object) string {
	text := o.optText("issuer")
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?#") ||
		u.Scheme != "https" && !(u.Scheme == "http" && Loopback(u.Hostname())) {
		o.fail("issuer", "is %s, which must be an https URL without query or fragment, exactly as in the claim iss; "+
			"leave it out to mean the deployment's own issuer", quote(text))
	}
	return text
}

// callings is what each person is called, folded, and where that was written. Who asked for something is found by it,
// so that no two people can be called the same.
type callings map[string]calling

type calling struct {
	person *Person
	at     Position
}

func (c callings) add(o *object, name string, at Position, p *Person, text string) {
	key := fold(text)
	if key == "" {
		return // reported
	}
	first, taken := c[key]
	if !taken {
		c[key] = calling{p, at}
		return
	}
	if first.person != p {
		o.problems.add(at, "%s %s already means another person at %s; ids, email addresses and aliases are compared "+
			"without letter case", name, quote(text), first.at)
	}
}

func (d *declared) readRoles(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("roles") {
		r := &Role{Name: part.id("role", slug), Claims: readClaims(part), Members: part.texts("members", nil),
			Qualifications: part.choices("qualifications", professions)}
		if part.take("members") != nil && len(r.Members) == 0 { // else emptying it would let everybody in
			part.fail("members", "must list at least one person; leave it out to let everybody hold the role who has a claim")
		}
		unique(seen, part, "role", r.Name)
		part.close()
		d.places[r] = part
		d.Roles = append(d.Roles, r)
	}
}

func readClaims(o *object) map[string][]string {
	part := o.needObject("claims")
	if len(part.members) == 0 {
		part.problems.add(part.pos, "claims must list at least one claim with its accepted values, such as groups: [leads]")
	}
	claims := make(map[string][]string, len(part.members))
	for _, m := range part.members {
		if slices.Contains(mutableClaims, m.name) {
			part.problems.add(m.pos, "%s cannot give a role: it is a mutable claim, which can pass to another person; "+
				"use a claim that only the issuer's administrators set, such as groups (A4)", m.name)
		}
		claims[m.name] = part.texts(m.name, nil)
		if len(claims[m.name]) == 0 {
			part.problems.add(m.pos, "%s must list at least one accepted value", m.name)
		}
	}
	return claims
}

// checkPeople holds people.yaml together with the files that speak of people and roles.
func (d *declared) checkPeople() {
	for _, k := range d.APIKeys {
		if k.Owner != "" && d.personByID(k.Owner) == nil {
			d.places[keyName(k.Name)].fail("owner", "is %s, whom people.yaml does not declare, allowed: %s", quote(k.Owner),
				names(d.People, func(p *Person) string { return p.ID }))
		}
	}
	for _, s := range d.Sources {
		if s.Requester != "" && !d.hasPeople {
			d.places[s].fail("requester", "needs a file people.yaml: who asked is looked up there")
		}
	}
	if !d.hasPeople {
		return // nobody can sign in yet, so nobody is missing
	}
	for _, r := range d.Roles {
		for _, id := range r.Members {
			if d.personByID(id) == nil {
				d.places[r].fail("members", "has %s, whom people does not list, allowed: %s", quote(id),
					names(d.People, func(p *Person) string { return p.ID }))
			}
		}
	}
	for _, a := range d.Actions { // P9: a review that nobody may decide can only expire
		d.checkRoles(d.places[a], "audience", a.Audience)
		if e := a.Review.Escalation; e != nil {
			d.checkRoles(d.places[a], "review", e.To)
		}
		d.checkReviewers(a)
		d.checkBreakGlass(a)
		d.checkRoles(d.places[a], "resolve", a.Resolve.Roles)
	}
	d.checkDelegations()
	d.checkRoles(d.places[killSwitchPlace{}], "roles", d.KillSwitch.Roles)
	for _, c := range d.Channels {
		d.checkRoles(d.places[c], "roles", c.Roles)
	}
}

func (d *declared) checkRoles(place *object, name string, roles []string) {
	for _, role := range roles {
		if !slices.ContainsFunc(d.Roles, func(r *Role) bool { return r.Name == role }) {
			place.fail(name, "has %s, but nobody can hold the role %s: declare it in people.yaml, declared: %s",
				quote(role), role, names(d.Roles, func(r *Role) string { return r.Name }))
		}
	}
}
