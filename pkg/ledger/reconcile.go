package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Never is the next check of an effect that only a person moves on.
const Never = 100 * 365 * 24 * time.Hour

// Open is an effect that has not ended, with all that settling it needs.
type Open struct {
	Leased
	State         string
	HoldReason    string
	LeaseOver     bool // it is being sent, and the lease has ended
	UnreadOutcome bool
	Overdue       bool // it is pending past its execute-by
	Absences      int
	Lookups       int
	UnknownSince  time.Time // the zero time where it is not unknown
	LastAttempt   time.Time // when the last attempt began, or the zero time
	LastClass     string    // what it came to, "" where nobody knows
	Silent        bool      // some attempt never reported; whoever made it may still write
	ExternalID    string    // the provider's id, where some attempt or webhook told it
	ReportedClass string    // the best outcome among all attempts: succeeded before all others
	SucceededAt   time.Time // when the provider's success became known, or the zero time
	RecordVersion string    // that the provider gave the write, "" where it gave none
}

// dueSQL takes what the reconciler must look at, and moves its next look on, so that replicas do not ask the provider twice.
const dueSQL = `
with due as materialized (
  select d.* from unnest($1::text[], $2::text[]) as c(tenant_id, connector) cross join unnest($3::text[]) as s(state)
  cross join lateral (
    select e.tenant_id, e.run_id, e.revision, e.ordinal from effects e
    where e.connector = c.connector and e.tenant_id = c.tenant_id and e.open and e.state = s.state
      and e.next_check_at <= statement_timestamp() and (s.state <> 'pending' or e.execute_by <= clock_timestamp()
        and (e.stage = 1 or not exists (select from effects b where b.tenant_id = e.tenant_id and b.run_id = e.run_id
          and b.revision = e.revision and b.stage < e.stage and b.state <> 'completed'))) -- what waits for its stage is not late (D10)
    order by e.next_check_at limit $4
    for no key update of e skip locked
  ) d
)
update effects e set next_check_at = clock_timestamp() + make_interval(secs => $5)
from due d where e.tenant_id = d.tenant_id and e.run_id = d.run_id and e.revision = d.revision and e.ordinal = d.ordinal
returning e.tenant_id, e.run_id, e.revision, e.ordinal`

// What the reconciler looks for. Overdue effects stand in the dispatcher's queue and are looked for less often.
var (
	Unsettled = []string{EffectUnknown, EffectAccepted, EffectSending, EffectHeld}
	Overdue   = []string{EffectPending}
)

// Due takes up to limit effects of each connector (keyed "tenant/connector") and state whose time has come: unknown, accepted,
// past the sender's lease, held with an unread outcome, or pending past their execute-by. They come again after hold, unless
// they are settled.
func (l *Ledger) Due(ctx context.Context, connectors, states []string, limit int, hold time.Duration) ([]Open, error) {
	var tenants, ids []string
	for _, c := range connectors {
		tenant, id, _ := cutSlash(c)
		tenants, ids = append(tenants, tenant), append(ids, id)
	}
	var open []Open
	err := l.command(ctx, "postpone", func(ctx context.Context) error {
		keys, err := collect(ctx, l, l.site("postpone"), nil, scanEffectKey, dueSQL, tenants, ids,
			states, limit, seconds(hold))
		if err != nil || len(keys) == 0 {
			return err
		}
		open, err = l.Open(ctx, keys)
		return err
	})
	return open, err
}

