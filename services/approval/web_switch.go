package approval

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// switchesPath is where the switches are.
const switchesPath = "/switches"

// switchGroup is the switches of one tenant.
type switchGroup struct {
	ID, Tenant string
	Roles      []string // who may close and open them
	Levers     []lever
}

// switchesView is all switches that a person may close and open, and the form that closes one.
type switchesView struct {
	Eye     *eye
	Groups  []switchGroup
	CSRF    string
	Command string
	Open    bool // this service can close and open
	Which   string
	Reason  string
	Problem string
}

// Away is how many switches stop something.
func (g *switchGroup) Away() (n int) {
	for i := range g.Levers {
		if g.Levers[i].State() != ledger.SwitchOpen {
			n++
		}
	}
	return n
}

// switchesPage lists the switches of all tenants whose switches the person may close and open. To anybody else, there are none.
func (w *web) switchesPage(r *http.Request, who *identity) *reply {
	return w.switchList(r, who, http.StatusOK, "", r.URL.Query().Get("which"), "")
}

func (w *web) switchList(r *http.Request, who *identity, status int, problem, which, reason string) *reply {
	v := &switchesView{Eye: &eye{}, CSRF: w.formToken(r.Context()), Command: uuid.NewString(), Open: w.a.desk != nil, Which: which,
		Reason: reason, Problem: problem}
	for _, t := range w.a.switchTenants(who) {
		all, err := w.a.levers(r.Context(), t)
		if err != nil {
			return w.failure(err)
		}
		v.Groups = append(v.Groups, switchGroup{t.ID, t.DisplayName, t.KillSwitch.By(), all})
	}
	if len(v.Groups) == 0 {
		return notFound()
	}
	return &reply{Status: status, title: "Switches", name: "switches", data: v, eye: v.Eye}
}

// switchView is one switch, what it covers, what was done to it, and the forms.
type switchView struct {
	*lever
	Eye     *eye
	Zone    *time.Location
	Report  ledger.DrainReport
	History []ledger.SwitchEntry
	CSRF    string
	Command string
	CanPull bool
	Typed   string // the reason, so far
	Ramp    string
	Problem string
	SignIn  string // where a sign-in that is too long ago to open it is put right, "" where it is not
	Desk    bool   // the person may see what is unknown on the desk
}

// Percent is the share of effects that it lets go.
func (l *lever) Percent() string { return fmt.Sprintf("%.0f%%", 100*l.Share()) }

// ramps are what the form offers, the usual one first.
var ramps = []choice{{"1m", "over a minute"}, {"10m", "over ten minutes"}, {"1h", "over an hour"}, {"0", "all at once"}}

// Ramps are the times over which it can open.
func (v *switchView) Ramps() []choice { return ramps }

func (w *web) switchPage(r *http.Request, who *identity) *reply {
	l, err := w.a.leverFor(r.Context(), who, r.PathValue("tenant"), r.PathValue("switch"))
	if err != nil {
		return w.switchFailure(err)
	}
	draft := w.sessions.GetString(r.Context(), keyDraft+l.Path())
	return w.oneSwitch(r, who, l, http.StatusOK, "", draft)
}

func (w *web) switchFailure(err error) *reply {
	if errors.Is(err, errNoSwitch) {
		return notFound()
	}
	return w.failure(err)
}

func (w *web) oneSwitch(r *http.Request, who *identity, l *lever, status int, problem, reason string) *reply {
	v := &switchView{lever: l, Eye: &eye{}, Zone: l.Tenant.TimeZone, CSRF: w.formToken(r.Context()), Command: uuid.NewString(),
		CanPull: w.a.desk != nil, Typed: reason, Ramp: r.PostFormValue("ramp"), Problem: problem,
		Desk: len(w.a.deskScopes(who)) > 0}
	var err error
	if v.Report, err = w.a.env.Ledger.DrainReport(r.Context(), l.Switch); err != nil {
		return w.failure(err)
	}
	if v.History, err = w.a.env.Ledger.SwitchHistory(r.Context(), l.Switch, switchEntries); err != nil {
		return w.failure(err)
	}
	if v.Report.Now.Sub(who.SignedInAt) > recentOpener {
		v.SignIn = signInPath(switchesPath+"/"+l.Path(), true)
	}
	return &reply{Status: status, title: "Switch: " + human(l.Name), name: "switch", data: v, eye: v.Eye}
}

