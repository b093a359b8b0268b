package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// killSwitchLock is the advisory lock between leasing, which shares it, and closing a switch, which takes it alone: once a
// switch is closed, no lease that has not seen it can still commit (D15).
const killSwitchLock = 0x686f6c64

// EffectKey names one effect.
type EffectKey struct {
	TenantID string
	RunID    uuid.UUID
	Revision int
	Ordinal  int
}

// OperationID is the effect's operation id.
func (k EffectKey) OperationID() string { return OperationID(k.RunID, k.Revision, k.Ordinal) }

func (k EffectKey) compare(o EffectKey) int {
	return cmp.Or(runKey{k.TenantID, k.RunID}.compare(runKey{o.TenantID, o.RunID}), k.Revision-o.Revision, k.Ordinal-o.Ordinal)
}

// LeaseRequest asks for effects to send.
type LeaseRequest struct {
	Owner    uuid.UUID // random per request; with the attempt's number it names the attempt
	Duration time.Duration
	// Requested are effects that an event asked for. Events are the inbox rows of those events, whether or not their effect
	// can be leased now.
	Requested []EffectKey
	Events    []uuid.UUID
	// Free is how many effects each connector can take, keyed "tenant/connector". Requested effects go first; with Due, those
	// whose time has come fill the rest. A connector that is not named takes nothing.
	Free map[string]int
	Due  bool
	// Forms name how each connector makes its requests, keyed as Free; an attempt bears its connector's.
	Forms map[string][]byte
	// Heard is the highest mark that the bus has heard of. A database that does not have it was put back in time, and gives out nothing
	// until it knows that (D17).
	Heard int64
}

// Leased is an effect that this process alone may send, until its lease ends.
type Leased struct {
	EffectKey
	Attempt       int
	Owner         uuid.UUID
	Epoch         int64 // of the kill switch, as the lease saw it
	MaybeSent     bool  // an earlier attempt may have reached the provider
	Unauthorized  bool  // an earlier attempt's credential was refused
	FirstSentAt   time.Time
	RunKey        string
	CorrelationID string
	TraceParent   string
	ActionType    string
	Kind          string // of its intent: the types of all its actions (config.KindOf)
	Connector     string
	Operation     string
	TargetSystem  string
	TargetRecord  string
	IntentHash    canonical.Digest
	Canonical     []byte
	PolicyVersion string    // under which the intent was authorized, "" where a person did
	FirstAttempt  time.Time // when the first attempt began
	OtherForm     bool      // an attempt that told no digest may have sent other bytes (LeaseRequest.Forms)
	SentDigest    []byte    // of the first request known to have left, nil where there is none; a later one must be the same
	ExecuteBy     time.Time
	Now           time.Time // the database's clock at the lease
	Recalled      string    // who has recalled its draft, and why; "" where nobody has (D16)
	StoppedRules  []string  // of those that let it act, the ones whose exceptions were stopped since (P4)
}

// Lease takes effects for sending: their attempt rows are committed when it returns (D3). No effect is leased whose kill switch
// is closed (D9), whose execute-by has passed, whose former owner reported something that was not read yet (D7), or whose
// target has another effect in flight, accepted or unknown, or one that was and waits to be sent again (R8), or that people can still
// take back (D14). While a restore stands, what was not looked for yet becomes unknown instead, which is to look for it first (D17).
func (l *Ledger) Lease(ctx context.Context, req LeaseRequest) ([]Leased, error) {
	req.Requested = slices.Clone(req.Requested)
	slices.SortFunc(req.Requested, EffectKey.compare)
	req.Requested = slices.Compact(req.Requested)
	var leased []Leased
	var candidates []EffectKey
	err := l.command(ctx, "lease", func(ctx context.Context) error {
		return l.transactionOf(ctx, l.site("lease"), func(tx pgx.Tx) (_ []string, err error) {
			if leased, err = leasedAlready(ctx, tx, req, candidates); err != nil || len(leased) > 0 {
				return runIDs(candidates), err
			}
			if candidates, err = leaseCandidates(ctx, tx, req); err != nil || len(candidates) == 0 {
				return nil, err
			}
			leased, err = leaseRows(ctx, tx, req, candidates)
			return runIDs(candidates), err
		})
	})
	if err != nil {
		return nil, err
	}
	for i := range leased {
		leased[i].Owner = req.Owner
	}
	return leased, nil
}

