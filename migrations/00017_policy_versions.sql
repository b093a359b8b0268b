-- A policy is stored whole under the hash of its content, and one version of it is active for all replicas at once (P7). The
-- pointer is a row of its own: storing a decision holds it shared and compares, activating holds it alone, so that nothing is
-- decided under a version when another has become active. What was stored or activated is never changed or removed.

-- +goose Up
create table policy_versions (
  tenant_id text        not null,
  version   text        not null, -- hex SHA-256 of the content
  content   bytea       not null, -- JSON, exactly the bytes that were digested
  stored_at timestamptz not null default clock_timestamp(),
  constraint policy_versions_pkey primary key (tenant_id, version),
  constraint policy_versions_hash check (version = encode(sha256(content), 'hex'))
);

create table policy_activations (
  tenant_id    text        not null,
  ordinal      bigint      not null, -- counts from 1; the largest is active
  version      text        not null,
  activated_by text        not null,
  reason       text        not null,
  activated_at timestamptz not null default clock_timestamp(),
  constraint policy_activations_pkey primary key (tenant_id, ordinal),
  constraint policy_activations_version foreign key (tenant_id, version) references policy_versions,
  constraint policy_activations_ordinal check (ordinal > 0),
  constraint policy_activations_accountable check (activated_by <> '' and reason <> '')
);

create table policy_active (
  tenant_id text   not null,
  ordinal   bigint not null,
  version   text   not null,
  constraint policy_active_pkey primary key (tenant_id),
  constraint policy_active_activation foreign key (tenant_id, ordinal) references policy_activations
    deferrable initially deferred, -- the pointer is taken before the moment of the activation is read from the clock
  constraint policy_active_version foreign key (tenant_id, version) references policy_versions
) with (fillfactor = 10);

grant select on policy_versions, policy_active to holdpoint_intake, holdpoint_policy, holdpoint_approval, holdpoint_dispatcher,
  holdpoint_reconciler, holdpoint_operator;
grant select on policy_activations to holdpoint_policy, holdpoint_operator;
grant insert on policy_versions, policy_activations, policy_active to holdpoint_policy, holdpoint_operator;
grant update (ordinal, version) on policy_active to holdpoint_policy, holdpoint_operator;

-- +goose Down
drop table policy_active, policy_activations, policy_versions;
