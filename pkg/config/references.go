package config

import (
	"slices"
	"strings"
)

// checkReferences holds the files of one tenant together.
func (d *declared) checkReferences() {
	for _, a := range d.Actions {
		d.checkAction(a)
	}
	for _, r := range d.Rules {
		d.checkRule(r)
		d.checkUnattended(r)
	}
	d.checkEvaluations()
	for _, s := range d.Sources {
		if draft := s.Draft(); draft != nil {
			d.checkDraft(draft)
		}
	}
	d.checkPeople()
}

func (d *declared) checkAction(a *Action) {
	place := d.places[a]
	connector := d.connector(a.Connector)
	if connector == nil {
		if a.Connector != "" {
			place.fail("connector", "is %s, which connectors.yaml does not declare, allowed: %s", quote(a.Connector),
				names(d.Connectors, func(c *Connector) string { return c.ID }))
		}
		return
	}
	if a.Operation != "" && connector.operation(a.Operation) == nil {
		place.fail("operation", "is %s, which connector %s does not have, allowed: %s", quote(a.Operation), a.Connector,
			names(connector.Operations, func(op *Operation) string { return op.Name }))
	}
}

// checkRule refuses an auto rule for what may never act, or cannot safely act, with no person asked. What a condition
// excludes cannot be known here, so a rule for "*" counts for every type.
func (d *declared) checkRule(r *Rule) {
	place := d.places[r]
	if r.Action != "*" && r.Action != "" && d.Action(r.Action) == nil {
		place.fail("action", "is %s, which actions.yaml does not register, allowed: * or %s", quote(r.Action),
			names(d.Actions, func(a *Action) string { return a.Type }))
	}
	if r.Route != RouteAuto {
		return
	}
	for _, a := range d.Actions {
		if r.Action != "*" && r.Action != a.Type {
			continue
		}
		if !a.Unattended() { // P5
			place.fail("route", "auto could match %s, which needs a qualified professional (%s), allowed: %s, %s, %s",
				a.Type, a.Profession, RouteHumanReview, RouteRepair, RouteReject)
		}
		if d.blind(a) { // P6
			place.fail("route", "auto could match %s, whose operation %s of %s offers neither lookup nor idempotent create, "+
				"so a lost answer could never be settled; allowed: %s, or declare lookup, or idempotency_header with key_window "+
				"and replays%s", a.Type, a.Operation, a.Connector, RouteHumanReview, d.unproven(a))
		}
	}
}

// blind reports whether P6 forbids the action to run unattended.
func (d *declared) blind(a *Action) bool {
	if a.Category != CategoryPayment && a.Reversible {
		return false
	}
	connector := d.connector(a.Connector)
	if connector == nil {
		return false // reported as such
	}
	op := connector.operation(a.Operation)
	return op != nil && op.Lookup == nil && !op.IdempotentCreate()
}

// Action is the registered action of that type, or nil. Of a kind with several types it is what they ask for together, nil where one of
// them is not registered or nobody can decide on all of them.
func (t *Tenant) Action(kind string) *Action {
	return ActionOf(kind, func(name string) *Action {
		i := slices.IndexFunc(t.Actions, func(a *Action) bool { return a.Type == name })
		if i < 0 {
			return nil
		}
		return t.Actions[i]
	})
}

// Operation is the operation of a connector, or nil.
func (t *Tenant) Operation(connector, name string) *Operation {
	i := slices.IndexFunc(t.Connectors, func(c *Connector) bool { return c.ID == connector })
	if i < 0 {
		return nil
	}
	return t.Connectors[i].operation(name)
}

func (d *declared) connector(id string) *Connector {
	i := slices.IndexFunc(d.Connectors, func(c *Connector) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return d.Connectors[i]
}

func (c *Connector) operation(name string) *Operation {
	i := slices.IndexFunc(c.Operations, func(op *Operation) bool { return op.Name == name })
	if i < 0 {
		return nil
	}
	return c.Operations[i]
}

func names[T any](list []T, name func(T) string) string {
	if len(list) == 0 {
		return "none, since none is declared"
	}
	all := make([]string, len(list))
	for i, item := range list {
		all[i] = name(item)
	}
	return strings.Join(all, ", ")
}
