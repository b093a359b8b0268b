package approval

import (
	"crypto/sha256"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// cardPage is the card: what was rendered, and the forms of this visit around it.
type cardPage struct {
	View     *cardView
	Head     template.HTML // what it is, in one look
	Since    template.HTML // what has changed since it was decided before, "" where it never was
	Main     template.HTML // what is decided about
	After    template.HTML // what came of it, and the history
	Who      *identity
	WhoID    string // as it will be recorded
	CSRF     string
	Command  string
	Reason   string // as it was typed
	Problem  string // why the last form did not count
	Mine     *ledger.Cast
	For      string        // whom the person decides for, "" where it is for themself
	Hint     string        // what will stand in the way, before anything is typed
	SignIn   string        // where that is put right, "" where it cannot be
	Open     bool          // it waits, and the person may decide
	Approve  bool          // approving is offered
	SendBack bool          // sending back is offered
	Within   time.Duration // how long a better proposal is then awaited
	Withdraw bool
	TakeBack bool // it was approved and is certainly not sent yet

	BreakGlass  bool          // approving alone is offered
	GlassWithin time.Duration // how long others then have to look at it
	GlassHint   string        // what stands in the way of that, and can be put right
	GlassSignIn string        // where
	Judge       bool          // somebody approved it alone, and the person may say whether that was right
}

// cardPage shows one request. To whoever may not see it, there is none.
func (w *web) cardPage(r *http.Request, who *identity) *reply {
	t, card, err := w.find(r, who)
	if err != nil {
		return w.failure(err)
	}
	draft := w.sessions.GetString(r.Context(), keyDraft+card.ApprovalID.String())
	return w.card(r, who, t, card, http.StatusOK, "", draft)
}

func (w *web) find(r *http.Request, who *identity) (*tenant, *ledger.Card, error) {
	id, err := uuid.Parse(r.PathValue("approval"))
	if err != nil {
		return nil, nil, ledger.ErrNoApproval
	}
	return w.a.cardFor(r.Context(), who, id)
}

// card makes the page and remembers its digest: a decision says which page it was made on.
func (w *web) card(r *http.Request, who *identity, t *tenant, card *ledger.Card, status int, problem,
	typed string) *reply {
	v, err := w.view(r, t, card)
	if err != nil {
		return w.failure(err)
	}
	p := &cardPage{View: v, Who: who, WhoID: who.id(t), CSRF: w.formToken(r.Context()), Command: uuid.NewString(),
		Reason:  typed,
		Problem: problem}
	if err := w.parts(p, t); err != nil {
		return w.failure(err)
	}
	w.offer(p, t)
	if p.Open || p.BreakGlass || p.Judge {
		w.putShown(r.Context(), card.ApprovalID, shownOf(v, p))
	}
	return &reply{Status: status, title: "Request: " + human(card.ActionType), name: "card", data: p, eye: v.Eye,
		live: "/approvals/" + card.ApprovalID.String() + "/state", etag: cardMark(card)}
}

// view is the card with what the rest of the run's record says.
func (w *web) view(r *http.Request, t *tenant, card *ledger.Card) (*cardView, error) {
	v, err := t.view(card, r.URL.Query().Get("full") == "1")
	if err != nil {
		return nil, err
	}
	if v.Origin, err = w.a.originOfEvent(r.Context(), t, card); err != nil {
		return nil, err
	}
	explained, err := w.a.env.Ledger.Explain(r.Context(), card.TenantID, card.RunID)
	if err != nil {
		return nil, err
	}
	steps, err := ledger.Timeline(explained)
	v.Steps = stepsOf(steps)
	return v, err
}

// parts renders what says something about the request. Where it comes back, what has changed comes first (A17).
func (w *web) parts(p *cardPage, t *tenant) error {
	since, err := t.sinceOf(p.View, p.Who)
	if err != nil {
		return err
	}
	if since != nil {
		if p.Since, err = w.part("card-since", sincePage{p.View, since}); err != nil {
			return err
		}
	}
	var errs [3]error
	p.Head, errs[0] = w.part("card-head", p.View)
	p.Main, errs[1] = w.part("card-main", p.View)
	p.After, errs[2] = w.part("card-after", p.View)
	return errors.Join(errs[:]...)
}

// sincePage is what the part about changes is made of.
type sincePage struct {
	*cardView
	Since *sinceView
}

func shownOf(v *cardView, p *cardPage) shown { return v.shown(digestOf(v, p)) }

// shown is what is remembered of a page of this digest that shows the request.
func (v *cardView) shown(digest []byte) shown {
	s := shown{Digest: digest, Hash: v.IntentHash.String(), Cut: v.Eye.Cut > 0, Target: targetsShown(v.Readings)}
	for i, r := range v.Readings {
		at := time.Time{}
		if r != nil {
			at = r.ReadAt
		}
		if i == 0 {
			s.ReadAt = at
		} else {
			s.Further = append(s.Further, at)
		}
	}
	return s
}

// digestOf is SHA-256 over the intent's hash and the parts of the page that say something about the request.
func digestOf(v *cardView, p *cardPage) []byte {
	sum := sha256.New()
	sum.Write(v.IntentHash[:])
	for _, part := range []template.HTML{p.Head, p.Since, p.Main, p.After} {
		sum.Write([]byte(part))
	}
	return sum.Sum(nil)
}

// offer says what the person may do here. It is only shown: the decision looks at everything again.
func (w *web) offer(p *cardPage, t *tenant) {
	card := p.View.Card
	p.Mine = voteOf(card, p.Who)
	waits := p.View.State == "pending"
	p.Withdraw = waits && t.mayWithdraw(p.Who, card)
	p.TakeBack = card.RunState == ledger.RunApproved && slices.ContainsFunc(card.Effects, ledger.EffectView.Unsent)
	p.Judge = card.Glass != nil && card.Glass.Verdict == "" && t.mayJudgeGlass(p.Who, card) == nil
	if !waits || p.Mine != nil {
		return
	}
	w.offerGlass(p, t)
	p.Open, p.Approve = true, p.View.Eye.Cut == 0
	revisions := t.revisions(card)
	p.SendBack, p.Within = revisions.Left(card.Revision), revisions.Within
	no := t.mayDecide(p.Who, card, want{Decision: ledger.Approve, Reason: "-"}, w.a.settings.RolesMaxAge)
	if no == nil {
		w.offerNow(p, t)
		return
	}
	p.Hint = no.Detail
	here := "/approvals/" + card.ApprovalID.String()
	switch no.Code {
	case codeSignInAgain:
		p.SignIn = signInPath(here, false)
	case codeStepUp:
		p.SignIn = signInPath(here, true)
	case codeOwnRequest, codeRemoved:
		p.Approve = false
	default:
		p.Open, p.Approve = false, false
	}
}

// offerNow says for whom the person decides, and whether their approval would count now (A16).
func (w *web) offerNow(p *cardPage, t *tenant) {
	card := p.View.Card
	right, no := t.capacityFor(p.Who, card, ledger.Approve)
	if no != nil {
		return // mayDecide has said so
	}
	recorded := t.reviewer(p.Who, right)
	p.WhoID = recorded.ID
	if recorded.For != nil {
		p.For = right.For.Name
	}
	if why := ledger.Refuses(p.View.Terms.All, card.Cast, right.Roles); why != "" {
		p.Approve, p.Hint = false, notCounted[why]
	}
}
