package approval

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// How much of the queue is shown and looked at (A18). A page of one list has listedOnPage lines; the overview has three lists that
// come to as many. Whether somebody can really decide a request takes its votes, so that what waits is looked at lookedAt at a
// time: where more waits, the number of one's own is said to be at least what was found.
const (
	listedOnPage   = 50
	overviewMine   = 30
	overviewOthers = 10
	overviewDone   = 10
	lookedAt       = 300
)

// queueRow is one line.
type queueRow struct {
	*ledger.Listed
	Tenant string // its name, "" where the person sees one tenant only
	Quorum int
	Risk   string
	State  string
	Mine   bool   // the person can decide it now
	Alone  string // why it cannot be decided together with others, "" where it can, as far as the list knows
	mark   string // where the list goes on after it
}

// Mark changes when what the line says has changed.
func (row *queueRow) Mark() string { return fmt.Sprintf("%s.%d", row.State, row.Approvals) }

// queueSection is one list.
type queueSection struct {
	ID, Title, Empty string
	Rows             []queueRow
	Count            string // how many there are, "" where it is not known
	All, Next        string // the whole list, and its next page; "" where there is none
}

// queuePage lists what waits, the most urgent first, and what was decided lately.
func (w *web) queuePage(r *http.Request, who *identity) *reply {
	v, err := w.queueOf(r, who)
	if err != nil {
		return w.failure(err)
	}
	return &reply{Status: http.StatusOK, title: "Queue", name: "queue", data: v, eye: v.Eye,
		live: "/queue/state?" + v.Query.Encode(), etag: v.digest()}
}

// queueOf reads what the page shows.
func (w *web) queueOf(r *http.Request, who *identity) (*queueView, error) {
	q := askedOf(r.URL.Query())
	v := &queueView{Eye: &eye{}, Ask: q, Query: q.values(), Roles: w.rolesOf(who)}
	v.choices(w.a.tenantsOf(who))
	var err error
	if q.List == "" {
		err = w.overview(r.Context(), who, v)
	} else {
		err = w.oneList(r.Context(), who, v)
	}
	return v, err
}

// overview is what waits for the person, what waits for others, and what was decided lately.
func (w *web) overview(ctx context.Context, who *identity, v *queueView) error {
	pending, more, err := w.look(ctx, who, v.Ask, "pending", lookedAt)
	if err != nil {
		return err
	}
	done, _, err := w.look(ctx, who, v.Ask, "decided", overviewDone)
	if err != nil {
		return err
	}
	mine, others := sift(pending)
	v.Sections = []queueSection{v.section("mine", mine, overviewMine, more), v.section("others", others, overviewOthers, more),
		v.section("decided", done, overviewDone, len(done) == overviewDone)}
	v.Sections[2].Count = "" // of what was decided nobody counts all
	v.Sections = slices.DeleteFunc(v.Sections, func(s queueSection) bool {
		return len(s.Rows) == 0 && (s.ID == "others" || v.Ask.narrows())
	})
	if len(v.Sections) == 0 {
		v.Sections = []queueSection{{ID: "found", Title: "Found", Empty: "Nothing that you may see fits."}}
	}
	return nil
}

// section is the beginning of a list, which leads to the whole of it.
func (v *queueView) section(list string, rows []queueRow, most int, more bool) queueSection {
	s := queueSection{ID: list, Title: listTitles[list], Empty: listEmpty[list], Rows: rows[:min(most, len(rows))]}
	if len(rows) > 0 {
		s.Count = fmt.Sprint(len(rows))
		if more {
			s.Count = "at least " + s.Count
		}
	}
	if more || len(rows) > most {
		s.All = v.Ask.with(list, "")
	}
	return s
}

// oneList is one page of one list.
func (w *web) oneList(ctx context.Context, who *identity, v *queueView) error {
	list, most := v.Ask.List, listedOnPage
	if list == "mine" || list == "others" {
		list, most = "pending", lookedAt
	}
	rows, more, err := w.look(ctx, who, v.Ask, list, most)
	if err != nil {
		return err
	}
	last := ""
	if len(rows) > 0 && more {
		last = rows[len(rows)-1].mark
	}
	switch mine, others := sift(rows); v.Ask.List {
	case "mine":
		rows = mine
	case "others":
		rows = others
	}
	if len(rows) > listedOnPage {
		rows = rows[:listedOnPage]
		last = rows[listedOnPage-1].mark
	}
	s := queueSection{ID: "found", Title: cmp.Or(listTitles[v.Ask.List], "Found"), Empty: "Nothing that you may see fits.", Rows: rows}
	if last != "" {
		s.Next, s.Empty = v.Ask.with(v.Ask.List, last), "Nothing among those that were looked at. The list goes on."
	}
	v.Sections = []queueSection{s}
	return nil
}

