package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reviewed is a request of the past that people have decided.
type Reviewed struct {
	RunID      uuid.UUID
	Key        string
	ActionType string
	Canonical  []byte
	Reasons    []byte // JSON, why people were asked
	State      string // of the approval
	Reviewers  []string
	Waited     time.Duration // until it was decided
	RunOutcome string        // "" while the run goes on
}

const reviewedSQL = `
select a.run_id, r.idempotency_key, a.action_type, n.canonical, a.reasons, a.state,
  array(select v.reviewer_id from reviews v where v.run_id = a.run_id and v.tenant_id = a.tenant_id and v.approval_id = a.approval_id
    order by v.ordinal),
  extract(epoch from a.decided_at - a.requested_at)::float8, coalesce(r.outcome, '')
from approvals a
join intents n using (run_id, tenant_id, intent_hash)
join runs r using (run_id, tenant_id)
where a.tenant_id = $1 and a.decided_at >= $2 and ($3 = '' or a.action_type = $3) and a.state in ('approved', 'rejected', 'superseded')
order by a.decided_at desc limit $4`

// Reviewed reads what people decided, the newest first, and gives each to a function that may keep nothing of it. It writes nothing.
func (l *Ledger) Reviewed(ctx context.Context, q RecordedQuery, each func(*Reviewed) error) error {
	rows, err := l.pool.Query(ctx, reviewedSQL, q.TenantID, q.Since, q.ActionType, q.Limit)
	if err == nil {
		var v Reviewed
		var waited float64
		_, err = pgx.ForEachRow(rows, []any{&v.RunID, &v.Key, &v.ActionType, &v.Canonical, &v.Reasons, &v.State, &v.Reviewers, &waited,
			&v.RunOutcome}, func() error {
			v.Waited = time.Duration(waited * float64(time.Second))
			err := each(&v)
			v.Reviewers = nil
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("read what people decided: %w", err)
	}
	return nil
}
