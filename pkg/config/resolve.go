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

// KillSwitch says who closes and opens a tenant's kill switches (D9, O8). Those that are of no tenant are the command line's alone.
type KillSwitch struct {
	Roles []string // that may, besides RoleOperator
}

// By lists the roles that may close and open.
func (k KillSwitch) By() []string { return append([]string{RoleOperator}, k.Roles...) }

func (d *declared) readKillSwitch(o *object) (k KillSwitch) {
	part := o.object("kill_switch")
	if part == nil {
		return k
	}
	k.Roles = part.texts("roles", nil)
	if len(k.Roles) == 0 {
		part.fail("roles", "must list at least one role that may close and open besides %s; leave kill_switch out where there is none", RoleOperator)
	}
	part.close()
	d.places[killSwitchPlace{}] = part
	return k
}

// killSwitchPlace finds the place of the tenant's kill_switch.
type killSwitchPlace struct{}

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
