package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Search asks for runs of one tenant.
type Search struct {
	TenantID      string
	CorrelationID string    // "" for any
	State         string    // "" for any
	Since         time.Time // when the run was made, at the earliest; a search without a correlation id needs it
	Limit         int

	before    time.Time // the page goes on after this moment
	beforeRun uuid.UUID // and this run
}

// After has the search go on after a run of an earlier page: "created_at,run_id".
func (s *Search) After(cursor string) error {
	moment, run, _ := strings.Cut(cursor, ",")
	var err error
	if s.before, err = time.Parse(time.RFC3339Nano, moment); err != nil {
		return fmt.Errorf("read the cursor %q: %w", cursor, err)
	}
	if s.beforeRun, err = uuid.Parse(run); err != nil {
		return fmt.Errorf("read the cursor %q: %w", cursor, err)
	}
	return nil
}

// FoundRun is a run that a search found.
type FoundRun struct {
	Run       Run
	CreatedAt time.Time
}

// The two ways to search, each with the index that serves it.
const (
	searchByCorrelationSQL = `
select tenant_id, run_id, created_at from runs
where hashtextextended(correlation_id, 0) = hashtextextended($2, 0) and correlation_id = $2 and tenant_id = $1
  and ($3 = '' or state = $3) and created_at >= $4 and (created_at, run_id) < ($5, $6)
order by created_at desc, run_id desc limit $7`

	searchByStateSQL = `
select tenant_id, run_id, created_at from runs
where tenant_id = $1 and $2 = '' and state = $3 and created_at >= $4 and (created_at, run_id) < ($5, $6) and created_at <= $5
order by created_at desc, run_id desc limit $7`
)

// Search finds runs, the newest first.
func (l *Ledger) Search(ctx context.Context, s Search) ([]FoundRun, error) {
	query := searchByStateSQL
	if s.CorrelationID != "" {
		query = searchByCorrelationSQL
	}
	before, beforeRun := s.before, s.beforeRun
	if before.IsZero() {
		before, beforeRun = time.Now().Add(time.Hour), uuid.Max
	}
	rows, err := l.pool.Query(ctx, query, s.TenantID, s.CorrelationID, s.State, s.Since, before, beforeRun, s.Limit)
	if err != nil {
		return nil, unread("search runs", err)
	}
	type found struct {
		key runKey
		at  time.Time
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		return f, row.Scan(&f.key.tenant, &f.key.run, &f.at)
	})
	if err != nil {
		return nil, unread("search runs", err)
	}
	runs, err := l.readRuns(ctx, column(list, func(f found) runKey { return f.key }))
	if err != nil {
		return nil, unread("search runs", err)
	}
	out := make([]FoundRun, 0, len(list))
	for _, f := range list {
		if run := runs[f.key]; run != nil {
			out = append(out, FoundRun{*run, f.at})
		}
	}
	return out, nil
}
