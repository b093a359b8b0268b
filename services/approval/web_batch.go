package approval

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// mostTogether is how many requests one page has, so that each can still be read.
const mostTogether = 25

// longestTogether is how many characters a value of a request may have that is decided together with others.
const longestTogether = 1000

// batchView is a page of requests to decide together (A18): each one whole in what matters, with a form around them; and those that
// cannot be decided like this, with the reason.
type batchView struct {
	Eye     *eye
	Items   []batchItem
	Alone   []batchItem
	More    int // chosen beyond mostTogether
	Who     *identity
	CSRF    string
	Reason  string // as it was typed
	Problem string // why the last form did not count
	SignIn  string // where to sign in again before anything is decided, "" where that is not needed
}

// batchItem is one request on the page.
type batchItem struct {
	ID   string
	View *cardView     // nil where there is no such request for this person
	Main template.HTML // what is decided about
	Why  string        // it is decided alone, "" where it can be decided here
	Form string        // its id, a command id and the hash of its intent, as the form sends them back
}

// batchPage shows chosen requests together.
func (w *web) batchPage(r *http.Request, who *identity) *reply {
	ids := r.URL.Query()["id"]
	if len(ids) == 0 {
		return trouble(http.StatusOK, "Nothing is chosen", "Choose requests in the queue, then decide them together.")
	}
	return w.batch(r, who, ids, http.StatusOK, "", "")
}

// batch makes the page and remembers it for each request that its form has, as a card is remembered (A17).
func (w *web) batch(r *http.Request, who *identity, ids []string, status int, problem, typed string) *reply {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	v := &batchView{Eye: &eye{}, Who: who, CSRF: w.formToken(r.Context()), Reason: typed, Problem: problem,
		More: max(0, len(ids)-mostTogether)}
	ids = ids[:len(ids)-v.More]
	for _, id := range ids {
		item, err := w.batchItem(r, who, id)
		if err != nil {
			return w.failure(err)
		}
		if item.Why != "" {
			v.Alone = append(v.Alone, item)
			continue
		}
		v.Items = append(v.Items, item)
		if item.View.Now.Sub(who.ClaimsAt) > w.a.settings.RolesMaxAge {
			v.SignIn = signInPath("/batch?"+url.Values{"id": ids}.Encode(), false)
		}
	}
	slices.SortStableFunc(v.Items, func(a, b batchItem) int { return a.View.DecideBy.Compare(b.View.DecideBy) })
	w.rememberBatch(r, v)
	return &reply{Status: status, title: "Decide together", name: "batch", data: v, eye: v.Eye}
}

// rememberBatch keeps for each request the digest of the whole page with its own hash.
func (w *web) rememberBatch(r *http.Request, v *batchView) {
	page := sha256.New()
	for _, item := range v.Items {
		page.Write([]byte(item.Main))
	}
	whole := page.Sum(nil)
	w.forgetPages(r.Context(), len(v.Items))
	for _, item := range v.Items {
		digest := sha256.Sum256(append(item.View.IntentHash[:], whole...))
		w.putShown(r.Context(), item.View.ApprovalID, item.View.shown(digest[:]))
	}
}

// batchItem reads one request and says whether it can be decided together with others.
func (w *web) batchItem(r *http.Request, who *identity, text string) (batchItem, error) {
	item := batchItem{Why: "There is no such request, or it is not for you to see."}
	id, err := uuid.Parse(text)
	if err != nil {
		return item, nil
	}
	item.ID = id.String()
	t, card, err := w.a.cardFor(r.Context(), who, id)
	if errors.Is(err, ledger.ErrNoApproval) {
		return item, nil
	}
	if err != nil {
		return item, err
	}
	if item.View, err = t.view(card, false); err != nil {
		return item, err
	}
	if item.Main, err = w.part("batch-item", item.View); err != nil {
		return item, err
	}
	if item.Why = t.notTogether(who, card, w.a.settings.RolesMaxAge); item.Why == "" {
		item.Why = item.View.notWhole()
	}
	item.Form = strings.Join([]string{item.ID, uuid.NewString(), card.IntentHash.String()}, formPart)
	return item, nil
}

// formPart stands between what a form says of one request.
const formPart = ":"

// notTogether says why a person cannot decide a request together with others, "" where they can.
func (t *tenant) notTogether(who *identity, card *ledger.Card, rolesMaxAge time.Duration) string {
	switch state := stateNow(&card.ApprovalSummary); {
	case state != ledger.ApprovalPending:
		return "It does not wait any more: it is " + human(state) + "."
	case voteOf(card, who) != nil:
		return "You have decided on it already."
	}
	no := t.mayDecide(who, card, want{Decision: ledger.Approve, Reason: "-"}, rolesMaxAge)
	if no != nil && no.Code != codeSignInAgain { // of that the page speaks, once for all
		return no.Detail
	}
	if why := t.decidedAlone(card); why != "" {
		return why
	}
	if right, no := t.capacityFor(who, card, ledger.Approve); no == nil {
		return notCounted[ledger.Refuses(t.termsOf(card).All, card.Cast, right.Roles)]
	}
	return ""
}

// decidedAlone says why nobody decides a request of this type together with others, "" where they may.
func (t *tenant) decidedAlone(card *ledger.Card) string {
	action := t.action(card.ActionType)
	switch {
	case action == nil:
		return "Its action is not configured any more."
	case len(config.ActionTypes(card.ActionType)) > 1:
		return "It has several actions, so it is decided alone."
	case action.Risk == "high":
		return "It is of high risk, so it is decided alone."
	case t.termsOf(card).TypedReason:
		return "It asks for a reason of its own."
	}
	return ""
}

