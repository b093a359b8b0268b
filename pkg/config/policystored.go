package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// WithPolicy is the tenant with a stored policy in place of that of its files: actions, schemas, rules and workflow versions.
// All else, such as connectors, people and sources, stays what the files say. The content must have the hash that is its
// version, must hold nothing that this release does not know, and is held against the rest of the configuration as files are
// (P5, P6, P9): what a connector no longer offers cannot be decided on. The error joins all that is wrong. Nothing is shared
// with a tenant that another call returns, but for what is not the policy's.
func (t *Tenant) WithPolicy(version string, content []byte) (*Tenant, error) {
	stored, err := decodePolicy(version, content)
	if err != nil {
		return nil, fmt.Errorf("policy version %s of tenant %s: %w", version, t.ID, err)
	}
	joined := *t
	joined.WorkflowVersions, joined.PolicyVersion, joined.PolicyContent = stored.WorkflowVersions, version, content
	joined.Actions, joined.Rules, joined.Evaluations = nil, nil, stored.Evaluations
	d := &joining{declared: &declared{Tenant: &joined, loader: &loader{}, places: map[any]*object{}, hasPeople: t.hasPeople()}}
	d.adoptActions(stored)
	for _, a := range joined.Actions {
		a.Resolve = resolveOf(a)
		if own := t.Action(a.Type); own != nil {
			a.Card, a.Resolve = own.Card, own.Resolve // what people are shown, and how they settle, is no part of the policy
		}
	}
	d.adoptRules(stored)
	d.placeRest()
	d.checkReferences()
	if err := d.loader.join(); err != nil {
		return nil, fmt.Errorf("policy version %s cannot be used with the configuration of tenant %s:\n%w", version, t.ID, err)
	}
	return d.Tenant, nil
}

// joining is a tenant that takes a stored policy. Its parts have names for places, since they stand in no file.
type joining struct{ *declared }

func (d joining) place(what string, args ...any) *object {
	where := fmt.Sprintf("tenant %s, policy version %.12s, ", d.ID, d.PolicyVersion) + fmt.Sprintf(what, args...)
	return &object{problems: &d.loader.problems, pos: Position{File: where}}
}

func (d joining) adoptActions(stored *policyContent[json.RawMessage]) {
	for i := range stored.Actions {
		a := &stored.Actions[i]
		d.places[a] = d.place("action %s", a.Type)
		a.Schema, a.pos = stored.Schemas[i], d.places[a].pos
		for s, stage := range a.Review.Stages {
			for g := range stage.Groups {
				d.places[groupPlace{a, s, g}] = d.place("action %s, review", a.Type)
			}
		}
		if a.Review.BreakGlass != nil {
			d.places[a.Review.BreakGlass] = d.place("action %s, break_glass", a.Type)
		}
		d.checkLists(a)
		d.Actions = append(d.Actions, a)
	}
}

func (d joining) adoptRules(stored *policyContent[json.RawMessage]) {
	for i := range stored.Rules {
		r := &stored.Rules[i]
		d.places[r] = d.place("rule %s", r.ID)
		r.Pos = d.places[r].pos
		if !slices.Contains([]string{RouteAuto, RouteHumanReview, RouteRepair, RouteReject}, r.Route) {
			d.places[r].fail("route", "is %s, which is no route of this release", quote(r.Route))
		}
		if r.Exception != nil {
			d.places[r.Exception] = d.place("rule %s, exception", r.ID)
		}
		d.Rules = append(d.Rules, r)
	}
	for _, e := range d.Evaluations {
		d.places[e] = d.place("evaluation %s", e.ID)
	}
}

func decodePolicy(version string, content []byte) (*policyContent[json.RawMessage], error) {
	if found := PolicyVersionOf(content); found != version {
		return nil, fmt.Errorf("its content has the hash %s: it was changed after it was stored", found)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var stored policyContent[json.RawMessage]
	if err := decoder.Decode(&stored); err != nil {
		return nil, fmt.Errorf("it cannot be read by this release: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it cannot be read by this release: more follows its end")
	}
	if len(stored.Schemas) != len(stored.Actions) {
		return nil, fmt.Errorf("it has %d actions and %d schemas", len(stored.Actions), len(stored.Schemas))
	}
	return &stored, nil
}

// checkLists refuses what an earlier or later release may have called by another name, or left to a default: a value that
// nobody compares with would ask for nothing.
func (d joining) checkLists(a *Action) {
	for _, c := range []struct {
		name, value string
		allowed     []string
	}{
		{"risk", a.Risk, risks}, {"category", a.Category, categories}, {"profession", a.Profession, append([]string{""}, professions...)},
	} {
		if !slices.Contains(c.allowed, c.value) {
			d.places[a].fail(c.name, "is %s, which this release does not know", quote(c.value))
		}
	}
	if a.Review.Quorum < 1 {
		d.places[a].fail("review", "asks for nobody's approval; at least one is needed")
	}
	if b := a.Review.BreakGlass; b != nil && (b.ReviewWithin <= 0 || b.RecentSignIn <= 0) {
		d.places[b].fail("review_within", "and recent_sign_in must be above zero")
	}
	if a.DecideWithin <= 0 || a.ExecuteWithin <= 0 {
		d.places[a].fail("decide_within", "and execute_within must be above zero")
	}
	if len(a.Audience) == 0 { // P9
		d.places[a].fail("audience", "must list at least one role that may decide")
	}
}

// placeRest names the parts of the files that a stored policy may not fit. What is wrong with the files alone was found when
// they were loaded.
func (d joining) placeRest() {
	for _, k := range d.APIKeys {
		d.places[keyName(k.Name)] = d.place("API key %s", k.Name)
	}
	for _, s := range d.Sources {
		d.places[s] = d.place("source %s", s.ID)
		if draft := s.Draft(); draft != nil {
			d.places[draft] = d.place("source %s", s.ID)
		}
	}
	for _, r := range d.Roles {
		d.places[r] = d.place("role %s", r.Name)
	}
	for _, c := range d.Channels {
		d.places[c] = d.place("channel %s", c.ID)
	}
	for _, g := range d.Delegations {
		d.places[g] = d.place("delegation from %s", g.From)
	}
}

// hasPeople tells whether the tenant's files have a people.yaml that says anything.
func (t *Tenant) hasPeople() bool { return len(t.People)+len(t.Roles)+len(t.Channels) > 0 }
