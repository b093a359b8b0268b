package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ApprovalFilter narrows a list of approvals. The zero value of a field does not narrow.
type ApprovalFilter struct {
	TenantID      string
	State         string
	Audience      []string // one of these roles may decide
	Actions       []string // one of these action types
	Except        []string // none of these action types
	CorrelationID string
	Key           string
	Search        string // the key, or how the correlation id or the target record begins; of one tenant, which must be named
	Decided       bool   // only those that wait no longer
	Oldest        bool   // what waits comes by its age, not by the time that is left
	After         *ApprovalMark
	Limit         int // at most so many; less than 1 is DefaultListed
}

// DefaultListed is how many approvals a list has where nothing else is said.
const DefaultListed = 200

// MostSearched is how many approvals a search finds by the correlation id, and by the target record: whoever typed so little
// that more begin with it has to type more.
const MostSearched = 1000

// ApprovalMark is a place in a list of one order: what comes after it is what has not been listed before, whatever was decided
// or asked for since.
type ApprovalMark struct {
	At         time.Time // decide-by, or when it was asked for or decided, by the order
	ApprovalID uuid.UUID
}

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

// Mark is where the approval stands in a list, by age or else by time.
func (s *ApprovalSummary) Mark(oldest bool) ApprovalMark {
	switch {
	case s.DecidedAt != nil:
		return ApprovalMark{*s.DecidedAt, s.ApprovalID}
	case oldest:
		return ApprovalMark{s.RequestedAt, s.ApprovalID}
	}
	return ApprovalMark{s.DecideBy, s.ApprovalID}
}

// Listed is one line of the queue with what says who may decide it.
type Listed struct {
	ApprovalSummary
	SentBy      string // the credential that brought the event in
	CorrectedBy string // whoever made the correction that it is, "" where it is none
	Cast        []Cast // its votes, of approvals that wait
}

// Approvals lists approvals: those that wait first, the most urgent on top, then the latest decided.
func (l *Ledger) Approvals(ctx context.Context, f ApprovalFilter) ([]ApprovalSummary, error) {
	list, err := l.listed(ctx, f)
	return column(list, func(one Listed) ApprovalSummary { return one.ApprovalSummary }), err
}

// Queue lists approvals as Approvals does, with the votes on those that wait.
func (l *Ledger) Queue(ctx context.Context, f ApprovalFilter) ([]Listed, error) {
	list, err := l.listed(ctx, f)
	if err != nil {
		return nil, err
	}
	at := map[uuid.UUID]int{}
	var tenants []string
	var runs, approvals []uuid.UUID
	for i, one := range list {
		if one.State == ApprovalPending && one.Approvals > 0 {
			at[one.ApprovalID] = i
			tenants, runs, approvals = append(tenants, one.TenantID), append(runs, one.RunID), append(approvals, one.ApprovalID)
		}
	}
	if len(at) == 0 {
		return list, nil
	}
	rows, err := l.pool.Query(ctx, votesSQL, tenants, runs, approvals)
	if err == nil {
		err = readVotes(rows, func(id uuid.UUID, c Cast) { list[at[id]].Cast = append(list[at[id]].Cast, c) })
	}
	if err != nil {
		return nil, unread("read the votes of the queue", err)
	}
	return list, nil
}

func readVotes(rows pgx.Rows, each func(uuid.UUID, Cast)) error {
	var id uuid.UUID
	var c Cast
	var principal [3]*string
	_, err := pgx.ForEachRow(rows, []any{&id, &c.Decision, &c.Issuer, &c.Subject, &c.ReviewerID, &c.Reason, &c.DecidedAt, &c.Roles,
		&principal[0], &principal[1], &principal[2]}, func() error {
		c.For = principalOf(principal)
		each(id, c)
		c.Roles = nil
		return nil
	})
	return err
}

func (l *Ledger) listed(ctx context.Context, f ApprovalFilter) ([]Listed, error) {
	sql, args := f.query()
	rows, err := l.pool.Query(ctx, sql, args...)
	if err == nil {
		var list []Listed
		if list, err = pgx.CollectRows(rows, scanListed); err == nil {
			return list, nil
		}
	}
	return nil, unread("list approvals", err)
}

func scanListed(row pgx.CollectableRow) (one Listed, err error) {
	err = row.Scan(append(one.columns(), &one.SentBy, &one.CorrectedBy)...)
	return one, err
}

// columns are where summaryColumns are read into.
func (s *ApprovalSummary) columns() []any {
	return []any{&s.TenantID, &s.ApprovalID, &s.RunID, &s.Key, &s.CorrelationID, &s.Source, &s.RequestedBy, &s.ActionType, &s.TargetSystem,
		&s.TargetRecord, &s.Audience, &s.State, &s.RunState, &s.RunOutcome, &s.Approvals, &s.RequestedAt, &s.DecideBy, &s.DecidedAt, &s.Now,
		&s.Terms}
}
