-- A database that was restored from a backup does not know what was sent after the backup was made (D17). The relay counts up a mark
-- here and tells it on the bus; a bus that has heard of a higher mark than stands here means that the database went back in time. A
-- restore stands until the provider's keys are too old to matter, and while it does, everything is looked for before it is sent.

-- +goose Up
create table database_mark (
  singleton boolean     primary key default true check (singleton),
  seq       bigint      not null,
  marked_at timestamptz not null
);
insert into database_mark (seq, marked_at) values (0, clock_timestamp());

create table restores (
  restore_id  uuid        not null,
  detected_at timestamptz not null default clock_timestamp(),
  detected_by text        not null, -- relay, or who declared it
  reason      text        not null,
  backup_at   timestamptz not null, -- the last mark before the backup was made: whatever was sent later may be unknown here
  ends_at     timestamptz not null,
  lifted_at   timestamptz,
  lifted_by   text,
  lift_reason text,
  constraint restores_pkey primary key (restore_id),
  constraint restores_owned check (detected_by <> '' and reason <> ''),
  constraint restores_lifted check (num_nonnulls(lifted_at, lifted_by, lift_reason) in (0, 3))
);
create index restores_standing on restores (ends_at) where lifted_at is null;

-- The restore for which it was looked whether the effect was done; null where none stood.
alter table effects add column restore_id uuid;

grant select on database_mark to holdpoint_relay, holdpoint_dispatcher, holdpoint_operator;
grant update (seq, marked_at) on database_mark to holdpoint_relay, holdpoint_operator;
grant select on restores to holdpoint_relay, holdpoint_dispatcher, holdpoint_reconciler, holdpoint_approval, holdpoint_operator;
grant insert (restore_id, detected_by, reason, backup_at, ends_at) on restores to holdpoint_relay, holdpoint_operator;
grant update (lifted_at, lifted_by, lift_reason) on restores to holdpoint_operator;
grant update (restore_id) on effects to holdpoint_dispatcher;

-- +goose Down
alter table effects drop column restore_id;
drop table restores, database_mark;
