package approval

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// deskCaseView is all that is said about one effect. It has nothing that belongs to one visit, so that it can be hashed.
type deskCaseView struct {
	*ledger.DeskCase
	Eye     *eye
	Tenant  string
	Zone    *time.Location
	Owner   string
	Change  []compared
	Request string // the authorized intent, whole
	Where   string // the address of the system and the reference of its credential
	Steps   []step
	Repeats bool // the provider answers a repeated key with the first result, at this time
	Pending *ledger.ResolutionView
}

// When is an exact time in UTC, and in the tenant's zone where it has one.
func (v *deskCaseView) When(at time.Time) template.HTML { return inZone(at, v.Zone) }

// deskCasePage is one effect, and the forms of this visit around it.
type deskCasePage struct {
	View    *deskCaseView
	Main    template.HTML
	Who     *identity
	WhoID   string
	CSRF    string
	Command string
	Typed   resolution
	Problem string
	Open    bool   // it waits, and this service can settle it
	Two     bool   // that it was not done takes a second person
	Hint    string // why the person is not the second one, "" where they are
	SignIn  string // where a sign-in that is too long ago is put right, "" where it is not
}

func (w *web) deskCasePage(r *http.Request, who *identity) *reply {
	t, c, err := w.a.deskCase(r.Context(), who, r.PathValue("operation"))
	if err != nil {
		return w.failure(err)
	}
	draft := w.sessions.GetString(r.Context(), keyDraft+c.OperationID())
	return w.deskCase(r, who, t, c, http.StatusOK, "", resolution{Reason: draft})
}

// pageOf is under what the page of an effect is remembered.
func pageOf(c *ledger.DeskCase) uuid.UUID {
	return uuid.NewSHA1(c.RunID, []byte("desk "+c.OperationID()))
}

// deskCase makes the page and remembers its digest: a resolution says which page it was made on.
func (w *web) deskCase(r *http.Request, who *identity, t *tenant, c *ledger.DeskCase, status int, problem string, typed resolution) *reply {
	v, err := w.deskCaseView(r, t, c)
	if err != nil {
		return w.failure(err)
	}
	p := &deskCasePage{View: v, Who: who, WhoID: who.id(t), CSRF: w.formToken(r.Context()), Command: uuid.NewString(), Typed: typed,
		Problem: problem, Open: c.Waits() && w.a.desk != nil, Two: t.takesTwo(&c.DeskItem)}
	if p.Main, err = w.part("desk-main", v); err != nil {
		return w.failure(err)
	}
	if v.Pending != nil {
		if no := t.mayConfirm(who, c); no != nil {
			p.Hint = no.Detail
		}
	}
	if limit := t.recentFor(c.ActionType); limit > 0 && c.Now.Sub(who.SignedInAt) > limit {
		p.SignIn = signInPath("/desk/"+c.OperationID(), true)
	}
	if p.Open {
		sum := sha256.Sum256([]byte(p.Main))
		w.putShown(r.Context(), pageOf(c), shown{Digest: sum[:], Hash: c.Seen(), Cut: v.Eye.Cut > 0})
	}
	return &reply{Status: status, title: "Desk: " + human(c.ActionType), name: "desk-case", data: p, eye: v.Eye}
}

func (w *web) deskCaseView(r *http.Request, t *tenant, c *ledger.DeskCase) (*deskCaseView, error) {
	s, err := intent.ReadAction(c.Canonical, c.IntentHash, c.Ordinal)
	if err != nil {
		return nil, fmt.Errorf("read the intent of operation %s: %w", c.OperationID(), err)
	}
	explained, err := w.a.env.Ledger.Explain(r.Context(), c.TenantID, c.RunID)
	if err != nil {
		return nil, err
	}
	steps, err := ledger.Timeline(explained)
	v := &deskCaseView{DeskCase: c, Eye: &eye{Full: r.URL.Query().Get("full") == "1"}, Tenant: t.DisplayName, Zone: t.TimeZone,
		Owner: t.ownerOf(c.ActionType), Change: compare(s.Change, nil), Request: indented(c.Canonical), Where: s.Destination,
		Steps: stepsOf(steps), Pending: c.Proposal()}
	if s.Credential != "" {
		v.Where += ", with the credential " + s.Credential
	}
	op := t.Operation(c.Connector, c.Operation)
	v.Repeats = op != nil && outcome.SameKeyAllowed(op, c.FirstSentAt, c.Now)
	return v, err
}