func runIDs(keys []EffectKey) []string {
	return column(keys, func(k EffectKey) string { return k.RunID.String() })
}

// beginLeaseSQL shares the lock, and has the attempt be on disk when it is committed, and on the synchronous standby's where there is one,
// whatever the server, the database or the login is set to: were it alone lost in a failover, what it sent would be sent again (D3). That
// an outcome is lost is harmless, because then it is looked for.
const beginLeaseSQL = `select pg_advisory_xact_lock_shared($1), set_config('synchronous_commit',
  case when current_setting('synchronous_commit') = 'remote_apply' then 'remote_apply' else 'on' end, true)`

// behindSQL is whether an effect e has to wait for another of its target, because both are in order and the other comes before it. It is
// asked only of what is in order.
const behindSQL = `(e.ordered_at is not null and exists (select from effects o where o.open and o.ordered_at is not null
  and o.tenant_id = e.tenant_id and o.target_system = e.target_system and o.target_record = e.target_record
  and (o.ordered_at, o.run_id, o.revision, o.stage, o.ordinal) < (e.ordered_at, e.run_id, e.revision, e.stage, e.ordinal)))`

// candidatesSQL picks and locks rows. Another dispatcher's rows are skipped, not waited for. What was requested and finds no free
// slot waits for the poll: every effect is due from its insertion. The target's advisory lock makes the next statement's look at the target final.
const candidatesSQL = `
with requested as materialized (
  select e.tenant_id, e.run_id, e.revision, e.ordinal, e.connector, e.target_system, e.target_record, 0 as rank
  from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
  cross join lateral (
    select * from effects e
    where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal
      and e.state = any($5) and (e.attempts = 0 and e.not_before is null or e.next_check_at <= clock_timestamp())
    for no key update skip locked
  ) e
), slots as materialized (
  select * from unnest($6::text[], $7::text[], $8::int[]) as c(tenant_id, connector, free)
), due as materialized (
  select d.* from slots c cross join lateral (
    select e.tenant_id, e.run_id, e.revision, e.ordinal, e.connector, e.target_system, e.target_record, 1 as rank from effects e
    where $9 and e.connector = c.connector and e.tenant_id = c.tenant_id and e.open and e.state = ($5::text[])[1]
      and e.next_check_at <= statement_timestamp() and not ` + behindSQL + `
    order by e.next_check_at limit c.free
    for no key update of e skip locked
  ) d
), ranked as materialized (
  select u.*, row_number() over (partition by u.tenant_id, u.connector order by u.rank) as place
  from (select * from requested union all select d.* from due d
    where not exists (select from requested r where (r.tenant_id, r.run_id, r.revision, r.ordinal) = (d.tenant_id, d.run_id, d.revision, d.ordinal))) u
), candidates as materialized (
  select k.* from ranked k join slots s using (tenant_id, connector) where k.place <= s.free
)
select tenant_id, run_id, revision, ordinal from candidates
where pg_try_advisory_xact_lock(hashtextextended(tenant_id || '/' || target_system || '/' || target_record, 0))
order by tenant_id, run_id, revision, ordinal`

func leaseCandidates(ctx context.Context, tx pgx.Tx, req LeaseRequest) ([]EffectKey, error) {
	tenants, connectors, free := connectorColumns(req.Free)
	batch := &pgx.Batch{}
	batch.Queue(beginLeaseSQL, killSwitchLock)
	if len(req.Events) > 0 {
		batch.Queue(`insert into inbox (consumer, event_id) select $1, event_id from unnest($2::uuid[]) as t(event_id)
order by event_id on conflict do nothing`, inboxDispatcher, req.Events)
	}
	batch.Queue(candidatesSQL, append(keyColumns(req.Requested), effectMove("lease").From, tenants, connectors, free, req.Due)...)
	results := tx.SendBatch(ctx, batch)
	defer results.Close()
	for range batch.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, scanEffectKey)
	if err != nil {
		return nil, err
	}
	return keys, results.Close()
}

