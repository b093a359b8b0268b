-- What a tenant's own people and dashboards may read by SQL: views that show each login the rows of its tenants and nothing else
-- (B7). They are barriers: no function of a reader's query sees a row before the tenant was checked. The tables themselves have
-- no grant for readers, so the services' statements carry no policy and cost what they cost before. A deployment gives a reader
-- a login that is a member of holdpoint_reader, and one row for each of its tenants.

-- +goose Up
-- +goose StatementBegin
do $$
begin
  if not exists (select from pg_roles where rolname = 'holdpoint_reader') then
    begin
      create role holdpoint_reader nologin;
    exception when duplicate_object or unique_violation then
      null; -- another database's migration was faster
    end;
  end if;
end $$;
-- +goose StatementEnd

create table tenant_logins (
  login     text not null,
  tenant_id text not null,
  constraint tenant_logins_pkey primary key (login, tenant_id)
);

create view tenant_runs with (security_barrier) as
select tenant_id, run_id, idempotency_key, source, state, outcome, outcome_reason, intent_revision, attempts, takeovers,
  correlation_id, requested_by, sent_by, created_at, updated_at, ended_at
from runs where tenant_id in (select l.tenant_id from tenant_logins l where l.login = session_user);

create view tenant_decisions with (security_barrier) as
select tenant_id, run_id, decision_id, encode(intent_hash, 'hex') as intent_hash, route, policy_version, reasons, decided_at
from policy_decisions where tenant_id in (select l.tenant_id from tenant_logins l where l.login = session_user);

create view tenant_approvals with (security_barrier) as
select tenant_id, run_id, approval_id, encode(intent_hash, 'hex') as intent_hash, state, action_type, audience, reasons,
  correlation_id, requested_at, decide_by, decided_at
from approvals where tenant_id in (select l.tenant_id from tenant_logins l where l.login = session_user);

create view tenant_effects with (security_barrier) as
select tenant_id, run_id, operation_id, encode(intent_hash, 'hex') as intent_hash, action_type, connector, operation,
  target_system, target_record, state, hold_reason, attempts, external_id, record_version, execute_by, created_at, updated_at
from effects where tenant_id in (select l.tenant_id from tenant_logins l where l.login = session_user);

create view tenant_audit with (security_barrier) as
select tenant_id, run_id, audit_id, at, actor, move, from_state, to_state, detail
from audit_events where tenant_id in (select l.tenant_id from tenant_logins l where l.login = session_user);

grant select on tenant_runs, tenant_decisions, tenant_approvals, tenant_effects, tenant_audit to holdpoint_reader;
grant select, insert, delete on tenant_logins to holdpoint_operator;

-- +goose Down
drop view tenant_audit, tenant_effects, tenant_approvals, tenant_decisions, tenant_runs;
drop table tenant_logins;