const openSQL = `
select l.tenant_id, l.run_id, l.revision, l.ordinal, l.attempts, coalesce(l.lease_owner, '00000000-0000-0000-0000-000000000000'),
  l.maybe_sent, l.first_sent_at, r.idempotency_key, r.correlation_id, r.traceparent, l.action_type, l.connector, l.operation,
  l.target_system, l.target_record, l.intent_hash, n.canonical, n.action_type,
  coalesce(s.first_started, l.created_at), l.execute_by, clock_timestamp(),
  l.state, coalesce(l.hold_reason, ''), coalesce(l.lease_expires_at <= clock_timestamp(), false), l.unread_outcome,
  l.state = 'pending' and l.execute_by <= clock_timestamp(), l.absences, l.lookups, l.unknown_since, t.started_at,
  coalesce(t.class, ''), coalesce(s.silent, false), coalesce(b.external_id, l.external_id, ''), coalesce(b.class, ''),
  l.succeeded_at, coalesce(l.record_version, '')
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
join effects l using (tenant_id, run_id, revision, ordinal)
join runs r on r.tenant_id = l.tenant_id and r.run_id = l.run_id
join intents n on n.tenant_id = l.tenant_id and n.run_id = l.run_id and n.intent_hash = l.intent_hash
left join effect_attempts t on t.tenant_id = l.tenant_id and t.run_id = l.run_id and t.revision = l.revision
  and t.ordinal = l.ordinal and t.attempt = l.attempts
left join lateral (
  select a.class, a.external_id from effect_attempts a where a.tenant_id = l.tenant_id and a.run_id = l.run_id
    and a.revision = l.revision and a.ordinal = l.ordinal and a.class is not null
  order by (a.class = 'succeeded') desc, a.sent desc, a.attempt desc limit 1
) b on true
left join lateral (
  select min(a.started_at) as first_started, bool_or(a.class is null) as silent from effect_attempts a
  where a.tenant_id = l.tenant_id and a.run_id = l.run_id and a.revision = l.revision and a.ordinal = l.ordinal
) s on true`

// Open reads effects, whatever their state; one that does not exist is missing from the answer.
func (l *Ledger) Open(ctx context.Context, keys []EffectKey) ([]Open, error) {
	rows, err := l.pool.Query(ctx, openSQL, keyColumns(keys)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanOpen)
}

func scanOpen(row pgx.CollectableRow) (e Open, err error) {
	var firstSent, unknownSince, lastAttempt, succeeded *time.Time
	var hash []byte
	err = row.Scan(&e.TenantID, &e.RunID, &e.Revision, &e.Ordinal, &e.Attempt, &e.Owner, &e.MaybeSent, &firstSent, &e.RunKey,
		&e.CorrelationID, &e.TraceParent, &e.ActionType, &e.Connector, &e.Operation, &e.TargetSystem, &e.TargetRecord, &hash,
		&e.Canonical, &e.Kind, &e.FirstAttempt, &e.ExecuteBy, &e.Now, &e.State, &e.HoldReason, &e.LeaseOver, &e.UnreadOutcome, &e.Overdue,
		&e.Absences, &e.Lookups, &unknownSince, &lastAttempt, &e.LastClass, &e.Silent, &e.ExternalID, &e.ReportedClass, &succeeded,
		&e.RecordVersion)
	e.SucceededAt = orZero(succeeded)
	copy(e.IntentHash[:], hash)
	e.FirstSentAt, e.UnknownSince, e.LastAttempt = orZero(firstSent), orZero(unknownSince), orZero(lastAttempt)
	return e, err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// ClearUnread says that the outcomes which former owners reported have been read and change nothing.
func (l *Ledger) ClearUnread(ctx context.Context, keys []EffectKey) error {
	return l.command(ctx, "read_outcomes", func(ctx context.Context) error {
		_, err := collect(ctx, l, l.site("read_outcomes"), runIDs(keys), scanEffectKey, `
update effects e set unread_outcome = false,
  next_check_at = case when e.state = 'held' then e.next_check_at + interval '100 years' else e.next_check_at end
from (select e.tenant_id, e.run_id, e.revision, e.ordinal from effects e
  join unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
    using (tenant_id, run_id, revision, ordinal)
  order by e.tenant_id, e.run_id, e.revision, e.ordinal for no key update of e) k
where e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal
returning e.tenant_id, e.run_id, e.revision, e.ordinal`, keyColumns(keys)...)
		return err
	})
}
