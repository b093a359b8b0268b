-- What the target of a waiting request holds, read beside the gate, which may call nobody: a reviewer sees it next to what is
-- proposed (A10). One row for each intent has the last answer, and what went wrong since. A vote keeps what its page showed of it,
-- so that a later reviewer is told what has changed since (A17).

-- +goose Up
alter table approvals
  add column next_read_at timestamptz not null default '-infinity'; -- of the target, while the request waits
create index approvals_read on approvals (tenant_id, action_type, next_read_at) where state = 'pending';

create table readings (
  tenant_id   text        not null,
  run_id      uuid        not null,
  intent_hash bytea       not null,
  read_at     timestamptz,           -- of the last answer; null while there was none
  found       boolean,               -- false: the target did not exist
  version     text,
  held        text,                  -- canonical JSON: pointers into the proposed change, each with what the target held there
  error       text,                  -- why the last try gave no answer, in words of ours; null where it gave one
  failed_at   timestamptz,
  failures    integer     not null default 0, -- since the last answer
  constraint readings_pkey primary key (run_id, tenant_id, intent_hash),
  constraint readings_intent foreign key (run_id, tenant_id, intent_hash) references intents,
  constraint readings_answer check ((read_at is null) = (found is null) and (found is true or (version is null and held is null))),
  constraint readings_failure check ((failed_at is null) = (error is null) and (error is null) = (failures = 0)),
  constraint readings_size check (octet_length(held) <= 65536 and char_length(error) <= 500 and char_length(version) <= 512)
);

alter table reviews
  add column seen jsonb; -- what the page showed of the target: read_at, found, version, held; null where it showed none

grant select on readings to holdpoint_reconciler, holdpoint_approval, holdpoint_operator;
grant insert (tenant_id, run_id, intent_hash, read_at, found, version, held, error, failed_at, failures) on readings
  to holdpoint_reconciler;
grant update (read_at, found, version, held, error, failed_at, failures) on readings to holdpoint_reconciler;
grant update (next_read_at) on approvals to holdpoint_reconciler;
grant insert (seen) on reviews to holdpoint_approval;
grant select on run_conflicts to holdpoint_approval; -- the timeline of a run tells of them

-- +goose Down
revoke select on run_conflicts from holdpoint_approval;
alter table reviews drop column seen;
drop table readings;
drop index approvals_read;
alter table approvals drop column next_read_at;
