-- A proposal can be sent back to whoever made it, by a rule or by a person, so often as the configuration says (P2, A18). The run
-- then waits for a worker like one that has no proposal yet, and ends where none brings a better one in time.

-- +goose Up
alter table runs
  add column revise_by timestamptz, -- a proposal that was sent back is awaited until then; null where none is
  drop constraint runs_lease,
  add constraint runs_lease check (lease_owner is null or (state = 'processing' and (intent_revision = 0 or revise_by is not null)
    and lease_expires_at is not null and lease_cap_at is not null)),
  add constraint runs_revised check (revise_by is null or (state = 'processing' and intent_revision > 0));
create index runs_revise_by on runs (revise_by) where revise_by is not null;

create table sent_back (
  tenant_id text        not null,
  run_id    uuid        not null,
  revision  integer     not null, -- of the intent that was sent back
  sent_by   text        not null, -- policy, or who
  reasons   jsonb       not null,
  sent_at   timestamptz not null default clock_timestamp(),
  constraint sent_back_pkey primary key (run_id, tenant_id, revision)
);

alter table reviews drop constraint reviews_decision,
  add constraint reviews_decision check (decision in ('approve', 'reject', 'send_back'));

alter table approval_tokens drop constraint approval_tokens_decisions,
  add constraint approval_tokens_decisions check (decisions <@ array['approve', 'reject', 'send_back'] and decisions <> '{}');

grant select on sent_back to holdpoint_intake, holdpoint_policy, holdpoint_approval, holdpoint_operator;
grant insert (tenant_id, run_id, revision, sent_by, reasons) on sent_back to holdpoint_policy, holdpoint_approval;
grant update (revise_by) on runs to holdpoint_intake, holdpoint_policy, holdpoint_approval;
grant update (attempts) on runs to holdpoint_policy, holdpoint_approval;
grant insert, select, update on waiting_runs to holdpoint_policy, holdpoint_approval;
grant delete on waiting_runs to holdpoint_approval;

-- +goose Down
alter table approval_tokens drop constraint approval_tokens_decisions,
  add constraint approval_tokens_decisions check (decisions <@ array['approve', 'reject'] and decisions <> '{}');
alter table reviews drop constraint reviews_decision,
  add constraint reviews_decision check (decision in ('approve', 'reject'));
revoke insert, select, update, delete on waiting_runs from holdpoint_policy, holdpoint_approval;
revoke update (attempts) on runs from holdpoint_policy, holdpoint_approval;
drop table sent_back;
drop index runs_revise_by;
alter table runs drop constraint runs_revised, drop constraint runs_lease, drop column revise_by,
  add constraint runs_lease check (lease_owner is null or (state = 'processing' and intent_revision = 0
    and lease_expires_at is not null and lease_cap_at is not null));