// closeForm stops what a switch covers. It is one form with one field beside the reason: closing is urgent.
func (w *web) closeForm(r *http.Request, who *identity) *reply {
	return w.pullForm(r, who, pull{Close: true, Reason: r.PostFormValue("reason")})
}

// openForm lets what a switch covers go again.
func (w *web) openForm(r *http.Request, who *identity) *reply {
	p := pull{Reason: r.PostFormValue("reason")}
	ramp, err := time.ParseDuration(r.PostFormValue("ramp"))
	_, bad := fmt.Sscan(r.PostFormValue("seen"), &p.Seen)
	if err != nil || bad != nil || p.Seen < 1 {
		return trouble(http.StatusBadRequest, "The form was incomplete", "Nothing was changed.")
	}
	p.Ramp = ramp
	return w.pullForm(r, who, p)
}

func (w *web) pullForm(r *http.Request, who *identity, p pull) *reply {
	tenantID, name, _ := strings.Cut(r.PostFormValue("which"), "/")
	l, err := w.a.leverFor(r.Context(), who, tenantID, name)
	if err != nil {
		return w.switchFailure(err)
	}
	if p.CommandID, err = uuid.Parse(r.PostFormValue("command_id")); err != nil {
		return trouble(http.StatusBadRequest, "The form was incomplete", "Nothing was changed.")
	}
	if err := w.a.pull(r.Context(), who, l, p); err != nil {
		return w.notPulled(r, who, l, p, err)
	}
	w.sessions.Remove(r.Context(), keyDraft+l.Path())
	words := "Open: all that it covers may go again."
	switch {
	case p.Close:
		words = "Closed. No effect that it covers is begun any more; below is what is still in flight."
	case p.Ramp > 0:
		words = "It opens over " + p.Ramp.String() + ". Close it again if the first effects go wrong."
	}
	w.putFlash(r.Context(), "good", words)
	return seeOther(switchesPath + "/" + l.Path())
}

// notPulled tells why nothing was changed, and keeps what was typed.
func (w *web) notPulled(r *http.Request, who *identity, l *lever, p pull, err error) *reply {
	var no *refusal
	switch {
	case errors.Is(err, ledger.ErrSwitchChanged):
		if l, err = w.a.leverFor(r.Context(), who, l.Tenant.ID, l.Name); err != nil {
			return w.switchFailure(err)
		}
		return w.oneSwitch(r, who, l, http.StatusConflict, switchChanged, p.Reason)
	case !errors.As(err, &no):
		return w.failure(err)
	case no.Code == codeSignInAgain || no.Code == codeStepUp:
		if p.Reason != "" {
			w.forgetPages(r.Context(), 1)
			w.sessions.Put(r.Context(), keyDraft+l.Path(), p.Reason)
		}
		return tell(http.StatusForbidden, notice{Heading: "Sign in again to open it",
			Text: no.Detail + " Nothing was changed yet; your reason is kept.",
			Link: signInPath(switchesPath+"/"+l.Path(), no.Code == codeStepUp), Label: "Sign in again"})
	case no.Code == codeReason || no.Code == codeReasonLong || no.Code == codeBadDecision:
		return w.oneSwitch(r, who, l, http.StatusUnprocessableEntity, no.Detail+" Nothing was changed.", p.Reason)
	}
	return w.oneSwitch(r, who, l, http.StatusForbidden, no.Detail+" Nothing was changed.", p.Reason)
}
