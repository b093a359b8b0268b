-- A recall takes back what a model, a prompt, a policy or a workflow has drafted and was not sent yet (D16). It stands like a closed
-- switch until it is lifted: what comes of the same draft later, by an approval or a retry, is held as well.

-- +goose Up
create table recalls (
  recall_id        uuid        not null,
  tenant_id        text        not null,
  model_name       text,        -- every one that is given must be the draft's
  model_revision   text,
  prompt_version   text,
  workflow_version text,
  policy_version   text,        -- under which it was decided
  drafted_since    timestamptz, -- null is since ever
  recalled_by      text        not null,
  reason           text        not null,
  recalled_at      timestamptz not null default clock_timestamp(),
  lifted_at        timestamptz,
  lifted_by        text,
  lift_reason      text,
  constraint recalls_pkey primary key (recall_id, tenant_id),
  constraint recalls_names_something check (num_nonnulls(model_name, prompt_version, workflow_version, policy_version) > 0),
  constraint recalls_revision check (model_revision is null or model_name is not null),
  constraint recalls_owned check (recalled_by <> '' and reason <> ''),
  constraint recalls_lifted check (num_nonnulls(lifted_at, lifted_by, lift_reason) in (0, 3))
);
create index recalls_standing on recalls (tenant_id) where lifted_at is null;

grant select on recalls to holdpoint_dispatcher, holdpoint_reconciler, holdpoint_approval, holdpoint_operator;
grant insert on recalls to holdpoint_operator;
grant update (lifted_at, lifted_by, lift_reason) on recalls to holdpoint_operator;

-- +goose Down
drop table recalls;
