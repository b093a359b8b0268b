package ledger

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// decideSQL stores a batch of decisions in one statement. Two guards stand before every row: the inbox, so that a redelivered
// event is not applied again, and the state of the locked run, which holds even when the inbox has been emptied (B2). The
// effect refers to its authorization and the authorization to the decision by foreign keys that only a route of auto
// satisfies (D1). Decisions that are stored already count as moved: the answer to their COMMIT was lost. First of all the
// version that a decision was made under must be the active one: the row is held until the COMMIT, and an activation that
// holds it is waited for. What is outdated leaves no trace, also none in the inbox, and is told (P7).
const decideSQL = `
with active as materialized (
  select tenant_id, version from policy_active where tenant_id = any($2::text[]) order by tenant_id for share
), seen as (
  insert into inbox (consumer, event_id) select $32, event_id
  from unnest($1::uuid[], $2::text[], $8::text[]) as t(event_id, tenant_id, policy_version)
  where ((tenant_id, split_part(policy_version, '/', 1)) in (select tenant_id, version from active)) is true order by event_id
  on conflict do nothing returning event_id
), locked as materialized (
  select i.*, r.source, clock_timestamp() as now, r.state = i.from_state and r.intent_revision = i.revision and r.revise_by is null as may
  from unnest($1::uuid[], $2::text[], $3::uuid[], $4::bytea[], $5::int[], $6::uuid[], $7::text[], $8::text[], $9::bytea[],
    $10::jsonb[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::uuid[], $17::uuid[], $18::float8[],
    $19::float8[], $20::jsonb[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::uuid[], $27::text[],
    $28::text[], $29::bytea[], $30::text[], $31::text[], $34::float8[], $36::float8[], $37::int[], $38::int[], $39::text[], $40::bool[])
  as i(inbox_event, tenant_id, run_id, intent_hash, revision, decision_id, route, policy_version, inputs_hash, reasons, move,
    from_state, to_state, outcome, summary, authorization_id, approval_id, decide_seconds, execute_seconds, audience, action_type,
    connector, operation, target_system, target_record, event_id, stream, subject, event, correlation_id, operation_id,
    window_seconds, revise_seconds, stage, actions, effect_type, in_order)
  cross join lateral (
    select r.state, r.intent_revision, r.revise_by, r.source from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id for no key update
  ) r
  where (i.inbox_event in (select event_id from seen)) is true
), moved as (
  update runs r set state = k.to_state, outcome = nullif(k.outcome, ''), outcome_reason = nullif(k.summary, ''),
    version = r.version + 1, updated_at = k.now, ended_at = case when k.outcome <> '' then k.now end,
    revise_by = case when k.revise_seconds > 0 then k.now + make_interval(secs => k.revise_seconds) end,
    next_check_at = case when k.revise_seconds = 0 then r.next_check_at end,
    attempts = case when k.revise_seconds = 0 then r.attempts else 0 end
  from (select tenant_id, run_id, to_state, outcome, summary, revise_seconds, now from locked where may offset 0) k
  where r.tenant_id = k.tenant_id and r.run_id = k.run_id
), back as (
  insert into sent_back (tenant_id, run_id, revision, sent_by, reasons)
  select tenant_id, run_id, revision, $33, reasons from locked where may and revise_seconds > 0
), waiting as (
  insert into waiting_runs (tenant_id, run_id, source, available_at)
  select tenant_id, run_id, source, now from locked where may and revise_seconds > 0
  on conflict (run_id, tenant_id) do update set available_at = excluded.available_at, owner = null
), decided as (
  insert into policy_decisions (tenant_id, run_id, intent_hash, decision_id, route, policy_version, inputs_hash, reasons)
  select tenant_id, run_id, intent_hash, decision_id, route, policy_version, inputs_hash, reasons from locked where may
), authorized as (
  insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, execute_by)
  select tenant_id, run_id, intent_hash, authorization_id, decision_id, route, now + make_interval(secs => execute_seconds + window_seconds)
  from locked where may and authorization_id is not null
), requested as (
  insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector,
    operation, target_system, target_record, execute_by, next_check_at, cancel_until, not_before, stage, actions, ordered_at)
  select tenant_id, run_id, revision, 1, intent_hash, authorization_id, operation_id, effect_type, connector, operation,
    target_system, target_record, now + make_interval(secs => execute_seconds + window_seconds),
    now + make_interval(secs => case when window_seconds > 0 then window_seconds + $35 else 0 end),
    case when window_seconds > 0 then now + make_interval(secs => window_seconds) end,
    case when window_seconds > 0 then now + make_interval(secs => window_seconds + $35) end, stage, actions,
    case when in_order then transaction_timestamp() end
  from locked where may and authorization_id is not null
), asked as (
  insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, decide_by,
    execute_within, target_system, target_record)
  select tenant_id, run_id, intent_hash, approval_id, action_type, array(select jsonb_array_elements_text(audience)), reasons,
    correlation_id, now + make_interval(secs => decide_seconds), make_interval(secs => execute_seconds), target_system, target_record
  from locked where may and approval_id is not null
), log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from locked where may
), queue as (insert into pending (event_id) select event_id from locked where may),
audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $33, move, from_state, to_state,
    jsonb_build_object('route', route, 'policy_version', policy_version, 'intent_hash', encode(intent_hash, 'hex'))
  from locked where may
)
select run_id, false from locked where may
union all
select i.run_id, false
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::bytea[], $6::uuid[])
  as i(inbox_event, tenant_id, run_id, intent_hash, decision_id)
where (i.inbox_event in (select event_id from seen)) is not true
  and (select 1 from policy_decisions d where d.tenant_id = i.tenant_id and d.run_id = i.run_id
    and d.intent_hash = i.intent_hash and d.decision_id = i.decision_id limit 1) is not null
union all
select i.run_id, true
from unnest($2::text[], $3::uuid[], $4::bytea[], $6::uuid[], $8::text[])
  as i(tenant_id, run_id, intent_hash, decision_id, policy_version)
where ((i.tenant_id, split_part(i.policy_version, '/', 1)) in (select tenant_id, version from active)) is not true
  and (select 1 from policy_decisions d where d.tenant_id = i.tenant_id and d.run_id = i.run_id
    and d.intent_hash = i.intent_hash and d.decision_id = i.decision_id limit 1) is null`

