-- The queue is listed by what is the same for many requests: tenant, state, action type and audience, of which there are few.
-- One index serves every filter and both orders of time, so that a page costs the same however much waits and was decided.
-- What a request is about is kept beside it, so that it can be found by its target record without reading every intent.

-- +goose Up
alter table approvals
  add column target_system text not null default '',
  add column target_record text not null default '';

update approvals a set
  target_system = coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,system}', ''),
  target_record = coalesce(convert_from(n.canonical, 'UTF8')::json #>> '{actions,0,target,record_id}', '')
from intents n where n.run_id = a.run_id and n.tenant_id = a.tenant_id and n.intent_hash = a.intent_hash;

-- The audience stands in them as its hash: index entries have a largest size, and audiences none.
create index approvals_listed on approvals
  (tenant_id, state, action_type, hash_array_extended(audience, 0), coalesce(decided_at, decide_by), approval_id);
create index approvals_age on approvals
  (tenant_id, state, action_type, hash_array_extended(audience, 0), requested_at, approval_id) where state = 'pending';
drop index approvals_open, approvals_decided;

-- These serve a search from the beginning of the text as well, whatever the database's collation.
drop index approvals_correlation;
create index approvals_correlation on approvals (tenant_id, correlation_id text_pattern_ops);
create index approvals_record on approvals (tenant_id, left(target_record, 255) text_pattern_ops);

grant insert (target_system, target_record) on approvals to holdpoint_policy, holdpoint_dispatcher, holdpoint_reconciler;

-- +goose Down
drop index approvals_record, approvals_correlation;
create index approvals_correlation on approvals (tenant_id, correlation_id);
create index approvals_open on approvals (tenant_id, decide_by) where state = 'pending';
create index approvals_decided on approvals (tenant_id, decided_at desc) where state <> 'pending';
drop index approvals_age, approvals_listed;
alter table approvals drop column target_record, drop column target_system;
