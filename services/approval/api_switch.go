package approval

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// apiSwitches lists the switches that cover a tenant.
func (a *Approval) apiSwitches(w http.ResponseWriter, r *http.Request, who *identity) {
	t := a.tenant(r.PathValue("tenant"))
	if t == nil || !t.switches(who) {
		a.failed(w, errNoSwitch)
		return
	}
	all, err := a.levers(r.Context(), t)
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.SwitchList{TenantID: t.ID, Roles: t.KillSwitch.By(), Switches: make([]contracts.Switch, len(all))}
	for i := range all {
		answer.Switches[i] = switchOf(&all[i])
	}
	a.answer(w, http.StatusOK, answer)
}

func switchOf(l *lever) contracts.Switch {
	s := contracts.Switch{Switch: l.Name, Scope: l.Scope, Name: l.Of(), State: l.State(), Share: l.Share(), Epoch: l.Epoch,
		ChangedBy: l.ChangedBy, Reason: l.Reason, ChangedAt: orNone(l.ChangedAt)}
	if s.State == ledger.SwitchOpening {
		at := l.OpenAt()
		s.OpenAt = &at
	}
	return s
}

func (a *Approval) apiSwitch(w http.ResponseWriter, r *http.Request, who *identity) {
	l, err := a.leverFor(r.Context(), who, r.PathValue("tenant"), r.PathValue("switch"))
	if err != nil {
		a.failed(w, err)
		return
	}
	report, err := a.env.Ledger.DrainReport(r.Context(), l.Switch)
	if err != nil {
		a.failed(w, err)
		return
	}
	history, err := a.env.Ledger.SwitchHistory(r.Context(), l.Switch, switchEntries)
	if err != nil {
		a.failed(w, err)
		return
	}
	answer := contracts.SwitchCase{TenantID: l.Tenant.ID, Switch: switchOf(l), Report: reportOf(&report),
		History: make([]contracts.SwitchChange, len(history))}
	for i, c := range history {
		answer.History[i] = contracts.SwitchChange(c)
	}
	a.answer(w, http.StatusOK, answer)
}

func reportOf(r *ledger.DrainReport) contracts.SwitchReport {
	report := contracts.SwitchReport{Stopped: r.Stopped, Windowed: r.Windowed, Retrying: r.Retrying, InFlight: r.InFlight,
		InFlightUntil: orNone(r.Until), Unknown: r.Unknown, Accepted: r.Accepted, AtLeast: r.Cut,
		Calls: make([]contracts.SwitchCall, len(r.Calls))}
	for i, c := range r.Calls {
		report.Calls[i] = contracts.SwitchCall{OperationID: c.OperationID, ActionType: c.ActionType, Connector: c.Connector, State: c.State,
			At: c.At}
	}
	return report
}

// apiCloseSwitch stops what a switch covers at once, and tells what is in flight.
func (a *Approval) apiCloseSwitch(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.SwitchClosing
	if a.read(w, r, maxBody, &body) {
		a.apiPull(w, r, who, pull{Close: true, Reason: body.Reason})
	}
}

func (a *Approval) apiOpenSwitch(w http.ResponseWriter, r *http.Request, who *identity) {
	var body contracts.SwitchOpening
	switch {
	case !a.read(w, r, maxBody, &body):
	case body.OverSeconds < 0 || body.OverSeconds > int(longestRamp/time.Second):
		a.problem(w, contracts.CodeSchemaInvalid, "over_seconds must be from 0 to 86400.")
	case body.Seen < 1:
		a.problem(w, contracts.CodeSchemaInvalid, "seen must be the epoch of the switch, as it was shown.")
	default:
		a.apiPull(w, r, who, pull{Reason: body.Reason, Seen: body.Seen, Ramp: time.Duration(body.OverSeconds) * time.Second})
	}
}

// apiPull makes the change. The Idempotency-Key header, where it is sent, makes a repeated call the same change.
func (a *Approval) apiPull(w http.ResponseWriter, r *http.Request, who *identity, p pull) {
	l, err := a.leverFor(r.Context(), who, r.PathValue("tenant"), r.PathValue("switch"))
	if err == nil {
		p.CommandID = commandID(r, who, switchID(l, p.Close))
		err = a.pull(r.Context(), who, l, p)
	}
	switch {
	case errors.Is(err, ledger.ErrSwitchChanged):
		a.problem(w, contracts.CodeNotDecided, switchChanged)
	case err != nil:
		a.failed(w, err)
	default:
		a.apiSwitch(w, r, who)
	}
}

// switchChanged tells somebody whose opening was of a switch that has been changed meanwhile.
const switchChanged = "The switch has been changed since you were shown it. Nothing was changed: look at it as it is now."

// switchID names what is done to a switch, under which calls are repeated.
func switchID(l *lever, closes bool) uuid.UUID {
	verb := "open "
	if closes {
		verb = "close "
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:switch/"+verb+l.Path()))
}
