-- Operators settle by hand what could not be settled by reading (R6), from a queue with the money at risk on top (R9).

-- +goose Up
-- What the approved intent moves, where it has an amount and a currency: of its row alone, and from nobody's word but the intent's.
-- It is kept when the effect stops being under way, so that a sum over a hundred thousand of them reads no intents. What its provider
-- has done, and whose target is only to be read, is not at risk: that is every update that goes well.
alter table effects
  add column risk_amount   numeric,
  add column risk_currency text;

-- +goose StatementBegin
create function keep_amount_at_risk() returns trigger language plpgsql as $$
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
create trigger effects_amount_at_risk before update of state on effects for each row
  when ((new.state in ('unknown', 'held') or new.state = 'accepted' and new.succeeded_at is null) and new.risk_currency is null
    and new.state <> old.state)
  execute function keep_amount_at_risk();
update effects e set risk_amount = (c.change ->> 'amount')::numeric, risk_currency = c.change ->> 'currency'
from intents n, lateral (select convert_from(n.canonical, 'UTF8')::json #> '{actions,0,proposed_change}' as change) c
where e.open and e.state in ('unknown', 'held', 'accepted') and n.tenant_id = e.tenant_id and n.run_id = e.run_id
  and n.intent_hash = e.intent_hash and c.change ->> 'amount' ~ '^-?[0-9]{1,38}(\.[0-9]{1,18})?$'
  and char_length(c.change ->> 'currency') between 1 and 16;

-- The queue in its order, by kind: the state, or why it is held. The sums are made of the index alone.
create index effects_desk on effects (tenant_id, (coalesce(hold_reason, state)), (coalesce(unknown_since, succeeded_at, updated_at)),
  run_id, revision, ordinal) include (action_type, connector, risk_currency, risk_amount)
  where open and state in ('unknown', 'accepted', 'held') and hold_reason is distinct from 'review';

-- One row for each resolution: of one that needs a second person, from when the first has proposed it. It is made once, in the
-- transaction of the effect's move.
create table resolutions (
  tenant_id       text        not null,
  run_id          uuid        not null,
  revision        integer     not null,
  ordinal         integer     not null,
  resolution_id   uuid        not null, -- the first person's command
  move            text        not null,
  external_id     text        not null default '', -- the provider's, of what is confirmed done
  evidence        text        not null default '', -- where it can be looked at
  reason          text        not null,
  seen            text        not null, -- the state of the effect that it is about
  by_issuer       text        not null,
  by_subject      text        not null,
  by_id           text        not null, -- how people know them
  authority       jsonb       not null,
  channel         text        not null,
  page_digest     bytea,
  proposed_at     timestamptz not null,
  lapses_at       timestamptz, -- of a proposal; null where nobody else was needed
  withdrawn_at    timestamptz,
  withdrawn_by    text,
  second_command  uuid,
  second_issuer   text,
  second_subject  text,
  second_id       text,
  second_authority jsonb,
  second_reason   text,
  second_channel  text,
  second_digest   bytea,
  made_at         timestamptz,
  constraint resolutions_pkey primary key (run_id, tenant_id, revision, ordinal, resolution_id),
  constraint resolutions_effect foreign key (run_id, tenant_id, revision, ordinal) references effects,
  constraint resolutions_move check (move in ('confirm_done', 'confirm_not_done', 'dispute', 'give_up')),
  constraint resolutions_said check (reason ~ '\S' and char_length(reason) <= 2000 and char_length(second_reason) <= 2000),
  constraint resolutions_id check (move <> 'confirm_done' or external_id ~ '\S'),
  constraint resolutions_channel check (channel in ('web', 'api', 'command') and second_channel in ('web', 'api', 'command')),
  constraint resolutions_once check (made_at is null or withdrawn_at is null),
  constraint resolutions_withdrawn check ((withdrawn_at is null) = (withdrawn_by is null)),
  constraint resolutions_alone check (lapses_at is not null or made_at is not null),
  constraint resolutions_second check ((second_id is null) = (second_issuer is null) and (second_id is null) = (second_subject is null)
    and (second_id is null) = (second_command is null) and (second_id is null) = (second_authority is null)
    and (second_id is null) = (second_channel is null) and (second_id is null) = (second_reason is null)),
  constraint resolutions_by_two check (lapses_at is null or (made_at is null) = (second_id is null)),
  constraint resolutions_another check ((second_issuer, second_subject) <> (by_issuer, by_subject) and second_id <> by_id)
);

grant select on resolutions to holdpoint_approval, holdpoint_operator;
grant insert on resolutions to holdpoint_operator;
grant update (withdrawn_at, withdrawn_by, second_command, second_issuer, second_subject, second_id, second_authority, second_reason,
  second_channel, second_digest, made_at) on resolutions to holdpoint_operator;

-- +goose Down
drop table resolutions;
drop index effects_desk;
drop trigger effects_amount_at_risk on effects;
drop function keep_amount_at_risk;
alter table effects drop column risk_currency, drop column risk_amount;
