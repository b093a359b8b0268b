package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Take asks for runs of one source that wait for a worker: those whose events were handed in without a lease, those that were
// given back, and those whose lease has ended (K6).
type Take struct {
	TenantID string
	Source   string
	Max      int        // at most this many
	Attempts int        // a run that was given out so often ends instead
	Lease    LeaseTerms // of every run
}

// Task is a run under the caller's lease, with the event that it is about.
type Task struct {
	Run         Run
	TookOver    bool // from a worker whose lease had ended
	Payload     []byte
	ContentType string
	Headers     map[string]string
	SentBack    *SentBack // nil where no proposal was made yet
}

// takeSQL gives waiting runs to a worker. Nothing waits for a lock: what another worker is being given is skipped, and so is a
// run that is moving this instant. The row of the queue only says when to look; whether the run may be given away is read from
// the run itself, under its lock, and the clock is read after it (K8). What its owner already has comes first, so that a
// request that is repeated gets the leases that it had.
const takeSQL = `
with mine as materialized (
  select r.tenant_id, r.run_id from waiting_runs w
  cross join lateral (
    select * from runs r where r.tenant_id = w.tenant_id and r.run_id = w.run_id and r.state = $9 and (r.intent_revision = 0 or r.revise_by is not null)
      and r.lease_owner = w.owner and r.lease_expires_at > clock_timestamp() limit 1
  ) r
  where w.owner = $3 and w.tenant_id = $1 and w.source = $2 limit $4
), due as materialized (
  select w.tenant_id, w.run_id from waiting_runs w
  where w.tenant_id = $1 and w.source = $2 and w.available_at <= statement_timestamp()
  order by w.available_at limit greatest(0, $4 - (select count(*) from mine)) for update skip locked
), locked as materialized (
  select d.tenant_id, d.run_id, r.*, clock_timestamp() as now from due d
  cross join lateral (
    select r.state, r.intent_revision = 0 or r.revise_by is not null as wanting, r.attempts, r.lease_owner as former, r.lease_expires_at as former_until from runs r
    where r.tenant_id = d.tenant_id and r.run_id = d.run_id for no key update skip locked
  ) r
), free as materialized (
  select * from locked where state = any($8) and wanting and former is distinct from $3
    and (state <> 'processing' or former_until is null or former_until <= now)
), taken as (
  update runs r set state = $9, version = r.version + 1, attempts = r.attempts + 1, lease_owner = $3,
    lease_expires_at = k.now + make_interval(secs => least($5::float8, $6::float8)),
    lease_cap_at = k.now + make_interval(secs => $6), takeovers = r.takeovers + (k.former is not null)::int, updated_at = k.now
  from (select tenant_id, run_id, former, now from free where attempts < $7 offset 0) k
  where r.tenant_id = k.tenant_id and r.run_id = k.run_id
  returning r.tenant_id, r.run_id, r.lease_expires_at, r.attempts, k.former
), out as (
  update waiting_runs w set available_at = t.lease_expires_at, owner = $3 from taken t
  where w.tenant_id = t.tenant_id and w.run_id = t.run_id
), later as (
  update waiting_runs w set available_at = coalesce(k.former_until, k.now) + interval '1 second'
  from (select tenant_id, run_id, former_until, now from locked k
    where ((k.tenant_id, k.run_id) in (select tenant_id, run_id from free)) is not true offset 0) k
  where w.tenant_id = k.tenant_id and w.run_id = k.run_id
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select t.tenant_id, t.run_id, $10, 'take', k.state, $9, jsonb_build_object('attempt', t.attempts)
  from taken t join free k using (tenant_id, run_id)
)
select run_id, former is not null, false from taken
union all select run_id, false, false from mine
union all select run_id, false, true from free where attempts >= $7`

// taking is what takeSQL says of one run.
type taking struct {
	run      uuid.UUID
	tookOver bool
	spent    bool // it was given out as often as it may be
}

func scanTaking(row pgx.CollectableRow) (t taking, err error) {
	err = row.Scan(&t.run, &t.tookOver, &t.spent)
	return t, err
}

