package ledger

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// request is a pending approval with what an event about it needs besides.
type request struct {
	Asked
	key, trace string // of the run
}

func scanRequest(row pgx.CollectableRow) (r request, err error) {
	err = row.Scan(&r.TenantID, &r.RunID, &r.ApprovalID, &r.ActionType, &r.Audience, &r.CorrelationID, &r.RequestedAt, &r.DecideBy,
		&r.key, &r.trace)
	return r, err
}

// requestColumns are what scanRequest reads, of an approval a and its run r.
const requestColumns = `a.tenant_id, a.run_id, a.approval_id, a.action_type, a.audience, a.correlation_id, a.requested_at, a.decide_by,
  r.idempotency_key, r.traceparent`

const requestedEventsSQL = `
with log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::bytea[])
) insert into pending (event_id) select * from unnest($1::uuid[])`

// tellRequests appends what a statement has returned to the outbox, in the transaction of that statement (B1): so each kind is told
// once for each approval, whoever repeats the command.
func tellRequests(ctx context.Context, tx pgx.Tx, kind, sql string, args ...any) (told []request, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	if told, err = pgx.CollectRows(rows, scanRequest); err != nil || len(told) == 0 {
		return told, err
	}
	events := make([]outgoing, len(told))
	for i := range told {
		r := &told[i]
		events[i], err = newOutgoing(r.TenantID, r.RunID, r.trace, &contracts.ApprovalRequested{
			RunRef: contracts.RunRef{TenantID: r.TenantID, RunID: r.RunID.String(), IdempotencyKey: r.key,
				CorrelationID: r.CorrelationID},
			ApprovalID: r.ApprovalID.String(), ActionType: r.ActionType, Audience: r.Audience, DecideBy: r.DecideBy, Kind: kind})
		if err != nil {
			return told, err
		}
	}
	_, err = tx.Exec(ctx, requestedEventsSQL, column(events, func(e outgoing) uuid.UUID { return e.id }),
		column(told, func(r request) string { return r.TenantID }), column(told, func(r request) uuid.UUID { return r.RunID }),
		column(events, func(e outgoing) string { return e.stream }), column(events, func(e outgoing) string { return e.subject }),
		column(events, func(e outgoing) []byte { return e.payload }))
	return told, err
}
