-- What the targets of a waiting request with several actions hold (D10, A10): for each action a row, read by its own connector and
-- when it is due by itself, so that a target which hangs or fails keeps no other one from being shown. A request is planned, which is
-- to get its rows, by the reconciler that takes it up.
--
-- Requests with one action keep the table readings as it is, and so does the release before this one, which runs beside it while
-- services are exchanged: it writes there by the key of an intent, and a card of its joins one row. An ordinal in that key would end
-- both. It reads the first of several actions of one type into readings; such a row is shown until the rows here are there. A new
-- table is also locked by nobody: only its foreign key takes a lock on approvals, for the moment of an empty table.

-- +goose Up
create table action_readings (
  tenant_id    text        not null,
  run_id       uuid        not null,
  approval_id  uuid        not null,
  ordinal      integer     not null, -- of the action, from 1
  action_type  text        not null, -- of that action
  next_read_at timestamptz not null default '-infinity', -- infinity once the request was found not to wait any more
  read_at      timestamptz,          -- this and the rest as in readings
  found        boolean,
  version      text,
  held         text,
  error        text,
  failed_at    timestamptz,
  failures     integer     not null default 0,
  constraint action_readings_pkey primary key (run_id, tenant_id, approval_id, ordinal),
  constraint action_readings_approval foreign key (approval_id, tenant_id) references approvals (approval_id, tenant_id),
  constraint action_readings_ordinal check (ordinal > 0),
  constraint action_readings_answer check ((read_at is null) = (found is null) and (found is true or (version is null and held is null))),
  constraint action_readings_failure check ((failed_at is null) = (error is null) and (error is null) = (failures = 0)),
  constraint action_readings_size check (octet_length(held) <= 65536 and char_length(error) <= 500 and char_length(version) <= 512)
);
create index action_readings_due on action_readings (tenant_id, action_type, next_read_at) where next_read_at < 'infinity';

grant select on action_readings to holdpoint_reconciler, holdpoint_approval, holdpoint_operator;
grant insert (tenant_id, run_id, approval_id, ordinal, action_type) on action_readings to holdpoint_reconciler;
grant update (next_read_at, read_at, found, version, held, error, failed_at, failures) on action_readings to holdpoint_reconciler;

-- +goose Down
drop table action_readings;
