package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Revisions bound how often a proposal is sent back to whoever made it, and how long a better one is awaited (P2, A18). The zero value
// allows none.
type Revisions struct {
	Rounds int
	Within time.Duration
}

// Left reports whether the intent with this revision, from 1, can be sent back.
func (r Revisions) Left(revision int) bool { return r.Within > 0 && revision <= r.Rounds }

// SentBack is why a proposal was sent back, and what it was.
type SentBack struct {
	Revision  int // of the intent that was sent back
	By        string
	Reasons   json.RawMessage // an array of reasons, each with a code and a message
	Canonical []byte          // of the intent
}

// personalReasons is what a person says of a proposal that they send back, in the form of policy's reasons.
func personalReasons(text string) string {
	return jsonText([]map[string]string{{"code": "sent_back", "message": text}})
}

// awaitedSQL has a better proposal be awaited: any worker of the source is given the run, as if none had been made.
const (
	awaitedSQL = `
update runs r set revise_by = i.at + make_interval(secs => i.seconds), attempts = 0
from unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::float8[]) as i(tenant_id, run_id, at, seconds)
where r.tenant_id = i.tenant_id and r.run_id = i.run_id`
	awaitingSQL = `
insert into waiting_runs (tenant_id, run_id, source, available_at)
select r.tenant_id, r.run_id, r.source, i.at
from unnest($1::text[], $2::uuid[], $3::timestamptz[]) as i(tenant_id, run_id, at)
join runs r on r.tenant_id = i.tenant_id and r.run_id = i.run_id
on conflict (run_id, tenant_id) do update set available_at = excluded.available_at, owner = null`
	sentBackSQL = `
insert into sent_back (tenant_id, run_id, revision, sent_by, reasons)
select * from unnest($1::text[], $2::uuid[], $3::int[], $4::text[], $5::jsonb[])`
)

func (w *rulingWriter) sentBack(back []*ruling) {
	if len(back) == 0 {
		return
	}
	at := column(back, func(r *ruling) time.Time { return r.locked.now })
	w.batch.Queue(awaitedSQL, rulingTenants(back), rulingIDs(back), at,
		column(back, func(r *ruling) float64 { return r.vote.Revisions.Within.Seconds() }))
	w.batch.Queue(awaitingSQL, rulingTenants(back), rulingIDs(back), at)
	w.batch.Queue(sentBackSQL, rulingTenants(back), rulingIDs(back), column(back, func(r *ruling) int32 { return int32(r.locked.revision) }),
		column(back, func(r *ruling) string { return r.vote.Reviewer.ID }),
		column(back, func(r *ruling) string { return personalReasons(r.vote.Reason) }))
}

const readSentBackSQL = `
select i.ord, b.revision, b.sent_by, b.reasons, n.canonical
from unnest($1::text[], $2::uuid[], $3::int[]) with ordinality as i(tenant_id, run_id, revision, ord)
cross join lateral (
  select * from sent_back b where b.tenant_id = i.tenant_id and b.run_id = i.run_id and b.revision = i.revision limit 1
) b
cross join lateral (
  select n.canonical from intents n where n.tenant_id = i.tenant_id and n.run_id = i.run_id and n.revision = i.revision limit 1
) n`

// readSentBack tells the workers of runs whose proposal was sent back why.
func (l *Ledger) readSentBack(ctx context.Context, tasks []Task) error {
	var back []*Task
	for i := range tasks {
		if tasks[i].Run.ReviseBy != nil {
			back = append(back, &tasks[i])
		}
	}
	if len(back) == 0 {
		return nil
	}
	rows, err := l.pool.Query(ctx, readSentBackSQL, column(back, func(t *Task) string { return t.Run.TenantID }),
		column(back, func(t *Task) uuid.UUID { return t.Run.RunID }),
		column(back, func(t *Task) int32 { return int32(t.Run.IntentRevision) }))
	if err == nil {
		var ord int
		var b SentBack
		_, err = pgx.ForEachRow(rows, []any{&ord, &b.Revision, &b.By, &b.Reasons, &b.Canonical}, func() error {
			one := b
			back[ord-1].SentBack, b = &one, SentBack{}
			return nil
		})
	}
	if err != nil {
		return unread("read why proposals were sent back", err)
	}
	return nil
}