func decideArgs(batch []*decision) []any {
	return []any{
		column(batch, func(d *decision) uuid.UUID { return d.EventID }),
		column(batch, func(d *decision) string { return d.Intent.TenantID }),
		column(batch, func(d *decision) uuid.UUID { return d.Intent.RunID }),
		column(batch, func(d *decision) []byte { return d.Intent.IntentHash[:] }),
		column(batch, func(d *decision) int32 { return int32(d.Intent.Revision) }),
		column(batch, func(d *decision) uuid.UUID { return d.DecisionID }),
		column(batch, func(d *decision) string { return d.Route }),
		column(batch, func(d *decision) string { return d.PolicyVersion }),
		column(batch, func(d *decision) []byte { return d.InputsHash[:] }),
		column(batch, func(d *decision) string { return string(d.Reasons) }),
		column(batch, func(d *decision) string { return d.move.Name }),
		column(batch, func(d *decision) string { return d.move.From[0] }),
		column(batch, func(d *decision) string { return d.move.To }),
		column(batch, func(d *decision) string { return d.outcome }),
		column(batch, func(d *decision) string { return d.summary() }),
		column(batch, func(d *decision) *uuid.UUID { return d.authorization }),
		column(batch, func(d *decision) *uuid.UUID { return d.approval }),
		column(batch, func(d *decision) float64 { return d.DecideWithin.Seconds() }),
		column(batch, func(d *decision) float64 { return d.ExecuteWithin.Seconds() }),
		column(batch, func(d *decision) string { return listJSON(d.Audience) }),
		column(batch, func(d *decision) string { return d.Intent.ActionType }),
		column(batch, func(d *decision) string { return d.Effects[0].Connector }),
		column(batch, func(d *decision) string { return d.Effects[0].Operation }),
		column(batch, func(d *decision) string { return d.Effects[0].TargetSystem }),
		column(batch, func(d *decision) string { return d.Effects[0].TargetRecord }),
		column(batch, func(d *decision) uuid.UUID { return d.event.id }),
		column(batch, func(d *decision) string { return d.event.stream }),
		column(batch, func(d *decision) string { return d.event.subject }),
		column(batch, func(d *decision) []byte { return d.event.payload }),
		column(batch, func(d *decision) string { return d.Intent.CorrelationID }),
		column(batch, func(d *decision) string { return OperationID(d.Intent.RunID, d.Intent.Revision, 1) }),
		inboxPolicy, Policy,
		column(batch, func(d *decision) float64 { return d.Window.Seconds() }),
		windowMargin.Seconds(),
		column(batch, func(d *decision) float64 { return d.revise.Seconds() }),
		column(batch, func(d *decision) int32 { return d.Effects[0].stage() }),
		column(batch, func(d *decision) int32 { return int32(len(d.Effects)) }),
		column(batch, func(d *decision) string { return cmp.Or(d.Effects[0].ActionType, d.Intent.ActionType) }),
		column(batch, func(d *decision) bool { return d.Effects[0].InOrder }),
	}
}

// summary is kept with the run only where the run ends with this decision.
func (d *decision) summary() string {
	if d.outcome == "" {
		return ""
	}
	return d.Summary
}

// Inbox records events that a consumer has handled without a move of their own: their record had moved on already.
func (l *Ledger) Inbox(ctx context.Context, consumer int16, events []uuid.UUID) error {
	return l.command(ctx, "inbox", func(ctx context.Context) error {
		_, err := collect(ctx, l, l.site("inbox"), nil, pgx.RowTo[uuid.UUID], `insert into inbox (consumer, event_id)
select $1, event_id from unnest($2::uuid[]) as t(event_id) order by event_id on conflict do nothing returning event_id`, consumer, events)
		return err
	})
}
