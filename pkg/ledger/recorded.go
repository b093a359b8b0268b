package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// RecordedQuery chooses decisions of the past.
type RecordedQuery struct {
	TenantID   string
	ActionType string // "" is all
	Since      time.Time
	Limit      int
}

// Recorded is a decision of the past, with the intent that it was about.
type Recorded struct {
	Key        string
	IntentHash canonical.Digest
	Canonical  []byte
	Route      string
	Reasons    []byte // JSON, as policy gave them
	DecidedAt  time.Time
}

const pastSQL = `
select r.idempotency_key, n.intent_hash, n.canonical, d.route, d.reasons, d.decided_at
from policy_decisions d
join intents n using (run_id, tenant_id, intent_hash)
join runs r using (run_id, tenant_id)
where d.tenant_id = $1 and d.decided_at >= $2 and ($3 = '' or n.action_type = $3)
order by d.decided_at desc limit $4`

// Recorded reads decisions, the newest first, and gives each to a function that may keep nothing of it. It writes nothing.
func (l *Ledger) Recorded(ctx context.Context, q RecordedQuery, each func(*Recorded) error) error {
	rows, err := l.pool.Query(ctx, pastSQL, q.TenantID, q.Since, q.ActionType, q.Limit)
	if err != nil {
		return fmt.Errorf("read recorded decisions: %w", err)
	}
	var d Recorded
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&d.Key, &hash, &d.Canonical, &d.Route, &d.Reasons, &d.DecidedAt}, func() error {
		copy(d.IntentHash[:], hash)
		return each(&d)
	})
	if err != nil {
		return fmt.Errorf("read recorded decisions: %w", err)
	}
	return nil
}
