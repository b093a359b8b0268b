-- What operators move by hand is kept with who did it, on what authority and by which way: kill switches (D9, O8), and providers'
-- events of which nobody knew what they were about (R4).

-- +goose Up
alter table kill_switches add column epoch bigint not null default 1; -- that its last change raised: what somebody saw who opens it
update kill_switches s set epoch = coalesce((select max(c.epoch) from kill_switch_changes c
  where c.scope = s.scope and c.scope_key = s.scope_key), 1);

alter table kill_switch_changes
  add column command_id uuid,                           -- a command that is repeated makes one change
  add column open_at    timestamptz,                    -- of an opening in stages
  add column channel    text not null default 'command',
  add column authority  jsonb,                          -- what the person's right to it rested on
  add constraint kill_switch_changes_command unique (command_id),
  add constraint kill_switch_changes_channel check (channel in ('web', 'api', 'command')),
  add constraint kill_switch_changes_authority check (channel = 'command' or authority is not null);
create index kill_switch_changes_of on kill_switch_changes (scope, scope_key, change_id);

grant select on kill_switches, kill_switch_epoch, kill_switch_changes to holdpoint_approval;

alter table provider_events drop constraint provider_events_state,
  add constraint provider_events_state check (state in ('waiting', 'applied', 'ignored', 'unmatched', 'dismissed'));
create index provider_events_unmatched on provider_events (tenant_id, connector, received_at) where state = 'unmatched';

create table provider_event_changes (
  change_id         bigint      generated always as identity primary key,
  tenant_id         text        not null,
  connector         text        not null,
  provider_event_id text        not null,
  command_id        uuid        not null,
  verb              text        not null,
  from_state        text        not null,
  changed_by        text        not null,
  reason            text        not null,
  changed_at        timestamptz not null default clock_timestamp(),
  constraint provider_event_changes_command unique (command_id),
  constraint provider_event_changes_event foreign key (tenant_id, connector, provider_event_id) references provider_events,
  constraint provider_event_changes_verb check (verb in ('replay', 'dismiss', 'read_body')),
  constraint provider_event_changes_owned check (changed_by ~ '\S' and reason ~ '\S' and char_length(reason) <= 2000)
);
create index provider_event_changes_of on provider_event_changes (tenant_id, connector, provider_event_id, change_id);

grant select, insert on provider_event_changes to holdpoint_operator;
grant update (state, next_at, attempts) on provider_events to holdpoint_operator;

-- +goose Down
drop table provider_event_changes;
revoke update (state, next_at, attempts) on provider_events from holdpoint_operator;
drop index provider_events_unmatched;
update provider_events set state = 'ignored' where state = 'dismissed';
alter table provider_events drop constraint provider_events_state,
  add constraint provider_events_state check (state in ('waiting', 'applied', 'ignored', 'unmatched'));
revoke select on kill_switches, kill_switch_epoch, kill_switch_changes from holdpoint_approval;
drop index kill_switch_changes_of;
alter table kill_switch_changes drop constraint kill_switch_changes_authority, drop constraint kill_switch_changes_channel,
  drop constraint kill_switch_changes_command, drop column authority, drop column channel, drop column open_at, drop column command_id;
alter table kill_switches drop column epoch;
