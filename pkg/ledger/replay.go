package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ParkedRow is a parked message as operators see it.
type ParkedRow struct {
	ID         uuid.UUID
	Consumer   string
	TenantID   string
	Subject    string
	Reason     string
	Headers    map[string]string
	Body       []byte
	Deliveries int
	State      string
	ParkedAt   time.Time
}

const parkedColumns = `parked_id, consumer, tenant_id, subject, reason, headers, body, deliveries, state, parked_at`

func scanParked(row pgx.CollectableRow) (p ParkedRow, err error) {
	err = row.Scan(&p.ID, &p.Consumer, &p.TenantID, &p.Subject, &p.Reason, &p.Headers, &p.Body, &p.Deliveries, &p.State, &p.ParkedAt)
	return p, err
}

// ParkedMessages lists up to limit messages that wait for an operator, oldest first.
func (l *Ledger) ParkedMessages(ctx context.Context, limit int) ([]ParkedRow, error) {
	rows, err := l.pool.Query(ctx, `select `+parkedColumns+` from parked_messages where state = 'parked' order by parked_at limit $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list parked messages: %w", err)
	}
	return pgx.CollectRows(rows, scanParked)
}

// ErrNotParked means that no parked message has the id: there never was one, or somebody has replayed or discarded it.
var ErrNotParked = errors.New("no parked message has this id; it may have been replayed or discarded already")

// Edit replaces what was wrong with a parked message; nil members leave it as it was.
type Edit struct {
	Body    []byte
	Headers map[string]string
}

// Replay sends a parked message again from Postgres, corrected where asked, and marks it replayed, once (B5). It takes the whole way
// again: intake claims by key, and a consumer of ours applies the event only if its record has not moved on.
func (l *Ledger) Replay(ctx context.Context, id uuid.UUID, by string, fix Edit) error {
	return l.settleParked(ctx, id, by, "replayed", func(ctx context.Context, tx pgx.Tx, p ParkedRow, event *uuid.UUID) error {
		stream, err := streamOf(p)
		if err != nil {
			return err
		}
		body, headers := p.Body, p.Headers
		if fix.Body != nil {
			body = fix.Body
		}
		for name, value := range fix.Headers {
			headers[name] = value
		}
		delete(headers, "Nats-Msg-Id") // the outbox gives the broker a new one
		next := newEventID()
		batch := &pgx.Batch{}
		batch.Queue(`insert into event_log (event_id, tenant_id, run_id, stream, subject, payload, headers)
values ($1, $2, '00000000-0000-0000-0000-000000000000', $3, $4, $5, $6)`, next, p.TenantID, stream, p.Subject, body, headers)
		batch.Queue(`insert into pending (event_id) values ($1)`, next)
		if event != nil {
			batch.Queue(`delete from inbox where event_id = $1 and parked`, *event)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}

// Discard marks a parked message as not to be replayed. It is kept.
func (l *Ledger) Discard(ctx context.Context, id uuid.UUID, by string) error {
	return l.settleParked(ctx, id, by, "discarded", func(context.Context, pgx.Tx, ParkedRow, *uuid.UUID) error { return nil })
}

func (l *Ledger) settleParked(ctx context.Context, id uuid.UUID, by, state string,
	then func(context.Context, pgx.Tx, ParkedRow, *uuid.UUID) error) error {
	if by == "" {
		return errors.New("a parked message is settled by somebody: say who")
	}
	repeated := false
	return l.command(ctx, "settle_parked", func(ctx context.Context) error {
		defer func() { repeated = true }()
		return l.transaction(ctx, l.site("settle_parked"), nil, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `update parked_messages set state = $3, settled_at = clock_timestamp(), settled_by = $2
where parked_id = $1 and state = 'parked' returning `+parkedColumns, id, by, state)
			if err != nil {
				return err
			}
			p, err := pgx.CollectExactlyOneRow(rows, scanParked)
			if errors.Is(err, pgx.ErrNoRows) {
				return settledAlready(ctx, tx, id, by, state, repeated)
			}
			if err != nil {
				return err
			}
			var event *uuid.UUID
			if err := tx.QueryRow(ctx, `select event_id from parked_messages where parked_id = $1`, id).Scan(&event); err != nil {
				return err
			}
			return then(ctx, tx, p, event)
		})
	})
}

// settledAlready is nil where this very command settled the message and lost the answer to its COMMIT (STO-04).
func settledAlready(ctx context.Context, tx pgx.Tx, id uuid.UUID, by, state string, repeated bool) error {
	var ours bool
	err := tx.QueryRow(ctx, `select exists (select from parked_messages where parked_id = $1 and settled_by = $2 and state = $3)`, id, by, state).
		Scan(&ours)
	if err == nil && !(ours && repeated) {
		err = ErrNotParked
	}
	return err
}

// streamOf is the stream that takes the message's subject.
func streamOf(p ParkedRow) (string, error) {
	switch {
	case strings.HasPrefix(p.Subject, "holdpoint.ingress."):
		return "HOLDPOINT_INGRESS_" + strings.ToUpper(p.TenantID), nil
	case strings.HasPrefix(p.Subject, "holdpoint.internal."):
		return StreamInternal, nil
	case strings.HasPrefix(p.Subject, "holdpoint.events."):
		return StreamEvents(p.TenantID), nil
	}
	return "", fmt.Errorf("the subject %q belongs to no stream of ours; discard the message", p.Subject)
}
