-- How much was authorized lately, so that no more is authorized than the configuration allows (P8). What an effect drew is a row of
-- its own, so that it can be given back once when the effect fails; the sums are kept in steps of time, so that a look at a window
-- reads some sixty rows, however much was authorized in it.

-- +goose Up
create table limit_windows (
  tenant_id text        not null,
  limit_id  text        not null, -- action type and limit, as in payment.refund/daily
  scope     bytea       not null, -- SHA-256 of the values that the limit is counted per; they may be personal
  step      timestamptz not null, -- when this step of the window began
  count     bigint      not null,
  amount    numeric     not null,
  constraint limit_windows_pkey primary key (limit_id, scope, step, tenant_id),
  constraint limit_windows_scope_length check (octet_length(scope) = 32)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index limit_windows_age on limit_windows using brin (step);

create table limit_draws (
  tenant_id text        not null,
  run_id    uuid        not null,
  revision  integer     not null,
  ordinal   integer     not null,
  limit_id  text        not null,
  scope     bytea       not null,
  step      timestamptz not null,
  amount    numeric     not null,
  open      boolean     not null default true, -- the effect has not ended
  returned  boolean     not null default false, -- the effect failed, and what it drew was given back
  constraint limit_draws_pkey primary key (run_id, tenant_id, revision, ordinal, limit_id),
  constraint limit_draws_effect foreign key (run_id, tenant_id, revision, ordinal) references effects (run_id, tenant_id, revision, ordinal),
  constraint limit_draws_returned check (not (open and returned))
);
create index limit_draws_open on limit_draws (run_id) where open;

grant select on limit_windows, limit_draws to holdpoint_policy, holdpoint_approval, holdpoint_reconciler;
grant insert on limit_windows, limit_draws to holdpoint_policy, holdpoint_approval;
grant update (count, amount) on limit_windows to holdpoint_policy, holdpoint_approval, holdpoint_reconciler;
grant update (open, returned) on limit_draws to holdpoint_reconciler;
grant delete on limit_windows to holdpoint_reconciler;

-- +goose Down
drop table limit_draws, limit_windows;
