package ledger

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Original is an event as it was received.
type Original struct {
	Payload     []byte
	ContentType string
	Headers     map[string]string
}

// Original reads the event of a run, as it came.
func (l *Ledger) Original(ctx context.Context, tenant string, run uuid.UUID) (*Original, error) {
	var o Original
	err := l.pool.QueryRow(ctx, `select payload, content_type, headers from run_payloads where run_id = $2 and tenant_id = $1`, tenant,
		run).Scan(&o.Payload, &o.ContentType, &o.Headers)
	if err != nil {
		return nil, unread(fmt.Sprintf("read the event of run %s", run), err)
	}
	return &o, nil
}
