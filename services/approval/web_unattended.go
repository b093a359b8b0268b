package approval

import (
	"crypto/sha256"
	"fmt"
	"html/template"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// unattendedView is the list of what rules let act with no person asked.
type unattendedView struct {
	Eye *eye
	unattended
}

// unattendedPage lists what is about to be sent and can be taken back, and what people have to look at afterwards.
func (w *web) unattendedPage(r *http.Request, who *identity) *reply {
	all, err := w.a.unattendedFor(r.Context(), who)
	if err != nil {
		return w.failure(err)
	}
	v := unattendedView{&eye{}, all}
	return &reply{Status: http.StatusOK, title: "Without a person", name: "unattended", data: v, eye: v.Eye}
}

// caseView is all that is said about one case. It has nothing that belongs to one visit, so that it can be hashed.
type caseView struct {
	*ledger.Unattended
	Eye    *eye
	Tenant string
	Amount string
	Change []compared
	Others []actionView
	Why    []reason
}

// casePage is one case, and the forms of this visit around it.
type casePage struct {
	View    *caseView
	Main    template.HTML
	Who     *identity
	WhoID   string
	CSRF    string
	Command string
	Reason  string
	Problem string
	Sample  *ledger.SampleView // that the person may judge, nil where there is none
}

func (w *web) casePage(r *http.Request, who *identity) *reply {
	t, u, err := w.findCase(r, who)
	if err != nil {
		return w.failure(err)
	}
	return w.unattendedCase(r, who, t, u, http.StatusOK, "", "")
}

func (w *web) findCase(r *http.Request, who *identity) (*tenant, *ledger.Unattended, error) {
	run, err := uuid.Parse(r.PathValue("run"))
	if err != nil {
		return nil, nil, ledger.ErrNoUnattended
	}
	return w.a.unattendedCase(r.Context(), who, run)
}

// unattendedCase makes the page and remembers its digest: a verdict says which page it was made on.
func (w *web) unattendedCase(r *http.Request, who *identity, t *tenant, u *ledger.Unattended, status int, problem, typed string) *reply {
	actions, err := intent.ReadActions(u.Canonical, u.IntentHash)
	if err != nil {
		return w.failure(fmt.Errorf("read the intent of run %s: %w", u.RunID, err))
	}
	s := actions[0]
	e := &eye{Full: r.URL.Query().Get("full") == "1"}
	v := &caseView{Unattended: u, Eye: e, Tenant: t.DisplayName, Amount: moneyOf(s.Change),
		Change: compare(s.Change, nil), Others: othersOf(actions, e), Why: reasonsOf(u.Reasons)}
	p := &casePage{View: v, Who: who, WhoID: who.id(t), CSRF: w.formToken(r.Context()), Command: uuid.NewString(), Problem: problem,
		Reason: typed, Sample: t.waitingSample(who, u)}
	if p.Main, err = w.part("case-main", v); err != nil {
		return w.failure(err)
	}
	if p.Sample != nil {
		sum := sha256.Sum256([]byte(p.Main))
		w.putShown(r.Context(), p.Sample.SampleID, shown{Digest: sum[:], Hash: u.IntentHash.String(), Cut: v.Eye.Cut > 0})
	}
	return &reply{Status: status, title: "Case: " + human(u.ActionType), name: "case", data: p, eye: v.Eye}
}

// takeBackForm has a case not sent.
func (w *web) takeBackForm(r *http.Request, who *identity) *reply {
	t, u, err := w.findCase(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	back, err := w.a.takeBack(r.Context(), who, t, u.RunID, u.Now, typed)
	if err != nil {
		return w.caseRefused(r, who, t, u, typed, err)
	}
	if back.Done {
		w.putFlash(r.Context(), "good", "Taken back. The run has ended and nothing is sent.")
		return seeOther("/unattended/" + u.RunID.String())
	}
	if t, u, err = w.findCase(r, who); err != nil {
		return w.failure(err)
	}
	return w.unattendedCase(r, who, t, u, http.StatusConflict, tooLate(back), typed)
}

// judgeForm takes a verdict about a sample. A form that is sent twice has the same command id, and is one verdict.
func (w *web) judgeForm(r *http.Request, who *identity) *reply {
	t, u, err := w.findCase(r, who)
	if err != nil {
		return w.failure(err)
	}
	typed := r.PostFormValue("reason")
	v := verdict{Verdict: r.PostFormValue("verdict"), Reason: typed}
	var bad error
	v.CommandID, err = uuid.Parse(r.PostFormValue("command_id"))
	v.SampleID, bad = uuid.Parse(r.PostFormValue("sample_id"))
	if err != nil || bad != nil {
		return w.unattendedCase(r, who, t, u, http.StatusBadRequest, "The form was incomplete. Nothing was recorded.", typed)
	}
	page, ok := w.wasShown(r.Context(), v.SampleID)
	if t.waitingSample(who, u) != nil {
		if problem := v.onPage(page, ok, u.IntentHash.String()); problem != "" {
			return w.unattendedCase(r, who, t, u, http.StatusConflict, problem, typed)
		}
	}
	v.PageDigest = page.Digest
	judged, err := w.a.judge(r.Context(), who, t, u, v)
	if err != nil {
		return w.caseRefused(r, who, t, u, typed, err)
	}
	if !judged.Stored {
		if t, u, err = w.findCase(r, who); err != nil {
			return w.failure(err)
		}
		return w.unattendedCase(r, who, t, u, http.StatusConflict, standsVerdict(judged.By, judged.Verdict), typed)
	}
	said := "Recorded: the case was right."
	if judged.Verdict == ledger.VerdictWrong {
		said = "Recorded: the case was wrong. Rule " + judged.Class.Rule + " lets nothing act any more; its cases go to people."
	}
	w.putFlash(r.Context(), "good", said)
	return seeOther("/unattended/" + u.RunID.String())
}

// caseRefused tells why somebody may not, and keeps what was typed.
func (w *web) caseRefused(r *http.Request, who *identity, t *tenant, u *ledger.Unattended, typed string, err error) *reply {
	return w.notRecorded(err, "/unattended/"+u.RunID.String(), func(status int, problem string) *reply {
		return w.unattendedCase(r, who, t, u, status, problem, typed)
	})
}
