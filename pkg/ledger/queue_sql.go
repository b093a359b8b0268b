package ledger

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// summaryColumns of approvals a, runs r and intents n.
const summaryColumns = `a.tenant_id, a.approval_id, a.run_id, r.idempotency_key, r.correlation_id, r.source, r.requested_by, a.action_type,
  coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,system}', ''),
  coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,record_id}', ''),` + summaryRest

// summaryRest are the columns after those of the target.
const summaryRest = `
  a.audience, a.state, r.state, coalesce(r.outcome, ''),
  (select count(*) from reviews v where v.run_id = a.run_id and v.tenant_id = a.tenant_id and v.approval_id = a.approval_id
    and v.decision = 'approve')::int,
  a.requested_at, a.decide_by, a.decided_at, clock_timestamp(), a.terms`

// Lists are cut before anything is joined, each along an index, so that their cost does not grow with what waits or was ever
// decided. kindSQL skips from one kind of request to the next: tenant, state, action type and audience. There are few kinds, so
// whatever narrows a list by them costs nothing; of each, kindListSQL takes the first along the index, and the first of these are
// the list.
const (
	kindSQL = `
with recursive kind as (
  (select a.tenant_id, a.state, a.action_type, hash_array_extended(a.audience, 0) as hash, a.audience from approvals a
    where %[1]s order by a.tenant_id, a.state, a.action_type, hash_array_extended(a.audience, 0) limit 1)
  union all
  select n.* from kind k cross join lateral (
    select a.tenant_id, a.state, a.action_type, hash_array_extended(a.audience, 0) as hash, a.audience from approvals a
    where %[1]s and (%[2]sa.state, a.action_type, hash_array_extended(a.audience, 0)) > (%[3]sk.state, k.action_type, k.hash)
    order by a.tenant_id, a.state, a.action_type, hash_array_extended(a.audience, 0) limit 1
  ) n
)`
	kindListSQL = `(select a.* from kind k cross join lateral (
    select a.* from approvals a where a.tenant_id = k.tenant_id and a.state = k.state and a.action_type = k.action_type
      and hash_array_extended(a.audience, 0) = k.hash and %[1]s%[3]s order by %[4]s limit $1
  ) a where %[2]s order by %[4]s limit $1)`
	// plainListSQL is for what narrows to few by itself: a key, a correlation id, a search.
	plainListSQL = `(select a.* from approvals a where %[1]s and %[2]s%[3]s order by %[4]s limit $1)`

	byTime    = `coalesce(a.decided_at, a.decide_by), a.approval_id`
	byAge     = `a.requested_at, a.approval_id`
	byDecided = `coalesce(a.decided_at, a.decide_by) desc, a.approval_id desc`

	approvalsSQL = `
select a.tenant_id, a.approval_id, a.run_id, r.idempotency_key, r.correlation_id, r.source, r.requested_by, a.action_type,
  a.target_system, a.target_record,` + summaryRest + `, r.sent_by,
  coalesce((select c.corrected_by from corrections c where c.run_id = a.run_id and c.tenant_id = a.tenant_id limit 1), '')
from (%s) a join runs r using (run_id, tenant_id)
order by a.state = 'pending' desc, case when a.state = 'pending' then %s end, a.decided_at desc,
  case when a.state = 'pending' then a.approval_id end, a.approval_id desc limit $1`

	votesSQL = `
select v.approval_id, v.decision, v.issuer, v.subject, v.reviewer_id, v.reason, v.decided_at, v.roles, v.for_issuer, v.for_subject, v.for_id
from unnest($1::text[], $2::uuid[], $3::uuid[]) as i(tenant_id, run_id, approval_id)
join reviews v using (run_id, tenant_id, approval_id) order by v.approval_id, v.ordinal`

	searchedSQL = ` and a.approval_id in (
    select approval_id from approvals where run_id = $%[1]d and tenant_id = $%[2]d
    union all (select approval_id from approvals where tenant_id = $%[2]d and correlation_id ~>=~ $%[3]d and correlation_id ~<~ $%[4]d
      order by correlation_id using ~<~, approval_id limit %[5]d)
    union all (select approval_id from approvals where tenant_id = $%[2]d and left(target_record, 255) ~>=~ $%[3]d
      and left(target_record, 255) ~<~ $%[4]d order by left(target_record, 255) using ~<~, approval_id limit %[5]d))`
)

