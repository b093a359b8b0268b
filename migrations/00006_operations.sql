-- What operators own: the kill switch, messages that could not be processed, and what is known of the broker's streams.

-- +goose Up
create table kill_switches (
  scope      text        not null,
  scope_key  text        not null, -- empty for the global scope, "tenant" or "tenant/name" for the others
  closed     boolean     not null,
  changed_by text        not null,
  reason     text        not null,
  changed_at timestamptz not null default clock_timestamp(),
  constraint kill_switches_pkey primary key (scope, scope_key),
  constraint kill_switches_scope check (scope in ('global', 'tenant', 'action_type', 'connector')),
  constraint kill_switches_key check ((scope = 'global') = (scope_key = '')),
  constraint kill_switches_owned check (changed_by <> '' and reason <> '')
);

-- One row: every change of a switch raises the epoch that leases carry.
create table kill_switch_epoch (
  singleton boolean primary key default true check (singleton),
  epoch     bigint not null
);
insert into kill_switch_epoch (epoch) values (1);

create table kill_switch_changes (
  change_id  bigint      generated always as identity primary key,
  scope      text        not null,
  scope_key  text        not null,
  closed     boolean     not null,
  changed_by text        not null,
  reason     text        not null,
  epoch      bigint      not null,
  changed_at timestamptz not null default clock_timestamp()
);

create table parked_messages (
  parked_id  uuid        not null,
  consumer   text        not null,
  tenant_id  text        not null,
  subject    text        not null,
  event_id   uuid,
  reason     text        not null,
  headers    jsonb       not null,
  body       bytea       not null,
  deliveries integer     not null,
  state      text        not null default 'parked',
  parked_at  timestamptz not null default clock_timestamp(),
  settled_at timestamptz,
  settled_by text,
  constraint parked_messages_pkey primary key (parked_id),
  constraint parked_messages_state check (state in ('parked', 'replayed', 'discarded')),
  constraint parked_messages_settled check ((state = 'parked') = (settled_at is null and settled_by is null))
);
create index parked_messages_open on parked_messages (parked_at) where state = 'parked';

create table broker_epochs (
  stream     text        not null,
  created_at timestamptz not null, -- the stream's own creation time
  last_seq   bigint      not null,
  epoch      integer     not null default 1,
  seen_at    timestamptz not null default clock_timestamp(),
  constraint broker_epochs_pkey primary key (stream)
);

-- +goose Down
drop table broker_epochs, parked_messages, kill_switch_changes, kill_switch_epoch, kill_switches;
