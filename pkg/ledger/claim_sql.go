package ledger

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sweepAfter is how long a run with an intent may wait for its decision before the sweep tells policy of it again.
const sweepAfter = 10 * time.Second

// claimSQL stores a batch of events in one statement: claim row, original, intent, event and audit row together or not at all
// (B1). The insert is the claim; nothing is read before it (K2), but for facts that cannot change under it: which rules are
// active, whether the key that older rules gave this event is taken (K15), and whether the run that it corrects has ended (K10).
// A run without a proposal waits for a worker from its lease's end on. What was inserted is found again among the
// input by a hashed list (see the package's "Plans").
const claimSQL = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::bytea[], $7::smallint[], $8::uuid[],
    $9::text[], $10::text[], $11::bytea[], $12::text[], $13::jsonb[], $14::uuid[], $15::float8[], $16::float8[], $17::bytea[],
    $18::bytea[], $19::text[], $20::jsonb[], $21::int[], $22::uuid[], $23::uuid[], $24::text[], $25::text[], $26::bytea[],
    $30::text[], $31::text[], $32::bytea[], $33::uuid[], $34::text[], $35::text[])
  with ordinality as t(tenant_id, run_id, idempotency_key, source, rules_version, payload_hash, hash_version, command_id,
    correlation_id, traceparent, payload, content_type, headers, lease_owner, lease_seconds, cap_seconds, intent_hash,
    canonical, action_type, model, revision, previous_run, event_id, stream, subject, event, requested_by,
    sent_by, near_hash, original_run, corrected_by, correction_reason, ord)
), clock as materialized (select clock_timestamp() as now),
claimed as (
  insert into runs (tenant_id, run_id, idempotency_key, source, rules_version, payload_hash, hash_version, state,
    intent_revision, command_id, lease_owner, lease_expires_at, lease_cap_at, correlation_id, traceparent, next_check_at,
    requested_by, sent_by, attempts)
  select i.tenant_id, i.run_id, i.idempotency_key, i.source, i.rules_version, i.payload_hash, i.hash_version, $27,
    i.revision, i.command_id, i.lease_owner, c.now + make_interval(secs => least(i.lease_seconds, i.cap_seconds)),
    c.now + make_interval(secs => i.cap_seconds), i.correlation_id, i.traceparent,
    case when i.revision > 0 then c.now + make_interval(secs => $28) end, i.requested_by, i.sent_by,
    (i.lease_owner is not null)::int
  from input i cross join clock c
  where exists (select from source_rules s
                where s.tenant_id = i.tenant_id and s.source = i.source and s.version <= i.rules_version)
    and (i.previous_run is null
      or (select 1 from runs o where o.tenant_id = i.tenant_id and o.run_id = i.previous_run limit 1) is null)
    and (i.original_run is null or (select 1 from runs o where o.tenant_id = i.tenant_id and o.run_id = i.original_run
      and o.ended_at is not null limit 1) is not null)
  order by i.ord
  on conflict (tenant_id, run_id) do nothing
  returning tenant_id, run_id
), won as materialized (
  select i.*, c.now, c.now + make_interval(secs => least(i.lease_seconds, i.cap_seconds)) as lease_expires_at
  from input i cross join clock c
  where ((i.tenant_id, i.run_id) in (select tenant_id, run_id from claimed)) is true
), payloads as (
  insert into run_payloads (tenant_id, run_id, payload, content_type, headers)
  select tenant_id, run_id, payload, content_type, headers from won
), proposed as (
  insert into intents (tenant_id, run_id, intent_hash, revision, canonical, action_type, model, near_hash)
  select tenant_id, run_id, intent_hash, revision, canonical, action_type, model, near_hash from won where revision > 0
), waiting as (
  insert into waiting_runs (tenant_id, run_id, source, available_at)
  select tenant_id, run_id, source, coalesce(lease_expires_at, now) from won where revision = 0
), corrected as (
  insert into corrections (tenant_id, run_id, original_run, corrected_by, reason, original_outcome, original_effects)
  select w.tenant_id, w.run_id, w.original_run, w.corrected_by, w.correction_reason, o.outcome, coalesce(e.effects, '[]')
  from won w
  cross join lateral (select outcome from runs o where o.tenant_id = w.tenant_id and o.run_id = w.original_run limit 1) o
  left join lateral (
    select jsonb_agg(jsonb_build_object('operation_id', operation_id, 'state', state, 'external_id', external_id)
      order by revision, ordinal) as effects
    from effects e where e.tenant_id = w.tenant_id and e.run_id = w.original_run
  ) e on true
  where w.original_run is not null
), log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from won
), queue as (
  insert into pending (event_id) select event_id from won order by ord
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, to_state) select tenant_id, run_id, $29, 'claim', $27 from won
)
select ord, lease_expires_at from won`

type won struct {
	ord            int
	leaseExpiresAt *time.Time
}

func scanWon(row pgx.CollectableRow) (w won, err error) {
	err = row.Scan(&w.ord, &w.leaseExpiresAt)
	return w, err
}

func claimArgs(batch []*claim) []any {
	return []any{
		column(batch, func(c *claim) string { return c.TenantID }),
		column(batch, func(c *claim) uuid.UUID { return c.run }),
		column(batch, func(c *claim) string { return c.Key }),
		column(batch, func(c *claim) string { return c.Source }),
		column(batch, func(c *claim) int32 { return int32(c.RulesVersion) }),
		column(batch, func(c *claim) []byte { return c.PayloadHash[:] }),
		column(batch, func(c *claim) int16 { return int16(c.HashVersion) }),
		column(batch, func(c *claim) uuid.UUID { return c.CommandID }),
		column(batch, func(c *claim) string { return c.CorrelationID }),
		column(batch, func(c *claim) string { return c.TraceParent }),
		column(batch, func(c *claim) []byte { return c.Payload }),
		column(batch, func(c *claim) string { return c.ContentType }),
		column(batch, func(c *claim) string { return headersJSON(c.Headers) }),
		column(batch, func(c *claim) *uuid.UUID { return c.owner() }),
		column(batch, func(c *claim) *float64 { return c.leaseSeconds() }),
		column(batch, func(c *claim) *float64 { return c.capSeconds() }),
		column(batch, func(c *claim) []byte { return c.intentHash() }),
		column(batch, func(c *claim) []byte { return c.intent().Canonical }),
		column(batch, func(c *claim) string { return c.intent().ActionType }),
		column(batch, func(c *claim) string { return modelJSON(c.intent().Model) }),
		column(batch, func(c *claim) int32 { return int32(c.intent().Revision) }),
		column(batch, func(c *claim) *uuid.UUID { return c.previous }),
		column(batch, func(c *claim) uuid.UUID { return c.event.id }),
		column(batch, func(c *claim) string { return c.event.stream }),
		column(batch, func(c *claim) string { return c.event.subject }),
		column(batch, func(c *claim) []byte { return c.event.payload }),
		runMove("claim").To, sweepAfter.Seconds(), Intake,
		column(batch, func(c *claim) string { return c.RequestedBy }),
		column(batch, func(c *claim) string { return c.SentBy }),
		column(batch, func(c *claim) []byte { return c.intent().NearHash }),
		column(batch, func(c *claim) *uuid.UUID { return c.original }),
		column(batch, func(c *claim) string { return c.correction().By }),
		column(batch, func(c *claim) string { return c.correction().Reason }),
	}
}

func (c *claim) correction() Correction {
	if c.Corrects == nil {
		return Correction{}
	}
	return *c.Corrects
}

func (c *claim) owner() *uuid.UUID {
	if c.Lease == nil {
		return nil
	}
	return &c.Lease.Owner
}

func (c *claim) leaseSeconds() *float64 {
	if c.Lease == nil {
		return nil
	}
	s := c.Lease.Duration.Seconds()
	return &s
}

func (c *claim) capSeconds() *float64 {
	if c.Lease == nil {
		return nil
	}
	s := c.Lease.MaxLifetime.Seconds()
	return &s
}

// intent is the proposal's snapshot, or the zero intent: revision 0 is no intent.
func (c *claim) intent() Intent {
	if c.Intent == nil {
		return Intent{}
	}
	return *c.Intent
}

func (c *claim) intentHash() []byte {
	if c.Intent == nil {
		return nil
	}
	return c.Intent.Hash[:]
}
