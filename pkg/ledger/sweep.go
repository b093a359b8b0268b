package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// The sweep tells policy again of runs that have an intent and no decision. Together with the dispatcher's own poll it brings
// every committed run to its end with nothing but Postgres (B4). A run is told again after
//
//	sweep   1    2    3    4    5     6     7 and more
//	after   10s  20s  40s  80s  160s  320s  600s
//
// and not while events wait in the outbox: a relay that is behind needs no more rows.
const (
	sweepLongest    = 10 * time.Minute
	sweepBackedUpAt = 5000
)

const sweepSQL = `
with waiting as materialized (
  select e.run_id from pending p cross join lateral (select run_id from event_log e where e.event_id = p.event_id limit 1) e
)
select r.tenant_id, r.run_id, r.traceparent, r.state, n.revision, n.intent_hash
from runs r left join lateral (
  select n.revision, n.intent_hash from intents n
  where n.tenant_id = r.tenant_id and n.run_id = r.run_id and n.revision = r.intent_revision limit 1
) n on true
where r.next_check_at <= statement_timestamp() and (r.run_id in (select run_id from waiting)) is not true
order by r.next_check_at limit $1
for no key update of r skip locked`

type overdue struct {
	tenant, trace, state string
	run                  uuid.UUID
	revision             *int
	hash                 []byte
}

// Sweep queues the event of up to limit overdue runs again, each as a new event, and says how many it queued.
func (l *Ledger) Sweep(ctx context.Context, limit int) (queued int, err error) {
	err = l.command(ctx, "sweep", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("sweep"), nil, func(tx pgx.Tx) error {
			queued = 0
			var backedUp bool
			if err := tx.QueryRow(ctx, `select count(*) >= $1 from (select from pending limit $1) p`, sweepBackedUpAt).Scan(&backedUp); err != nil || backedUp {
				return err
			}
			rows, err := tx.Query(ctx, sweepSQL, limit)
			if err != nil {
				return err
			}
			due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o overdue, err error) {
				err = row.Scan(&o.tenant, &o.run, &o.trace, &o.state, &o.revision, &o.hash)
				return o, err
			})
			if err != nil || len(due) == 0 {
				return err
			}
			queued, err = requeueRuns(ctx, tx, due)
			return err
		})
	})
	return queued, err
}

func requeueRuns(ctx context.Context, tx pgx.Tx, due []overdue) (int, error) {
	var events []outgoing
	var again []overdue
	for _, o := range due {
		if o.state != RunProcessing || o.revision == nil {
			continue // it has moved; only its next look is to be cleared
		}
		var hash canonical.Digest
		copy(hash[:], o.hash)
		event, err := newOutgoing(o.tenant, o.run, o.trace, &contracts.IntentSubmitted{TenantID: o.tenant, RunID: o.run.String(),
			IntentRevision: *o.revision, IntentHash: hash.String()})
		if err != nil {
			return 0, err
		}
		events, again = append(events, event), append(again, o)
	}
	batch := &pgx.Batch{}
	batch.Queue(`update runs r set checks = r.checks + (r.state = $3)::int, next_check_at = case when r.state = $3
  then clock_timestamp() + make_interval(secs => least($4 * 2 ^ r.checks, $5)) end
from unnest($1::text[], $2::uuid[]) as i(tenant_id, run_id) where r.tenant_id = i.tenant_id and r.run_id = i.run_id`,
		column(due, func(o overdue) string { return o.tenant }), column(due, func(o overdue) uuid.UUID { return o.run }),
		RunProcessing, sweepAfter.Seconds(), sweepLongest.Seconds())
	batch.Queue(`with log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::bytea[])
) insert into pending (event_id) select * from unnest($1::uuid[])`,
		column(events, func(e outgoing) uuid.UUID { return e.id }), column(again, func(o overdue) string { return o.tenant }),
		column(again, func(o overdue) uuid.UUID { return o.run }), column(events, func(e outgoing) string { return e.stream }),
		column(events, func(e outgoing) string { return e.subject }), column(events, func(e outgoing) []byte { return e.payload }))
	return len(events), tx.SendBatch(ctx, batch).Close()
}
