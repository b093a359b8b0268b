package approval

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// recently is how many decided requests the queue shows below what waits.
const recently = 20

// queueView is what the queue is made of.
type queueView struct {
	Eye      *eye
	Filter   ledger.ApprovalFilter
	Filtered bool
	States   []string
	Sections []queueSection
	Roles    []string
	More     bool // than a list shows
}

type queueSection struct {
	ID, Title, Empty string
	Rows             []queueRow
}

type queueRow struct {
	*ledger.ApprovalSummary
	Quorum int
	Risk   string
	State  string
}

// queuePage lists what waits, the most urgent first, and what was decided lately.
func (w *web) queuePage(r *http.Request, who *identity) *reply {
	q := r.URL.Query()
	v := queueView{Eye: &eye{}, States: []string{"pending", "approved", "rejected", "expired", "superseded"},
		Roles: w.rolesOf(who),
		Filter: ledger.ApprovalFilter{State: q.Get("state"), CorrelationID: strings.TrimSpace(q.Get("correlation_id")),
			Key: strings.TrimSpace(q.Get("key"))}}
	v.Filtered = v.Filter.State != "" || v.Filter.CorrelationID != "" || v.Filter.Key != ""
	if v.Filtered {
		list, more, err := w.list(r, who, v.Filter)
		if err != nil {
			return w.failure(err)
		}
		v.More = more
		v.Sections = []queueSection{{"found", "Found", "Nothing that you may see fits.", list}}
		return &reply{Status: http.StatusOK, title: "Queue", name: "queue", data: v, eye: v.Eye}
	}
	pending, more, err := w.list(r, who, ledger.ApprovalFilter{State: "pending"})
	if err != nil {
		return w.failure(err)
	}
	decided, _, err := w.list(r, who, ledger.ApprovalFilter{Decided: true, Limit: recently})
	if err != nil {
		return w.failure(err)
	}
	v.Sections, v.More = w.sections(who, pending, decided[:min(recently, len(decided))]), more
	return &reply{Status: http.StatusOK, title: "Queue", name: "queue", data: v, eye: v.Eye}
}

// sections tells what the person may decide from what others have to.
func (w *web) sections(who *identity, pending, decided []queueRow) []queueSection {
	mine := queueSection{"mine", "Waiting for you", "Nothing waits for your decision. You are up to date.", nil}
	others := queueSection{"others", "Waiting for others", "", nil}
	for _, row := range pending {
		t := w.a.tenant(row.TenantID)
		may := who.holds(t, row.Audience) || t.actsFor(who, row.Audience, row.Now)
		if may && !who.answersTo(t, row.RequestedBy) {
			mine.Rows = append(mine.Rows, row)
		} else {
			others.Rows = append(others.Rows, row)
		}
	}
	done := queueSection{"decided", "Recently decided", "Nothing was decided yet.", decided}
	if len(others.Rows) == 0 {
		return []queueSection{mine, done}
	}
	return []queueSection{mine, others, done}
}

// list reads approvals of all tenants in one order: what waits by time left, then the latest. There may be more than it has.
func (w *web) list(r *http.Request, who *identity, f ledger.ApprovalFilter) ([]queueRow, bool, error) {
	found, more, err := w.a.queue(r.Context(), who, f)
	if err != nil {
		return nil, false, err
	}
	rows := make([]queueRow, len(found))
	for i := range found {
		t := w.a.tenant(found[i].TenantID)
		rows[i] = queueRow{ApprovalSummary: &found[i], Quorum: t.termsOf(&ledger.Card{ApprovalSummary: found[i]}).Quorum,
			State: stateNow(&found[i])}
		if action := t.actions[found[i].ActionType]; action != nil {
			rows[i].Risk = action.Risk
		}
	}
	return rows, more, nil
}

// urgency orders approvals of all tenants: what waits by time left, then the latest decided.
func urgency(a, b ledger.ApprovalSummary) int {
	aWaits, bWaits := a.State == ledger.ApprovalPending, b.State == ledger.ApprovalPending
	switch {
	case aWaits != bWaits && aWaits:
		return -1
	case aWaits != bWaits:
		return 1
	case aWaits:
		return a.DecideBy.Compare(b.DecideBy)
	}
	return cmp.Or(ended(b).Compare(ended(a)), a.RequestedAt.Compare(b.RequestedAt))
}

func ended(a ledger.ApprovalSummary) time.Time {
	if a.DecidedAt != nil {
		return *a.DecidedAt
	}
	return a.RequestedAt
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
	for _, t := range w.a.tenants {
		roles = append(append(roles, who.roles(t)...), t.delegatedRoles(who, time.Now())...)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}