// resolutionForm settles an effect, or has the settlement wait for a second person. A form that is sent twice has the same command id,
// and is one resolution.
func (w *web) resolutionForm(r *http.Request, who *identity) *reply {
	t, c, err := w.a.deskCase(r.Context(), who, r.PathValue("operation"))
	if err != nil {
		return w.failure(err)
	}
	typed := resolution{Move: r.PostFormValue("move"), ExternalID: r.PostFormValue("external_id"), Evidence: trimmed(r.PostForm, "evidence"),
		Reason: r.PostFormValue("reason"), Seen: r.PostFormValue("seen")}
	var bad error
	typed.CommandID, err = uuid.Parse(r.PostFormValue("command_id"))
	if proposal := r.PostFormValue("proposal_id"); proposal != "" {
		typed.Proposal, bad = uuid.Parse(proposal)
	}
	if err != nil || bad != nil || typed.Seen == "" {
		return w.deskCase(r, who, t, c, http.StatusBadRequest, "The form was incomplete. Nothing was changed.", typed)
	}
	page, ok := w.wasShown(r.Context(), pageOf(c))
	switch {
	case c.Waits() && typed.Move != withdrawProposal && (!ok || page.Hash != typed.Seen):
		return w.deskCase(r, who, t, c, http.StatusConflict,
			"This is not the page that you were shown last. Nothing was changed: look at it as it is now.", typed)
	case page.Cut && (typed.Move == "confirm_done" || typed.Move == "confirm_not_done"):
		return w.deskCase(r, who, t, c, http.StatusConflict,
			"A value was not shown whole. Nothing was changed: open the full values first.", typed)
	}
	typed.PageDigest = page.Digest
	done, err := w.a.resolve(r.Context(), who, t, c, typed)
	if err != nil {
		return w.unresolved(r, who, t, c, typed, err)
	}
	if done.Made() || done.Result == ledger.ResolvedProposed {
		w.sessions.Remove(r.Context(), keyDraft+c.OperationID())
		w.putFlash(r.Context(), "good", resolvedWords(typed.Move, &done))
		return seeOther("/desk/" + c.OperationID())
	}
	if t, c, err = w.a.deskCase(r.Context(), who, c.OperationID()); err != nil {
		return w.failure(err)
	}
	return w.deskCase(r, who, t, c, http.StatusConflict, whyUnresolved(&done), typed)
}

// resolvedWords tell what a form has done.
func resolvedWords(move string, done *ledger.Resolved) string {
	switch {
	case done.Result == ledger.ResolvedProposed:
		return "Proposed. Another person has to confirm it by " + done.Stands.LapsesAt.UTC().Format(time.RFC1123) +
			"; until then nothing is sent."
	case move == withdrawProposal:
		return "Withdrawn. Nothing is sent by it."
	case move == "confirm_done":
		return "Recorded as done. Nothing is sent again."
	case move == "confirm_not_done":
		return "Recorded as not done. It is sent again under the same key."
	case move == "dispute":
		return "Held as disputed. Nothing is sent, and no late report settles it."
	}
	return "Given up. The run has ended and nothing more is sent."
}

// unresolved tells why somebody may not, and keeps what was typed.
func (w *web) unresolved(r *http.Request, who *identity, t *tenant, c *ledger.DeskCase, typed resolution, err error) *reply {
	var no *refusal
	if !errors.As(err, &no) {
		return w.failure(err)
	}
	switch no.Code {
	case codeSignInAgain, codeStepUp:
		if typed.Reason != "" {
			w.forgetPages(r.Context(), 1)
			w.sessions.Put(r.Context(), keyDraft+c.OperationID(), typed.Reason)
		}
		return tell(http.StatusForbidden, notice{Heading: "Sign in again to settle it",
			Text: no.Detail + " Nothing was changed yet; your reason is kept.",
			Link: signInPath("/desk/"+c.OperationID(), no.Code == codeStepUp), Label: "Sign in again"})
	case codeReason, codeReasonLong, codeBadDecision:
		return w.deskCase(r, who, t, c, http.StatusUnprocessableEntity, no.Detail+" Nothing was changed.", typed)
	}
	return w.deskCase(r, who, t, c, http.StatusForbidden, no.Detail+" Nothing was changed.", typed)
}
