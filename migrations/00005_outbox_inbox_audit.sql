-- The outbox is two tables: an insert-only log of what is published, partitioned by day so that it is dropped and not
-- deleted, and a narrow table of what the broker has not acknowledged, whose churn is small rows. Event ids are UUIDv7 and
-- minted by us, so the id itself is the partition key and stays unique over all partitions; so for the inbox, which outlives
-- the log.

-- +goose Up
create table event_log (
  event_id   uuid        not null,
  tenant_id  text        not null,
  run_id     uuid        not null,
  stream     text        not null,
  subject    text        not null,
  payload    bytea       not null,
  headers    jsonb,                -- of a replayed message; null otherwise
  created_at timestamptz not null default clock_timestamp(),
  constraint event_log_pkey primary key (event_id)
) partition by range (event_id);
create table event_log_rest partition of event_log default;

create table pending (
  seq        bigint      generated always as identity,
  event_id   uuid        not null,
  generation integer     not null default 1, -- part of the broker's message id: a deliberate repeat has a new one
  attempts   integer     not null default 0,
  not_before timestamptz not null default '-infinity',
  constraint pending_pkey primary key (seq)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create table inbox (
  consumer   smallint    not null,
  event_id   uuid        not null,
  parked     boolean     not null default false,
  handled_at timestamptz not null default clock_timestamp(),
  constraint inbox_pkey primary key (event_id, consumer)
) partition by range (event_id);
create table inbox_rest partition of inbox default;

create table audit_events (
  audit_id   bigint      generated always as identity,
  tenant_id  text        not null,
  run_id     uuid        not null,
  at         timestamptz not null default clock_timestamp(),
  actor      text        not null,
  move       text        not null,
  from_state text,
  to_state   text,
  detail     jsonb,
  constraint audit_events_pkey primary key (run_id, tenant_id, audit_id)
);

-- The smallest UUIDv7 of a moment: such an id begins with 48 bits of milliseconds since 1970.
create function uuid_at(at timestamptz) returns uuid language sql immutable parallel safe
  return rpad(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0'), 32, '0')::uuid;

-- Makes the daily partitions from yesterday to a week ahead, and drops the expired, but never one of which the broker has not
-- acknowledged everything: then the log and the inbox of that day stay. What came while a day had no partition lies in the
-- default one and is moved over. Runs as the owner, because services may not change tables, and waits for no table longer than
-- two seconds, because everybody else would queue behind it. Days are those of UTC.
-- +goose StatementBegin
create function maintain_partitions(log_days integer, inbox_days integer) returns integer
language plpgsql security definer set search_path = pg_catalog, public set timezone = 'UTC' set lock_timeout = '2s' as $$
declare
  parent text;
  day    date;
  low    uuid;
  high   uuid;
  name   text;
  made   integer := 0;
begin
  if log_days < 2 then
    raise exception 'the event log must keep at least 2 days, from which a broker that lost a day is filled again: % is too few',
      log_days;
  end if;
  if inbox_days <= log_days then
    raise exception 'the inbox must outlive the event log: % is not more than % days', inbox_days, log_days;
  end if;
  perform pg_advisory_xact_lock(hashtext('holdpoint.maintain_partitions'));
  foreach parent in array array['event_log', 'inbox'] loop
    for day in select current_date + n from generate_series(-1, 7) n loop
      name := parent || '_' || to_char(day, 'YYYYMMDD');
      continue when to_regclass('public.' || name) is not null;
      low := uuid_at(day);
      high := uuid_at(day + 1);
      execute format('create table public.%I (like public.%I including defaults including constraints)', name, parent);
      execute format('lock table public.%I in access exclusive mode', parent || '_rest');
      execute format('with late as (delete from public.%I where event_id >= %L and event_id < %L returning *)
        insert into public.%I select * from late', parent || '_rest', low, high, name);
      execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)', parent, name, low, high);
      made := made + 1;
    end loop;
    for name, day in
      select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD')
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = to_regclass('public.' || parent) and c.relname ~ '_[0-9]{8}$'
    loop
      continue when day >= current_date - case parent when 'event_log' then log_days else inbox_days end;
      continue when parent = 'event_log'
        and exists (select from pending p where p.event_id >= uuid_at(day) and p.event_id < uuid_at(day + 1));
      continue when parent = 'inbox' and to_regclass('public.event_log_' || to_char(day, 'YYYYMMDD')) is not null;
      begin
        execute format('drop table public.%I', name);
      exception when lock_not_available then
        raise notice 'partition % is in use; it is dropped another time', name;
      end;
    end loop;
  end loop;
  return made;
end $$;
-- +goose StatementEnd
revoke execute on function maintain_partitions from public;
select maintain_partitions(7, 14);

-- +goose Down
drop function maintain_partitions, uuid_at;
drop table audit_events, inbox, pending, event_log;