// narrowed is a filter as SQL. The limit is $1.
type narrowed struct {
	args   []any
	tenant string // condition on the tenant, "true" where there is none
	kinds  string // conditions that are the same for all requests of a kind
	each   string // conditions on each request
	few    bool   // each alone narrows to few
}

func (n *narrowed) arg(value any) int {
	n.args = append(n.args, value)
	return len(n.args)
}

// narrow says only what narrows: a condition that is there and means nothing would keep Postgres from the indexes.
func (f *ApprovalFilter) narrow() *narrowed {
	n := &narrowed{args: []any{f.Limit}, tenant: "true"}
	if f.Limit < 1 {
		n.args[0] = DefaultListed
	}
	tenant := 0
	if f.TenantID != "" {
		tenant = n.arg(f.TenantID)
		n.tenant = fmt.Sprintf("a.tenant_id = $%d", tenant)
	}
	if f.Audience != nil {
		n.kinds += fmt.Sprintf(" and a.audience && $%d", n.arg(f.Audience))
	}
	if f.Actions != nil {
		n.kinds += fmt.Sprintf(" and a.action_type = any($%d)", n.arg(f.Actions))
	}
	if f.Except != nil {
		n.kinds += fmt.Sprintf(" and a.action_type <> all($%d)", n.arg(f.Except))
	}
	if f.CorrelationID != "" {
		n.each += fmt.Sprintf(" and a.correlation_id = $%d", n.arg(storable(f.CorrelationID)))
	}
	switch {
	case f.Key == "":
	case f.TenantID != "":
		n.each += fmt.Sprintf(" and a.run_id = $%d", n.arg(RunID(f.TenantID, f.Key)))
	default:
		n.each += fmt.Sprintf(" and a.run_id in (select run_id from runs where idempotency_key = $%d)", n.arg(storable(f.Key)))
	}
	if f.Search != "" && f.TenantID != "" {
		text := beginning(storable(f.Search), 255)
		n.each += fmt.Sprintf(searchedSQL, n.arg(RunID(f.TenantID, f.Search)), tenant, n.arg(text), n.arg(text+string(utf8.MaxRune)),
			MostSearched)
	}
	n.few = n.each != ""
	return n
}

// beginning is at most so many characters of a text.
func beginning(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// query is the statement of a list and its arguments.
func (f *ApprovalFilter) query() (sql string, args []any) {
	n := f.narrow()
	after, before := "", ""
	if m := f.After; m != nil {
		at, id := n.arg(m.At), n.arg(m.ApprovalID)
		before = fmt.Sprintf(" and (coalesce(a.decided_at, a.decide_by), a.approval_id) < ($%d, $%d)", at, id)
		after = fmt.Sprintf(" and (%s) > ($%d, $%d)", f.order(), at, id)
	}
	var lists []string
	if f.State != ApprovalPending || f.Decided {
		decided := "a.state <> 'pending'"
		if f.State != "" {
			decided += fmt.Sprintf(" and a.state = $%d", n.arg(storable(f.State)))
		}
		lists = append(lists, n.list(decided, before, byDecided))
	}
	if f.waits() {
		lists = append(lists, n.list("a.state = 'pending'", after, f.order()))
	}
	return n.with() + fmt.Sprintf(approvalsSQL, strings.Join(lists, " union all "), strings.TrimSuffix(f.order(), ", a.approval_id")), n.args
}

// waits reports whether what waits is listed.
func (f *ApprovalFilter) waits() bool {
	return !f.Decided && (f.State == "" || f.State == ApprovalPending)
}

func (f *ApprovalFilter) order() string {
	if f.Oldest {
		return byAge
	}
	return byTime
}

// list is one list of requests in some states, in one order.
func (n *narrowed) list(states, from, order string) string {
	if n.few {
		return fmt.Sprintf(plainListSQL, states, n.tenant, n.kinds+n.each+from, order)
	}
	// The conditions on the kind stand inside as well: two audiences could have one hash.
	return fmt.Sprintf(kindListSQL, states, strings.ReplaceAll(states+n.kinds, "a.", "k."), n.kinds+from, order)
}

// with is the kinds, where the lists go by them.
func (n *narrowed) with() string {
	if n.few {
		return ""
	}
	if n.tenant == "true" {
		return fmt.Sprintf(kindSQL, n.tenant, "a.tenant_id, ", "k.tenant_id, ")
	}
	// Beside an equality a row that begins with the same column would be a filter, and no place in the index to go on from.
	return fmt.Sprintf(kindSQL, n.tenant, "", "")
}