// notWhole says what of a request cannot be seen at a glance, "" where all can. It has been rendered before.
func (v *cardView) notWhole() string {
	for _, f := range v.Change {
		if max(utf8.RuneCountInString(f.Proposed), utf8.RuneCountInString(f.Now)) > longestTogether {
			return "A value is too long to be shown among others."
		}
	}
	switch e := v.Eye; {
	case len(v.Others) > 0:
		return "It has several actions."
	case v.Held.Gone, v.Held.Moved:
		return "Its target has changed since the proposal was made."
	case len(v.Looks) > 0:
		return "It was decided before and came back: the card says what has changed since."
	case e.Cut > 0:
		return "A value is not shown whole."
	case e.Hidden > 0:
		return "It has characters that cannot be seen."
	case e.Mixed > 0:
		return "It has letters that look like others."
	}
	return ""
}

// batchResult is what deciding one request came to.
type batchResult struct {
	ID   string
	View *cardView // nil where there is no such request for this person
	Said string
	Kind string // good where it counted, else bad
}

// batchDone is the page of results.
type batchDone struct {
	Eye     *eye
	Results []batchResult
	Counted int
	Again   string // where those that did not count are shown together once more, "" where all did
	Next    string // where the next request is that waits for the person, "" where none does
	Waiting string
}

// batchForm takes one decision about each chosen request. Each is a decision like any other, with checks and a result of its own:
// one that cannot be made stops no other. A form that is sent twice has the same command ids, and is one vote each (A8).
func (w *web) batchForm(r *http.Request, who *identity) *reply {
	items, decision, reason := r.PostForm["item"], r.PostFormValue("decision"), r.PostFormValue("reason")
	var ids []string
	for _, item := range items {
		id, _, _ := strings.Cut(item, formPart)
		ids = append(ids, id)
	}
	switch {
	case len(items) == 0:
		return trouble(http.StatusUnprocessableEntity, "Nothing is chosen", "Nothing was decided.")
	case len(items) > mostTogether:
		return trouble(http.StatusUnprocessableEntity, "Too many at once",
			fmt.Sprintf("At most %d are decided together. Nothing was decided.", mostTogether))
	}
	if no := (terms{}).checkReason(want{Decision: decision, Reason: reason}); no != nil {
		return w.batch(r, who, ids, http.StatusUnprocessableEntity, no.Detail+" Nothing was decided.", reason)
	}
	done := &batchDone{Eye: &eye{}}
	again := url.Values{}
	for i, item := range items {
		result := w.decideOne(r, who, item, decision, reason)
		if result.ID = ids[i]; result.Kind == "good" {
			done.Counted++
		} else {
			again.Add("id", ids[i])
		}
		done.Results = append(done.Results, result)
	}
	if len(again) > 0 {
		done.Again = "/batch?" + again.Encode()
	}
	var err error
	if done.Next, done.Waiting, err = w.waiting(r.Context(), who, uuid.Nil); err != nil {
		w.a.env.Log.Warn("the next request cannot be named now", "error", err)
	}
	return &reply{Status: http.StatusOK, title: "What it came to", name: "batch-done", data: done, eye: done.Eye}
}

// decideOne makes one decision of a batch and says what it came to.
func (w *web) decideOne(r *http.Request, who *identity, item, decision, reason string) batchResult {
	bad := func(v *cardView, said string) batchResult { return batchResult{View: v, Said: said, Kind: "bad"} }
	parts := strings.Split(item, formPart)
	if len(parts) != 3 {
		return bad(nil, "The form was incomplete. Nothing was decided.")
	}
	now, err := w.batchItem(r, who, parts[0])
	switch {
	case err != nil:
		return bad(nil, w.notKnown(err))
	case now.View == nil:
		return bad(nil, now.Why+" Nothing was decided.")
	}
	card := now.View.Card
	b := ballot{Tenant: w.a.tenant(card.TenantID), Card: card, Decision: decision, Reason: reason, Together: true}
	if b.CommandID, b.Shown, err = formIDs(parts[1], parts[2]); err != nil {
		return bad(now.View, "The form was incomplete. Nothing was decided.")
	}
	if problem := w.fromShown(r, who, &b); problem != "" {
		return bad(now.View, problem)
	}
	waits := card.State == ledger.ApprovalPending && voteOf(card, who) == nil
	if why := cmp.Or(b.Tenant.decidedAlone(card), now.View.notWhole()); waits && why != "" {
		return bad(now.View, why+" Nothing was decided: open it.")
	}
	voted, err := w.a.decide(r.Context(), who, b)
	var no *refusal
	switch {
	case errors.As(err, &no):
		return bad(now.View, no.Detail+" Nothing was decided.")
	case err != nil:
		return bad(now.View, w.notKnown(err))
	}
	if said := counted(&b, voted); said != "" {
		return batchResult{View: now.View, Said: said, Kind: "good"}
	}
	return bad(now.View, standing(voted))
}

// notKnown is what is said of a decision that failed.
func (w *web) notKnown(err error) string {
	if errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrOverloaded) {
		return "Holdpoint cannot answer now. Nothing was decided. Try again."
	}
	w.a.env.Log.Error("a decision of several failed", "error", err)
	return lookAgain
}
