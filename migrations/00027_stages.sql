-- An intent may have several actions, each of which becomes an effect of its own. They go out in stages: what is of a later stage
-- waits until all of the earlier ones are completed, and is cancelled where one of them fails (D10).

-- +goose Up
alter table effects
  add column stage   integer not null default 1,
  add column actions integer not null default 1, -- of the intent: how many effects stand beside each other
  add constraint effects_stage check (stage > 0 and actions > 0) not valid;

-- What the second and further actions of an intent want, to be found by those who want nearly the same (K13). That of the first is
-- with the intent.
create table near_effects (
  tenant_id  text        not null,
  near_hash  bytea       not null,
  run_id     uuid        not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint near_effects_pkey primary key (near_hash, run_id, tenant_id),
  constraint near_effects_run foreign key (run_id, tenant_id) references runs
);

grant insert (stage, actions) on effects to holdpoint_policy, holdpoint_approval;
grant select, insert on near_effects to holdpoint_policy;

-- +goose Down
drop table near_effects;
alter table effects drop constraint effects_stage, drop column actions, drop column stage;
