-- No effect without an authorization, enforced here: an authorization names a policy decision with route auto or an approval
-- in state approved through columns whose CHECK leaves them no other value, so the foreign key itself is the rule.
-- An approval that authorised something can no longer leave the state approved.

-- +goose Up
create table policy_decisions (
  tenant_id      text        not null,
  run_id         uuid        not null,
  intent_hash    bytea       not null,
  decision_id    uuid        not null,
  route          text        not null,
  policy_version text        not null,
  inputs_hash    bytea       not null,
  reasons        jsonb       not null,
  decided_at     timestamptz not null default clock_timestamp(),
  constraint policy_decisions_pkey primary key (run_id, tenant_id, intent_hash, decision_id, route),
  constraint policy_decisions_intent foreign key (run_id, tenant_id, intent_hash) references intents,
  constraint policy_decisions_route check (route in ('auto', 'human_review', 'reject', 'repair'))
);

create table approvals (
  tenant_id      text        not null,
  run_id         uuid        not null,
  intent_hash    bytea       not null,
  approval_id    uuid        not null,
  state          text        not null default 'pending',
  action_type    text        not null,
  audience       text[]      not null,
  reasons        jsonb       not null,
  correlation_id text        not null,
  requested_at   timestamptz not null default clock_timestamp(),
  decide_by      timestamptz not null,
  execute_within interval    not null,
  decided_at     timestamptz,
  constraint approvals_pkey primary key (run_id, tenant_id, intent_hash, approval_id, state),
  constraint approvals_id unique (approval_id),
  constraint approvals_intent foreign key (run_id, tenant_id, intent_hash) references intents,
  constraint approvals_state check (state in ('pending', 'approved', 'rejected', 'expired', 'superseded')),
  constraint approvals_decided check ((decided_at is null) = (state = 'pending'))
);
create unique index approvals_one_pending on approvals (run_id, tenant_id) where state = 'pending';

create table authorizations (
  tenant_id        text        not null,
  run_id           uuid        not null,
  intent_hash      bytea       not null,
  authorization_id uuid        not null,
  decision_id      uuid,
  decision_route   text,
  approval_id      uuid,
  approval_state   text,
  execute_by       timestamptz not null,
  authorized_at    timestamptz not null default clock_timestamp(),
  constraint authorizations_pkey primary key (run_id, tenant_id, intent_hash, authorization_id),
  constraint authorizations_decision foreign key (run_id, tenant_id, intent_hash, decision_id, decision_route)
    references policy_decisions,
  constraint authorizations_approval foreign key (run_id, tenant_id, intent_hash, approval_id, approval_state)
    references approvals,
  constraint authorizations_route_auto check (decision_route = 'auto'),
  constraint authorizations_approval_approved check (approval_state = 'approved'),
  constraint authorizations_basis check (
    (decision_id is not null and decision_route is not null and approval_id is null and approval_state is null) or
    (decision_id is null and decision_route is null and approval_id is not null and approval_state is not null))
);

-- +goose Down
drop table authorizations, approvals, policy_decisions;
