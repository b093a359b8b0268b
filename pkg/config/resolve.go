package config

import "time"

// RoleOperator settles by hand what could not be settled by reading, whatever the action type (R6).
const RoleOperator = "operator"

// defaultAlertAfter is long past what lookups of a provider that is up take, and an outage of minutes is not yet somebody's night.
const defaultAlertAfter = 15 * time.Minute

// Resolve is how people settle an effect that could not be settled by reading (R6), and when its owner is alerted (R9).
type Resolve struct {
	Roles []string // that may settle, besides RoleOperator
	// SecondPerson has another person confirm that what may have been sent is sent again, unless the provider replays its key.
	SecondPerson bool
	AlertAfter   time.Duration // how long an effect may be unknown before it is alerted on
}

// By lists the roles that may settle.
func (r Resolve) By() []string { return append([]string{RoleOperator}, r.Roles...) }

// OperationOf is an operation of a connector, nil where the tenant declares none of that name.
func (t *Tenant) OperationOf(connector, name string) *Operation {
	for _, c := range t.Connectors {
		if c.ID == connector {
			return c.operation(name)
		}
	}
	return nil
}

// resolveOf is what holds where nothing is declared: what cannot be undone is sent again by two people alone.
func resolveOf(a *Action) Resolve {
	return Resolve{SecondPerson: !a.Reversible, AlertAfter: defaultAlertAfter}
}

func readResolve(o *object, a *Action) Resolve {
	r := resolveOf(a)
	part := o.object("resolve")
	if part == nil {
		return r
	}
	r.Roles = part.texts("roles", nil)
	if part.take("second_person") != nil {
		r.SecondPerson = part.flag("second_person")
	}
	r.AlertAfter = part.duration("alert_after", defaultAlertAfter)
	part.close()
	return r
}