// Take gives waiting runs to a worker, the longest-waiting first. Runs whose attempts are used up have ended when it returns;
// they are the second result, and somebody should look at them (M4).
func (l *Ledger) Take(ctx context.Context, t Take) ([]Task, []Run, error) {
	var found []taking
	move := runMove("take")
	err := l.command(ctx, "take", func(ctx context.Context) (err error) {
		found, err = collect(ctx, l, l.site("take"), nil, scanTaking, takeSQL, t.TenantID, t.Source, t.Lease.Owner, t.Max,
			t.Lease.Duration.Seconds(), t.Lease.MaxLifetime.Seconds(), t.Attempts, move.From, move.To, Intake)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	tasks, err := l.tasks(ctx, t.TenantID, slices.DeleteFunc(slices.Clone(found), func(f taking) bool { return f.spent }))
	if err != nil {
		return nil, nil, err
	}
	spent, err := l.exhaust(ctx, t, slices.DeleteFunc(found, func(f taking) bool { return !f.spent }))
	return tasks, spent, err
}

const payloadsSQL = `
select i.ord, p.payload, p.content_type, p.headers
from unnest($1::uuid[]) with ordinality as i(run_id, ord)
cross join lateral (select * from run_payloads p where p.run_id = i.run_id and p.tenant_id = $2 limit 1) p`

// tasks reads the runs and the events of what was taken.
func (l *Ledger) tasks(ctx context.Context, tenant string, taken []taking) ([]Task, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := column(taken, func(t taking) uuid.UUID { return t.run })
	runs, err := l.Runs(ctx, tenant, ids...)
	if err != nil {
		return nil, err
	}
	tasks := make([]Task, len(runs))
	place := make(map[uuid.UUID]*Task, len(runs))
	for i, run := range runs {
		tasks[i].Run = run
		place[run.RunID] = &tasks[i]
	}
	for _, t := range taken {
		if task := place[t.run]; task != nil {
			task.TookOver = t.tookOver
		}
	}
	rows, err := l.pool.Query(ctx, payloadsSQL, ids, tenant)
	if err != nil {
		return nil, unread("read the events of taken runs", err)
	}
	var ord int
	var got Task
	_, err = pgx.ForEachRow(rows, []any{&ord, &got.Payload, &got.ContentType, &got.Headers}, func() error {
		if task := place[ids[ord-1]]; task != nil {
			task.Payload, task.ContentType, task.Headers = got.Payload, got.ContentType, got.Headers
		}
		got = Task{}
		return nil
	})
	if err != nil {
		return nil, unread("read the events of taken runs", err)
	}
	return tasks, l.readSentBack(ctx, tasks)
}

// exhaustSQL ends runs that were given out as often as their source allows, and that nobody holds now.
const exhaustSQL = `
with locked as materialized (
  select i.*, r.*, clock_timestamp() as now
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[]) as i(run_id, event_id, stream, subject, event)
  cross join lateral (
    select r.state, r.intent_revision = 0 or r.revise_by is not null as wanting, r.attempts, r.lease_expires_at from runs r
    where r.tenant_id = $6 and r.run_id = i.run_id for no key update
  ) r
), ended as materialized (
  select * from locked where state = any($7) and wanting and attempts >= $11
    and (state <> 'processing' or lease_expires_at is null or lease_expires_at <= now)
), moved as (
  update runs r set state = $8, outcome = $9, outcome_reason = $10, version = r.version + 1, updated_at = k.now, ended_at = k.now,
    lease_owner = null, lease_expires_at = null, lease_cap_at = null, revise_by = null
  from (select run_id, now from ended offset 0) k where r.tenant_id = $6 and r.run_id = k.run_id
), gone as (delete from waiting_runs w using ended k where w.tenant_id = $6 and w.run_id = k.run_id),
log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, $6, run_id, stream, subject, event from ended
), queue as (insert into pending (event_id) select event_id from ended),
audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select $6, run_id, $12, 'exhaust', state, $8, jsonb_build_object('attempts', attempts) from ended
)
select run_id from ended`

// exhaust ends runs whose attempts are used up, and returns those that it ended.
func (l *Ledger) exhaust(ctx context.Context, t Take, spent []taking) ([]Run, error) {
	if len(spent) == 0 {
		return nil, nil
	}
	runs, err := l.Runs(ctx, t.TenantID, column(spent, func(s taking) uuid.UUID { return s.run })...)
	if err != nil {
		return nil, err
	}
	reason := fmt.Sprintf("No proposal after %d attempts.", t.Attempts)
	events := make([]outgoing, len(runs))
	for i, r := range runs {
		events[i], err = newOutgoing(r.TenantID, r.RunID, r.TraceParent, &contracts.RunEnded{RunRef: contracts.RunRef{
			TenantID: r.TenantID, RunID: r.RunID.String(), IdempotencyKey: r.Key, CorrelationID: r.CorrelationID},
			Outcome: OutcomeFailed, Reason: reason})
		if err != nil {
			return nil, err
		}
	}
	move := runMove("exhaust")
	var ended []uuid.UUID
	err = l.command(ctx, "exhaust", func(ctx context.Context) (err error) {
		ended, err = collect(ctx, l, l.site("exhaust"), column(runs, func(r Run) string { return r.RunID.String() }),
			pgx.RowTo[uuid.UUID], exhaustSQL, column(runs, func(r Run) uuid.UUID { return r.RunID }),
			column(events, func(e outgoing) uuid.UUID { return e.id }), column(events, func(e outgoing) string { return e.stream }),
			column(events, func(e outgoing) string { return e.subject }), column(events, func(e outgoing) []byte { return e.payload }),
			t.TenantID, move.From, move.To, OutcomeFailed, reason, t.Attempts, Intake)
		return err
	})
	return slices.DeleteFunc(runs, func(r Run) bool { return !slices.Contains(ended, r.RunID) }), err
}

// Backoff is how long a run that was given back waits for its next worker: 2 s after the first attempt, and twice as long after
// each further one, up to 5 minutes.
//
//	attempt   1   2   3    4    5    6   7     8    9
//	wait      2s  4s  8s   16s  32s  64s 2m8s  4m16s 5m
func Backoff(attempt int) time.Duration {
	const first, longest = 2 * time.Second, 5 * time.Minute
	if attempt < 1 {
		attempt = 1
	}
	if attempt > 8 {
		return longest
	}
	return min(longest, first<<(attempt-1))
}
