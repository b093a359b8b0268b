package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ApprovalFilter narrows a list of approvals. The zero value of a field does not narrow.
type ApprovalFilter struct {
	TenantID      string
	State         string
	Audience      []string // one of these roles may decide
	CorrelationID string
	Key           string
	Decided       bool // only those that wait no longer
	Limit         int  // at most so many; less than 1 is DefaultListed
}

// DefaultListed is how many approvals a list has where nothing else is said.
const DefaultListed = 200

// ApprovalSummary is one line of the queue.
type ApprovalSummary struct {
	TenantID      string
	ApprovalID    uuid.UUID
	RunID         uuid.UUID
	Key           string
	CorrelationID string
	Source        string
	RequestedBy   string // as the event says it
	ActionType    string
	TargetSystem  string
	TargetRecord  string
	Audience      []string
	State         string
	RunState      string
	RunOutcome    string
	Approvals     int // votes to approve
	RequestedAt   time.Time
	DecideBy      time.Time
	DecidedAt     *time.Time
	Now           time.Time // the database's clock
	Terms         *Terms    // that the request keeps, nil before people are told of it
}

// summaryColumns of approvals a, runs r and intents n.
const summaryColumns = `a.tenant_id, a.approval_id, a.run_id, r.idempotency_key, r.correlation_id, r.source, r.requested_by, a.action_type,
  coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,system}', ''),
  coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,record_id}', ''),
  a.audience, a.state, r.state, coalesce(r.outcome, ''),
  (select count(*) from reviews v where v.run_id = a.run_id and v.tenant_id = a.tenant_id and v.approval_id = a.approval_id
    and v.decision = 'approve')::int,
  a.requested_at, a.decide_by, a.decided_at, clock_timestamp(), a.terms`

// The lists are cut before anything is joined, each along an index, so that their cost does not grow with what was ever decided.
const (
	waitingListSQL = `(select a.* from approvals a where a.state = 'pending'%s order by a.decide_by limit $1)`
	decidedListSQL = `(select a.* from approvals a where a.state <> 'pending'%s order by a.decided_at desc limit $1)`
	approvalsSQL   = `
select ` + summaryColumns + `
from (%s) a join runs r using (run_id, tenant_id) join intents n using (run_id, tenant_id, intent_hash)
order by a.state = 'pending' desc, case when a.state = 'pending' then a.decide_by end, a.decided_at desc limit $1`
)

// Approvals lists approvals: those that wait first, the most urgent on top, then the latest decided.
func (l *Ledger) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalSummary, error) {
	sql, args := f.query()
	rows, err := l.pool.Query(ctx, sql, args...)
	if err == nil {
		var list []ApprovalSummary
		if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ApprovalSummary]); err == nil {
			return list, nil
		}
	}
	return nil, unread("list approvals", err)
}

// query says only what narrows: a condition that is there and means nothing would keep Postgres from the indexes. The limit is $1.
func (f *ApprovalFilter) query() (sql string, args []any) {
	if args = []any{f.Limit}; f.Limit < 1 {
		args[0] = DefaultListed
	}
	var where strings.Builder
	narrow := func(condition string, value any) {
		args = append(args, value)
		fmt.Fprintf(&where, " and "+condition, len(args))
	}
	if f.TenantID != "" {
		narrow("a.tenant_id = $%d", f.TenantID)
	}
	if f.State != "" {
		narrow("a.state = $%d", storable(f.State))
	}
	if f.Audience != nil {
		narrow("a.audience && $%d", f.Audience)
	}
	if f.CorrelationID != "" {
		narrow("a.correlation_id = $%d", storable(f.CorrelationID))
	}
	switch {
	case f.Key == "":
	case f.TenantID != "":
		narrow("a.run_id = $%d", RunID(f.TenantID, f.Key))
	default:
		narrow("a.run_id in (select run_id from runs where idempotency_key = $%d)", storable(f.Key))
	}
	var lists []string
	if f.State != ApprovalPending || f.Decided {
		lists = append(lists, fmt.Sprintf(decidedListSQL, where.String()))
	}
	if !f.Decided && (f.State == "" || f.State == ApprovalPending) {
		lists = append(lists, fmt.Sprintf(waitingListSQL, where.String()))
	}
	return fmt.Sprintf(approvalsSQL, strings.Join(lists, " union all ")), args
}
