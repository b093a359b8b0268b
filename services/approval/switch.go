package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const (
	// recentOpener is how long ago the sign-in of somebody may be who lets effects go again. Closing asks for none: it is urgent, and
	// one stop too many is undone.
	recentOpener = 15 * time.Minute
	// longestRamp of an opening in stages.
	longestRamp = 24 * time.Hour
	// switchEntries are how many changes of a switch are told.
	switchEntries = 20
)

// errNoSwitch means that there is no such switch, or none that the person may see.
var errNoSwitch = errors.New("there is no such switch, or it is not for you to see")

// lever is one kill switch of a tenant's, or the global one, as it is now.
type lever struct {
	ledger.SwitchState
	Tenant *tenant
	Name   string // global, tenant, action_type:NAME or connector:NAME
	Owner  string // who answers for an action type, "" elsewhere
	Wider  string // a closed switch that stops what this one covers as well, "" where none does
}

// Of is the action type or connector, "" of the wider ones.
func (l *lever) Of() string {
	_, name, _ := strings.Cut(l.Name, ":")
	return name
}

// Path is the switch in an address.
func (l *lever) Path() string { return l.Tenant.ID + "/" + l.Name }

// Ours reports whether it is the tenant's, and not one that stops everything.
func (l *lever) Ours() bool { return l.Scope != ledger.ScopeGlobal }

// switches reports whether a person may close and open the tenant's switches (O8).
func (t *tenant) switches(who *identity) bool {
	return !who.disabled(t) && who.holds(t, t.KillSwitch.By())
}

// switchTenants are those whose switches a person may close and open, by their ids.
func (a *Approval) switchTenants(who *identity) []*tenant {
	return slices.DeleteFunc(a.tenantsOf(who), func(t *tenant) bool { return !t.switches(who) })
}

// levers are all switches that cover a tenant, the widest first: those of what it declares, and those that were ever changed.
func (a *Approval) levers(ctx context.Context, t *tenant) ([]lever, error) {
	states, err := a.env.Ledger.SwitchStates(ctx, []string{t.ID})
	if err != nil {
		return nil, err
	}
	all := []lever{t.lever(ledger.ScopeGlobal, "", ""), t.lever(ledger.ScopeTenant, t.ID, "")}
	for _, action := range t.Actions {
		all = append(all, t.lever(ledger.ScopeActionType, t.ID+"/"+action.Type, action.Owner))
	}
	for _, c := range t.Connectors {
		all = append(all, t.lever(ledger.ScopeConnector, t.ID+"/"+c.ID, ""))
	}
	for _, state := range states {
		i := slices.IndexFunc(all, func(l lever) bool { return l.Scope == state.Scope && l.Key == state.Key })
		if i < 0 {
			i, all = len(all), append(all, t.lever(state.Scope, state.Key, "")) // the configuration does not have it any more
		}
		all[i].SwitchState = state
	}
	return all, nil
}

func (t *tenant) lever(scope, key, owner string) lever {
	name := scope
	if _, of, found := strings.Cut(key, "/"); found {
		name += ":" + of
	}
	return lever{SwitchState: ledger.SwitchState{Switch: ledger.Switch{Scope: scope, Key: key}}, Tenant: t, Name: name, Owner: owner}
}

// leverFor reads one switch that the person may close and open. To anybody else it does not exist.
func (a *Approval) leverFor(ctx context.Context, who *identity, tenantID, name string) (*lever, error) {
	t := a.tenant(tenantID)
	if t == nil || !t.switches(who) {
		return nil, errNoSwitch
	}
	all, err := a.levers(ctx, t)
	if err != nil {
		return nil, err
	}
	wider := ""
	for i := range all { // the widest come first
		if all[i].Name == name && all[i].Ours() {
			all[i].Wider = wider
			return &all[i], nil
		}
		if all[i].Closed && (all[i].Scope == ledger.ScopeGlobal || all[i].Scope == ledger.ScopeTenant) {
			wider = all[i].Scope
		}
	}
	return nil, errNoSwitch
}

// pull is what a person does to a switch, as a channel received it.
type pull struct {
	CommandID uuid.UUID
	Close     bool
	Reason    string
	Ramp      time.Duration // of opening; 0 lets all go at once
	Seen      int64         // the switch's epoch as the person was shown it; of opening
}

// mayPull says why a person may not close or open the switch, or not like this. The role was looked at when the switch was read; what
// follows is the rest. The precedence is:
//
//  1. a second account of somebody;
//  2. to open: what the provider said is too old to go by, or the sign-in is too long ago. Closing goes by what the provider said when
//     the session began: somebody whose role was taken since can stop effects for a while, and that is the smaller harm;
//  3. the reason is missing, or the time of opening out of its bounds;
//  4. this service has no login to do it under.
func (a *Approval) mayPull(who *identity, l *lever, p *pull, now time.Time) *refusal {
	if other := who.secondAccount(l.Tenant); other != nil {
		return &refusal{codeSecond, "Holdpoint knows you by another account. Sign in with that one."}
	}
	if !p.Close {
		if no := a.fresh(who, now); no != nil {
			return no
		}
		if now.Sub(who.SignedInAt) > recentOpener {
			return &refusal{codeStepUp, fmt.Sprintf("Prove again who you are: to open a switch needs a sign-in within the last %s.", recentOpener)}
		}
	}
	missing := "Say why: whoever opens it again goes by it."
	if !p.Close {
		missing = "Say why what it stops may go again."
	}
	if no := checkWhy(p.Reason, missing); no != nil {
		return no
	}
	if p.Ramp < 0 || p.Ramp > longestRamp {
		return &refusal{codeBadDecision, fmt.Sprintf("A switch opens at once, or over a time of at most %s.", longestRamp)}
	}
	if a.desk == nil {
		return &refusal{codeNoDesk, "This installation closes and opens switches by the command line alone: holdpoint kill-switch"}
	}
	return nil
}

// pull closes or opens a switch for a person. Where somebody has changed one that is to be opened since it was shown, the error is
// ledger.ErrSwitchChanged: whoever closed it anew had a reason that this person has not seen.
func (a *Approval) pull(ctx context.Context, who *identity, l *lever, p pull) error {
	if no := a.mayPull(who, l, &p, time.Now()); no != nil {
		a.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", l.Tenant.ID), attribute.String("code", no.Code)))
		a.env.Log.Warn("a change of a kill switch was refused", "tenant", l.Tenant.ID, "switch", l.Name, "by", who.id(l.Tenant), "code", no.Code)
		return no
	}
	c := ledger.SwitchChange{CommandID: p.CommandID, Channel: who.Channel, Authority: l.Tenant.authority(who, capacity{}),
		Switch: ledger.Switch{Scope: l.Scope, Key: l.Key, Closed: p.Close, ChangedBy: who.id(l.Tenant), Reason: strings.TrimSpace(p.Reason)}}
	if !p.Close {
		c.Ramp, c.Seen = p.Ramp, p.Seen
	}
	epoch, err := a.desk.ledger.ChangeSwitch(ctx, c)
	if err != nil {
		return err
	}
	did := "opened"
	if p.Close {
		did = "closed"
	}
	a.env.Log.Warn("a kill switch was "+did, "tenant", l.Tenant.ID, "switch", l.Name, "by", c.ChangedBy, "epoch", epoch, "over", c.Ramp)
	return nil
}