// SentBackIntent is the canonical intent of a run's latest revision, for whoever brings a better one.
func (l *Ledger) SentBackIntent(ctx context.Context, run *Run) (canonical []byte, err error) {
	err = l.pool.QueryRow(ctx, `select canonical from intents where tenant_id = $1 and run_id = $2 and revision = $3`, run.TenantID, run.RunID,
		run.IntentRevision).Scan(&canonical)
	if err != nil {
		return nil, unread("read the intent that was sent back", err)
	}
	return canonical, nil
}

const (
	// lapsedReason is for whoever asks why the run ended.
	lapsedReason = "The proposal was sent back, and nobody brought a better one in time."

	lapsingSQL = `
select r.tenant_id, r.run_id, r.idempotency_key, r.correlation_id, r.traceparent from runs r
where r.revise_by <= clock_timestamp() and r.state = any($1) and (r.lease_expires_at is null or r.lease_expires_at <= clock_timestamp())
order by r.revise_by limit $2 for no key update skip locked`

	lapsedSQL = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bytea[])
    as i(tenant_id, run_id, event_id, stream, subject, event)
), ended as (
  update runs r set state = $7, outcome = $8, outcome_reason = $9, version = r.version + 1, revise_by = null,
    updated_at = clock_timestamp(), ended_at = clock_timestamp(), next_check_at = null
  from input i where r.tenant_id = i.tenant_id and r.run_id = i.run_id
), gone as (delete from waiting_runs w using input i where w.tenant_id = i.tenant_id and w.run_id = i.run_id),
log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from input
), queue as (insert into pending (event_id) select event_id from input)
insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state)
select tenant_id, run_id, $10, 'lapse', $11, $7 from input`
)

// Lapse ends up to limit runs whose better proposal has not come in time, and returns how many. A worker that has one under its lease
// may still submit.
func (l *Ledger) Lapse(ctx context.Context, limit int) (ended int, err error) {
	move := runMove("lapse")
	err = l.command(ctx, "lapse", func(ctx context.Context) error {
		return l.transactionOf(ctx, l.site("lapse"), func(tx pgx.Tx) ([]string, error) {
			rows, err := tx.Query(ctx, lapsingSQL, move.From, limit)
			if err != nil {
				return nil, err
			}
			due, err := pgx.CollectRows(rows, scanLapsing)
			if ended = len(due); err != nil || ended == 0 {
				return nil, err
			}
			events := make([]outgoing, len(due))
			for i, d := range due {
				data := &contracts.RunEnded{RunRef: d.ref, Outcome: OutcomeExpired, Reason: lapsedReason}
				if events[i], err = newOutgoing(d.ref.TenantID, d.run, d.trace, data); err != nil {
					return nil, err
				}
			}
			_, err = tx.Exec(ctx, lapsedSQL, column(due, func(d lapsing) string { return d.ref.TenantID }),
				column(due, func(d lapsing) uuid.UUID { return d.run }), column(events, func(e outgoing) uuid.UUID { return e.id }),
				column(events, func(e outgoing) string { return e.stream }), column(events, func(e outgoing) string { return e.subject }),
				column(events, func(e outgoing) []byte { return e.payload }), move.To, OutcomeExpired, lapsedReason, Approval, move.From[0])
			return column(due, func(d lapsing) string { return d.ref.RunID }), err
		})
	})
	return ended, err
}

type lapsing struct {
	ref   contracts.RunRef
	run   uuid.UUID
	trace string
}

func scanLapsing(row pgx.CollectableRow) (d lapsing, err error) {
	err = row.Scan(&d.ref.TenantID, &d.run, &d.ref.IdempotencyKey, &d.ref.CorrelationID, &d.trace)
	d.ref.RunID = d.run.String()
	return d, err
}
