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

-- Each effect puts at risk what its own action moves (R9).
-- +goose StatementBegin
create or replace function keep_amount_at_risk() returns trigger language plpgsql as $$
declare
  change json;
begin
  select convert_from(n.canonical, 'UTF8')::json #> array['actions', (new.ordinal - 1)::text, 'proposed_change'] into change from intents n
  where n.tenant_id = new.tenant_id and n.run_id = new.run_id and n.intent_hash = new.intent_hash;
  if change ->> 'amount' ~ '^-?[0-9]{1,38}(\.[0-9]{1,18})?$' and char_length(change ->> 'currency') between 1 and 16 then
    new.risk_amount := (change ->> 'amount')::numeric;
    new.risk_currency := change ->> 'currency';
  end if;
  return new;
end $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
create or replace function keep_amount_at_risk() returns trigger language plpgsql as $$
declare
  change json;
begin
  select convert_from(n.canonical, 'UTF8')::json #> '{actions,0,proposed_change}' into change from intents n
  where n.tenant_id = new.tenant_id and n.run_id = new.run_id and n.intent_hash = new.intent_hash;
  if change ->> 'amount' ~ '^-?[0-9]{1,38}(\.[0-9]{1,18})?$' and char_length(change ->> 'currency') between 1 and 16 then
    new.risk_amount := (change ->> 'amount')::numeric;
    new.risk_currency := change ->> 'currency';
  end if;
  return new;
end $$;
-- +goose StatementEnd
drop table near_effects;
alter table effects drop constraint effects_stage, drop column actions, drop column stage;
