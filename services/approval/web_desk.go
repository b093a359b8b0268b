package approval

import (
	"cmp"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// deskAsk is what the address of the desk asks for.
type deskAsk struct {
	Kind, Connector, Tenant, Sort, After string
}

func deskAskOf(q url.Values) deskAsk {
	return deskAsk{trimmed(q, "kind"), trimmed(q, "connector"), trimmed(q, "tenant"), trimmed(q, "sort"), trimmed(q, "after")}
}

// byAmount is the order that is not by age.
const byAmount = "amount"

// Changed reports whether the page is another one than the plain desk.
func (q deskAsk) Changed() bool { return q != deskAsk{} }

// with is the address of the same list from a place on, "" its beginning.
func (q deskAsk) with(after string) string {
	v := url.Values{}
	for name, value := range map[string]string{"kind": q.Kind, "connector": q.Connector, "tenant": q.Tenant, "sort": q.Sort, "after": after} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if len(v) == 0 {
		return "/desk"
	}
	return "/desk?" + v.Encode()
}

// First is the address of the first page.
func (q deskAsk) First() string { return q.with("") }

// filter is what is listed to somebody of these scopes, one line more than a page has; false where the place cannot be read.
func (q deskAsk) filter(scopes []ledger.DeskScope) (ledger.DeskFilter, bool) {
	f := ledger.DeskFilter{Kind: q.Kind, Connector: q.Connector, UnknownFor: deskUnknownFor, AcceptedFor: outcome.AcceptedDeadline,
		ByAmount: q.Sort == byAmount, Limit: listedOnPage + 1, Scopes: scopes}
	if q.Tenant != "" {
		f.Scopes = slices.DeleteFunc(slices.Clone(scopes), func(s ledger.DeskScope) bool { return s.TenantID != q.Tenant })
	}
	if q.After == "" {
		return f, true
	}
	mark, ok := deskMarkOf(q.After)
	f.After = mark
	return f, ok
}

// deskMark is a place in the list as an address has it: amount, time and operation.
func deskMark(m ledger.DeskMark) string {
	return m.Amount + "~" + m.Since.UTC().Format(time.RFC3339Nano) + "~" + m.OperationID
}

func deskMarkOf(text string) (*ledger.DeskMark, bool) {
	parts := strings.Split(text, "~")
	if len(parts) != 3 {
		return nil, false
	}
	since, err := time.Parse(time.RFC3339Nano, parts[1])
	_, isNumber := new(big.Rat).SetString(parts[0])
	_, _, _, bad := ledger.ParseOperationID(parts[2])
	return &ledger.DeskMark{Amount: parts[0], Since: since, OperationID: parts[2]}, err == nil && isNumber && bad == nil
}

// deskView is the list of what waits for an operator, with what it comes to on top.
type deskView struct {
	Eye        *eye
	Ask        deskAsk
	Kinds      []deskKind
	Total      deskKind
	Tenants    []choice
	Connectors []string
	Rows       []deskRow
	Next       string
	Strange    []ledger.UnmatchedSum // what providers have told about nothing that is known, of tenants whose operator the person is
}

// deskKind is what waits of one kind.
type deskKind struct {
	Kind    string
	Count   int
	Oldest  time.Time
	Now     time.Time
	Amounts []string
	sums    []ledger.DeskSum
}

func (k *deskKind) add(s ledger.DeskSum) {
	k.Count, k.Now = k.Count+s.Count, s.Now
	if k.Oldest.IsZero() || s.Oldest.Before(k.Oldest) {
		k.Oldest = s.Oldest
	}
	k.sums = append(k.sums, s)
	k.Amounts = amountsOf(k.sums)
}

// deskRow is one line.
type deskRow struct {
	ledger.DeskItem
	Tenant string // its name, "" where the person sees one tenant only
	Owner  string
}

// Why is what the last attempt or lookup came to, in words.
func (r *deskRow) Why() string {
	words := human(cmp.Or(r.LastClass, "no report"))
	if r.LastDetail != "" {
		words += ": " + r.LastDetail
	}
	if r.LastVerdict != "" {
		words += "; the last lookup: " + human(r.LastVerdict)
	}
	return words
}

// Words of the menus.
var deskSorts = []choice{{"", "the oldest"}, {byAmount, "the most at risk"}}

// Sorts are the orders.
func (v *deskView) Sorts() []choice { return deskSorts }

// Choices are the kinds that can be asked for.
func (v *deskView) Choices() []string { return ledger.DeskKinds }

// deskPage lists what a person has to settle, the oldest first. To whoever may settle nothing, there is none.
func (w *web) deskPage(r *http.Request, who *identity) *reply {
	scopes := w.a.deskScopes(who)
	q := deskAskOf(r.URL.Query())
	f, ok := q.filter(scopes)
	if len(scopes) == 0 || !ok {
		return notFound()
	}
	v := deskView{Eye: &eye{}, Ask: q}
	everything := f
	everything.Kind, everything.Connector = "", ""
	sums, err := w.a.env.Ledger.DeskSums(r.Context(), everything)
	if err != nil {
		return w.failure(err)
	}
	list, err := w.a.env.Ledger.Desk(r.Context(), f)
	if err != nil {
		return w.failure(err)
	}
	if v.Strange, err = w.a.env.Ledger.UnmatchedEvents(r.Context(), operatorOf(scopes)); err != nil {
		return w.failure(err)
	}
	v.sums(sums)
	w.deskRows(&v, scopes, list)
	return &reply{Status: http.StatusOK, title: "Desk", name: "desk", data: &v, eye: v.Eye}
}

// operatorOf are the tenants all of whose effects are in the scopes.
func operatorOf(scopes []ledger.DeskScope) (tenants []string) {
	for _, s := range scopes {
		if s.ActionType == "" {
			tenants = append(tenants, s.TenantID)
		}
	}
	return tenants
}

func (v *deskView) sums(sums []ledger.DeskSum) {
	for _, kind := range ledger.DeskKinds {
		k := deskKind{Kind: kind}
		for _, s := range sums {
			if s.Kind == kind {
				k.add(s)
				v.Total.add(s)
			}
		}
		if k.Count > 0 {
			v.Kinds = append(v.Kinds, k)
		}
	}
	for _, s := range sums {
		if !slices.Contains(v.Connectors, s.Connector) {
			v.Connectors = append(v.Connectors, s.Connector)
		}
	}
	slices.Sort(v.Connectors)
}

func (w *web) deskRows(v *deskView, scopes []ledger.DeskScope, list []ledger.DeskItem) {
	for _, s := range scopes {
		one := choice{s.TenantID, w.a.tenant(s.TenantID).DisplayName}
		if !slices.Contains(v.Tenants, one) {
			v.Tenants = append(v.Tenants, one)
		}
	}
	if len(list) > listedOnPage {
		list = list[:listedOnPage]
		v.Next = v.Ask.with(deskMark(list[listedOnPage-1].Mark()))
	}
	for i := range list {
		t := w.a.tenant(list[i].TenantID)
		row := deskRow{DeskItem: list[i], Owner: t.ownerOf(list[i].ActionType)}
		if len(v.Tenants) > 1 {
			row.Tenant = t.DisplayName
		}
		v.Rows = append(v.Rows, row)
	}
}