func scanEffectKey(row pgx.CollectableRow) (k EffectKey, err error) {
	err = row.Scan(&k.TenantID, &k.RunID, &k.Revision, &k.Ordinal)
	return k, err
}

// connectorColumns are what a map keyed "tenant/connector" holds, in the order of its keys.
func connectorColumns[T any](of map[string]T) (tenants, connectors []string, values []T) {
	tenants, connectors, values = []string{}, []string{}, []T{}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		tenant, connector, _ := cutSlash(k)
		tenants, connectors, values = append(tenants, tenant), append(connectors, connector), append(values, of[k])
	}
	return tenants, connectors, values
}

// leaseSQL moves the candidates that may be sent. It is a statement of its own, so that it sees every switch closed and every
// effect moved before the locks were granted. What may not be sent now is looked at again in a second. What waits for its stage is woken by
// the move that its stage comes with, and looked at once an hour whatever happens; after a restore it is looked for without waiting. What
// is behind another stays due, and is found when the other has ended.
const leaseSQL = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) with ordinality as i(tenant_id, run_id, revision, ordinal, ord)
), clock as materialized (select clock_timestamp() as now),
epoch as materialized (select epoch from kill_switch_epoch),
closed as materialized ( -- and those that open in stages, with the share that may go
  select scope, scope_key, case when closed then 0 else
    1024 * extract(epoch from c.now - changed_at) / extract(epoch from open_at - changed_at) end as share
  from kill_switches cross join clock c where closed or open_at > c.now
),
restored as materialized (
  select r.restore_id, r.backup_at from restores r cross join clock c
  where r.lifted_at is null and r.ends_at > c.now order by r.detected_at desc limit 1
), sendable as materialized (
  select e.tenant_id, e.run_id, e.revision, e.ordinal, e.target_system, e.target_record, e.created_at, i.ord,
    (select 1 from effects o where o.tenant_id = e.tenant_id and o.target_system = e.target_system
        and o.target_record = e.target_record and o.state in ('sending', 'unknown', 'accepted')
        and (o.run_id, o.revision, o.ordinal) <> (e.run_id, e.revision, e.ordinal) limit 1) is null
    and (e.maybe_sent or (select 1 from effects o where o.tenant_id = e.tenant_id and o.target_system = e.target_system
        and o.target_record = e.target_record and o.state = 'pending' and o.maybe_sent limit 1) is null)
    and not exists (select from closed s where (s.scope = 'global'
        or s.scope = 'tenant' and s.scope_key = e.tenant_id
        or s.scope = 'action_type' and s.scope_key = e.tenant_id || '/' || e.action_type
        or s.scope = 'connector' and s.scope_key = e.tenant_id || '/' || e.connector)
      and hashtextextended(e.operation_id, 0) & 1023 >= s.share)
    and not e.unread_outcome and e.execute_by > c.now and (e.not_before is null or e.not_before <= c.now)
    and (select seq from database_mark) >= $10 as ok,
    e.stage > 1 and exists (select from effects b where b.tenant_id = e.tenant_id and b.run_id = e.run_id and b.revision = e.revision
      and b.stage < e.stage and b.state <> 'completed') as waits, -- for its stage (D10)
    ` + behindSQL + ` as behind,
    exists (select from restored r where r.restore_id is distinct from e.restore_id) as unasked
  from input i cross join clock c cross join lateral (
    select * from effects e
    where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal limit 1
  ) e
), checked as materialized (
  select tenant_id, run_id, revision, ordinal, unasked, waits, behind,
    go and row_number() over (partition by tenant_id, target_system, target_record, go order by created_at, ord) = 1 as ok
  from (select *, ok and (unasked or not waits and not behind) as go from sendable) s
), leased as (
  update effects e set state = $5, lease_owner = $6, lease_expires_at = c.now + make_interval(secs => $7),
    next_check_at = c.now + make_interval(secs => $7),
    attempts = e.attempts + 1, updated_at = c.now
  from checked k cross join clock c
  where k.ok and not k.unasked and e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal
    and e.state = any($8)
  returning e.*
), doubted as (
  update effects e set state = 'unknown', restore_id = r.restore_id, maybe_sent = true, absences = 0, unknown_since = c.now,
    first_sent_at = least(e.first_sent_at, r.backup_at), next_check_at = c.now, updated_at = c.now
  from checked k cross join clock c cross join restored r
  where k.ok and k.unasked and e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal
    and e.state = any($8)
  returning e.tenant_id, e.run_id, e.revision, e.ordinal, r.restore_id
), postponed as (
  update effects e set next_check_at = c.now + case when k.waits and not k.unasked then ` + stageWait + ` else interval '1 second' end
  from checked k cross join clock c
  where not k.ok and (k.waits or k.unasked or not k.behind)
    and e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal
), attempts as (
  insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch, started_at, request_form)
  select tenant_id, run_id, revision, ordinal, l.attempts, $6, p.epoch, c.now, f.form from leased l cross join clock c cross join epoch p
  left join unnest($11::text[], $12::text[], $13::bytea[]) as f(tenant_id, connector, form) using (tenant_id, connector)
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $9, 'lease', 'pending', $5, jsonb_build_object('operation_id', operation_id, 'attempt', l.attempts)
  from leased l
), audit_doubt as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $9, 'doubt', 'pending', 'unknown', jsonb_build_object('revision', revision, 'ordinal', ordinal,
    'restore_id', restore_id, 'note', 'The database was put back to a backup: it is looked for before it is sent.') from doubted
)
select count(*) from leased`

// leasedSQL reads what a lease took, from the rows themselves: a lease that is repeated because the answer to its COMMIT was
// lost finds its effects in the same way.
var leasedSQL = `
select l.tenant_id, l.run_id, l.revision, l.ordinal, l.attempts, t.switch_epoch, l.maybe_sent, l.first_sent_at,
  r.idempotency_key, r.correlation_id, r.traceparent, l.action_type, l.connector, l.operation, l.target_system, l.target_record,
  l.intent_hash, n.canonical, n.action_type, coalesce(d.policy_version, ''), f.started_at,
  case when l.attempts > 1 then (select s.request_digest from effect_attempts s where s.tenant_id = i.tenant_id
    and s.run_id = i.run_id and s.revision = i.revision and s.ordinal = i.ordinal and s.sent and s.request_digest is not null
    order by s.attempt limit 1) end,
  l.attempts > 1 and exists (select from effect_attempts s where s.tenant_id = i.tenant_id and s.run_id = i.run_id
    and s.revision = i.revision and s.ordinal = i.ordinal and s.class = 'unauthorized'),
  l.attempts > 1 and l.maybe_sent and exists (select from effect_attempts s where s.tenant_id = i.tenant_id and s.run_id = i.run_id
    and s.revision = i.revision and s.ordinal = i.ordinal and s.attempt < l.attempts and (s.class is null or s.sent)
    and s.request_digest is null and (s.request_form = t.request_form) is not true),
  l.execute_by, clock_timestamp(), ` + standingRecallSQL("l") + `, array(
    select c.rule_id from exception_uses u join exception_classes c using (class_id)
    where u.tenant_id = i.tenant_id and u.run_id = i.run_id and u.intent_hash = l.intent_hash and c.stopped_at is not null)
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
cross join lateral (
  select * from effects l where l.tenant_id = i.tenant_id and l.run_id = i.run_id and l.revision = i.revision
    and l.ordinal = i.ordinal and l.state = $5 and l.lease_owner = $6 limit 1
) l
cross join lateral (
  select t.switch_epoch, t.request_form from effect_attempts t where t.tenant_id = i.tenant_id and t.run_id = i.run_id
    and t.revision = i.revision and t.ordinal = i.ordinal and t.attempt = l.attempts limit 1
) t
cross join lateral (
  select f.started_at from effect_attempts f where f.tenant_id = i.tenant_id and f.run_id = i.run_id
    and f.revision = i.revision and f.ordinal = i.ordinal and f.attempt = 1 limit 1
) f
cross join lateral (select * from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id limit 1) r
cross join lateral (
  select n.canonical, n.action_type from intents n where n.tenant_id = i.tenant_id and n.run_id = i.run_id and n.intent_hash = l.intent_hash limit 1
) n
cross join lateral (
  select a.decision_id from authorizations a where a.tenant_id = i.tenant_id and a.run_id = i.run_id
    and a.intent_hash = l.intent_hash and a.authorization_id = l.authorization_id limit 1
) a
left join lateral (
  select d.policy_version from policy_decisions d where d.tenant_id = i.tenant_id and d.run_id = i.run_id
    and d.intent_hash = l.intent_hash and d.decision_id = a.decision_id and d.route = 'auto' limit 1
) d on true`

func leaseRows(ctx context.Context, tx pgx.Tx, req LeaseRequest, keys []EffectKey) ([]Leased, error) {
	move := effectMove("lease")
	args := keyColumns(keys)
	forms := make(map[string][]byte, len(req.Free)) // of those connectors that can take something
	for name := range req.Free {
		forms[name] = req.Forms[name]
	}
	tenants, connectors, form := connectorColumns(forms)
	batch := &pgx.Batch{}
	batch.Queue(leaseSQL, append(args, move.To, req.Owner, seconds(req.Duration), move.From, Dispatcher, req.Heard, tenants, connectors,
		form)...)
	batch.Queue(leasedSQL, append(args, move.To, req.Owner)...)
	results := tx.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	return collectLeased(results.Query())
}

// leasedAlready finds what an earlier try of the same request took.
func leasedAlready(ctx context.Context, tx pgx.Tx, req LeaseRequest, keys []EffectKey) ([]Leased, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return collectLeased(tx.Query(ctx, leasedSQL, append(keyColumns(keys), effectMove("lease").To, req.Owner)...))
}

func keyColumns(keys []EffectKey) []any {
	return []any{
		column(keys, func(k EffectKey) string { return k.TenantID }),
		column(keys, func(k EffectKey) uuid.UUID { return k.RunID }),
		column(keys, func(k EffectKey) int32 { return int32(k.Revision) }),
		column(keys, func(k EffectKey) int32 { return int32(k.Ordinal) }),
	}
}

func collectLeased(rows pgx.Rows, err error) ([]Leased, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanLeased)
}

func scanLeased(row pgx.CollectableRow) (e Leased, err error) {
	var firstSent *time.Time
	var recalled *string
	var hash []byte
	err = row.Scan(&e.TenantID, &e.RunID, &e.Revision, &e.Ordinal, &e.Attempt, &e.Epoch, &e.MaybeSent, &firstSent, &e.RunKey,
		&e.CorrelationID, &e.TraceParent, &e.ActionType, &e.Connector, &e.Operation, &e.TargetSystem, &e.TargetRecord, &hash,
		&e.Canonical, &e.Kind, &e.PolicyVersion, &e.FirstAttempt, &e.SentDigest, &e.Unauthorized, &e.OtherForm, &e.ExecuteBy, &e.Now, &recalled,
		&e.StoppedRules)
	copy(e.IntentHash[:], hash)
	e.FirstSentAt = orZero(firstSent)
	if recalled != nil {
		e.Recalled = *recalled
	}
	if err != nil {
		return e, fmt.Errorf("read leased effect: %w", err)
	}
	return e, nil
}
