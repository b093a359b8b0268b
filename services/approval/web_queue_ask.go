package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// queueView is what the queue is made of.
type queueView struct {
	Eye      *eye
	Ask      asked
	Query    url.Values // of the address, by which the page is found again
	Sections []queueSection
	Roles    []string
	Tenants  []choice
	Actions  []string
}

// choice is one entry of a menu.
type choice struct{ Value, Label string }

// Menus of the page that are the same for everybody.
var (
	listChoices = []choice{{"", "overview"}, {"mine", "waiting for me"}, {"others", "waiting for others"}, {"pending", "all that waits"},
		{"decided", "all that is decided"}, {"approved", "approved"}, {"rejected", "rejected"}, {"expired", "expired"},
		{"superseded", "superseded"}}
	sortChoices = []choice{{"", "time left"}, {"risk", "risk"}, {"oldest", "the oldest"}}
	riskChoices = []string{"high", "medium", "low"}
)

// Lists are what the page can list.
func (v *queueView) Lists() []choice { return listChoices }

// Sorts are the orders of what waits.
func (v *queueView) Sorts() []choice { return sortChoices }

// Risks are the classes of action types.
func (v *queueView) Risks() []string { return riskChoices }

// choices are the tenants and action types that the person has to do with.
func (v *queueView) choices(tenants []*tenant) {
	for _, t := range tenants {
		v.Tenants = append(v.Tenants, choice{t.ID, t.DisplayName})
		for name := range t.actions {
			v.Actions = append(v.Actions, name)
		}
	}
	slices.Sort(v.Actions)
	v.Actions = slices.Compact(v.Actions)
}

// asked is what the address asks for. All of it stands in the address, so that a page can be kept as a bookmark.
type asked struct {
	List   string // "" is the overview
	Tenant string
	Action string
	Risk   string
	Search string // a key, or how a correlation id or a target record begins
	Sort   string // "" is by time left
	After  string // where the list goes on
}

func askedOf(q url.Values) asked {
	a := asked{List: trimmed(q, "state"), Tenant: trimmed(q, "tenant"), Action: trimmed(q, "action"), Risk: trimmed(q, "risk"),
		Search: trimmed(q, "q"), Sort: trimmed(q, "sort"), After: trimmed(q, "after")}
	for _, name := range []string{"key", "correlation_id"} { // as addresses said it before there was one search
		if a.Search == "" {
			a.Search = trimmed(q, name)
		}
	}
	if a.List == "" {
		a.After = ""
	}
	return a
}

func trimmed(q url.Values, name string) string { return strings.TrimSpace(q.Get(name)) }

// narrows reports whether a filter is set.
func (a asked) narrows() bool { return a.Tenant+a.Action+a.Risk+a.Search != "" }

// Changed reports whether the page is another one than the plain queue.
func (a asked) Changed() bool { return a != asked{} }

func (a asked) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"state": a.List, "tenant": a.Tenant, "action": a.Action, "risk": a.Risk, "q": a.Search,
		"sort": a.Sort, "after": a.After} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// with is the address of a list from a place on.
func (a asked) with(list, after string) string {
	a.List, a.After = list, after
	return "/?" + a.values().Encode()
}

// First is the address of the list's first page.
func (a asked) First() string { return a.with(a.List, "") }

// place is where a list goes on: the class of risk where it is ordered by it, else 0, and the mark within.
type place struct {
	class int
	mark  *ledger.ApprovalMark
}

func (p place) String() string {
	return fmt.Sprintf("%d.%d.%s", p.class, p.mark.At.UnixMicro(), p.mark.ApprovalID)
}

// place reads where the address says that the list goes on. What is no place is the beginning.
func (a asked) place() place {
	parts := strings.Split(a.After, ".")
	if len(parts) != 3 {
		return place{}
	}
	class, notClass := strconv.Atoi(parts[0])
	at, notTime := strconv.ParseInt(parts[1], 10, 64)
	id, notID := uuid.Parse(parts[2])
	const latest = int64(253402300799) * 1e6 // the year 9999
	if notClass != nil || notTime != nil || notID != nil || at < 0 || at > latest {
		return place{}
	}
	return place{class, &ledger.ApprovalMark{At: time.UnixMicro(at), ApprovalID: id}}
}

// classes are the steps in which a list is read: one, or those of risk, and after them what the configuration does not have any
// more.
func (a asked) classes(waits bool) []int {
	if a.Sort == "risk" && waits {
		return []int{0, 1, 2, 3}
	}
	return []int{0}
}

// narrowing says which action types of a tenant a step is about. Risk is the configuration's, so it is a list of types.
func (a asked) narrowing(class int) func(*tenant, *ledger.ApprovalFilter) {
	return func(t *tenant, f *ledger.ApprovalFilter) {
		byRisk := a.Sort == "risk" && f.State == ledger.ApprovalPending
		switch {
		case byRisk && class == len(riskChoices):
			a.unknown(t, f)
		case byRisk:
			f.Actions = a.types(t, riskChoices[class])
		case a.Risk != "":
			f.Actions = a.types(t, a.Risk)
		case a.Action != "":
			f.Actions = []string{a.Action}
		}
	}
}

// types are the tenant's action types of a risk that are asked for.
func (a asked) types(t *tenant, risk string) []string {
	types := []string{}
	for name, action := range t.actions {
		if action.Risk == risk && (a.Risk == "" || a.Risk == risk) && (a.Action == "" || a.Action == name) {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	return types
}

// unknown asks for what has no risk, because the configuration does not have its type any more.
func (a asked) unknown(t *tenant, f *ledger.ApprovalFilter) {
	switch {
	case a.Risk != "" || a.Action != "" && t.action(a.Action) != nil:
		f.Actions = []string{}
	case a.Action != "":
		f.Actions = []string{a.Action}
	default:
		f.Except = slices.Sorted(maps.Keys(t.actions))
	}
}

// Together reports whether a line is listed that can be decided together with others.
func (s *queueSection) Together() bool {
	return slices.ContainsFunc(s.Rows, func(row queueRow) bool { return row.Mine && row.Alone == "" })
}

// Watched reports whether the page tells when the list has changed. Of what is decided all day long below what waits, nobody wants
// to hear.
func (s *queueSection) Watched() bool { return s.ID != "decided" }

// digest is the same as long as the page lists the same lines that say the same, in the lists that it watches.
func (v *queueView) digest() string {
	sum := sha256.New()
	for _, s := range v.watched() {
		fmt.Fprintln(sum, s.ID, s.Count)
		for i := range s.Rows {
			fmt.Fprintln(sum, s.Rows[i].ApprovalID, s.Rows[i].Mark())
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

func (v *queueView) watched() []queueSection {
	return slices.DeleteFunc(slices.Clone(v.Sections), func(s queueSection) bool { return !s.Watched() })
}

// marks are the lines that the page watches, by the ids of their approvals.
func (v *queueView) marks() map[string]string {
	marks := map[string]string{}
	for _, s := range v.watched() {
		for i := range s.Rows {
			marks[s.Rows[i].ApprovalID.String()] = s.Rows[i].Mark()
		}
	}
	return marks
}