// sift tells what the person can decide from what others have to.
func sift(rows []queueRow) (mine, others []queueRow) {
	for _, row := range rows {
		if row.Mine {
			mine = append(mine, row)
		} else {
			others = append(others, row)
		}
	}
	return mine, others
}

// look reads lines of all the person's tenants in one order: pending ones, decided ones, or those of one state.
func (w *web) look(ctx context.Context, who *identity, q asked, list string, most int) (rows []queueRow, more bool, err error) {
	f := ledger.ApprovalFilter{TenantID: q.Tenant, Search: q.Search, Oldest: q.Sort == "oldest", Limit: most + 1}
	switch list {
	case "decided":
		f.Decided = true
	default:
		f.State = list
	}
	waits := f.State == ledger.ApprovalPending
	f.Oldest = f.Oldest && waits
	at := q.place()
	for _, class := range q.classes(waits) {
		if class < at.class {
			continue
		}
		if f.After = nil; class == at.class {
			f.After = at.mark
		}
		found, _, err := w.a.queue(ctx, who, f, q.narrowing(class))
		if err != nil {
			return nil, false, err
		}
		for i := range found {
			if len(rows) == most {
				return rows, true, nil
			}
			rows = append(rows, w.row(who, &found[i], place{class, ptr(found[i].Mark(f.Oldest))}))
		}
	}
	return rows, false, nil
}

func ptr[T any](v T) *T { return &v }

// listedCard is what a list tells of a card: enough to say who may decide.
func listedCard(one *ledger.Listed) *ledger.Card {
	card := &ledger.Card{ApprovalSummary: one.ApprovalSummary, SentBy: one.SentBy, Cast: one.Cast}
	if one.CorrectedBy != "" {
		card.Corrects = &ledger.CorrectionView{By: one.CorrectedBy}
	}
	return card
}

// row is one line as the person is shown it.
func (w *web) row(who *identity, one *ledger.Listed, at place) queueRow {
	t := w.a.tenant(one.TenantID)
	card := listedCard(one)
	row := queueRow{Listed: one, Quorum: t.termsOf(card).Quorum, State: stateNow(&one.ApprovalSummary), mark: at.String()}
	if len(w.a.tenants) > 1 {
		row.Tenant = t.DisplayName
	}
	if action := t.action(one.ActionType); action != nil {
		row.Risk = action.Risk
	}
	if row.Mine = t.waitsFor(who, card); row.Mine {
		row.Alone = t.decidedAlone(card)
	}
	return row
}

// waitsFor reports whether the request waits for this person now: their decision is possible and would count.
func (t *tenant) waitsFor(who *identity, card *ledger.Card) bool {
	if stateNow(&card.ApprovalSummary) != ledger.ApprovalPending || voteOf(card, who) != nil {
		return false
	}
	// Old claims and an old sign-in are put right when the person decides.
	if no := t.mayDecide(who, card, want{Decision: ledger.Approve, Reason: "-"}, time.Duration(1<<63-1)); no != nil &&
		no.Code != codeStepUp {
		return no.Code == codeRemoved // it can be rejected
	}
	right, no := t.capacityFor(who, card, ledger.Approve)
	return no == nil && ledger.Refuses(t.termsOf(card).All, card.Cast, right.Roles) == ""
}

// ranking orders approvals of all tenants: what waits by time left, or by age, then the latest decided.
func ranking(oldest bool) func(a, b ledger.Listed) int {
	return func(a, b ledger.Listed) int {
		aWaits, bWaits := a.State == ledger.ApprovalPending, b.State == ledger.ApprovalPending
		one, other := a.Mark(oldest), b.Mark(oldest)
		order := cmp.Or(one.At.Compare(other.At), slices.Compare(one.ApprovalID[:], other.ApprovalID[:]))
		switch {
		case aWaits != bWaits && aWaits:
			return -1
		case aWaits != bWaits:
			return 1
		case aWaits:
			return order
		}
		return -order
	}
}

// stateNow is the state as a person should read it: what has run out is expired, though nobody has swept it yet.
func stateNow(s *ledger.ApprovalSummary) string {
	if s.State == "pending" && !s.Now.Before(s.DecideBy) {
		return "expired"
	}
	return s.State
}

// rolesOf are the person's roles in all tenants, and those of who they decide for.
func (w *web) rolesOf(who *identity) []string {
	var roles []string
	for id := range w.a.tenants {
		t := w.a.tenant(id)
		roles = append(append(roles, who.roles(t)...), t.delegatedRoles(who, time.Now())...)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

var (
	listTitles = map[string]string{"mine": "Waiting for you", "others": "Waiting for others", "decided": "Decided lately",
		"pending": "All that waits"}
	listEmpty = map[string]string{"mine": "Nothing waits for your decision. You are up to date.", "decided": "Nothing was decided yet."}
)
