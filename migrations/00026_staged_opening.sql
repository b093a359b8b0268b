-- A switch that is opened again lets effects go in stages: the share of them that may be sent grows from changed_at until open_at, and
-- which ones are among it follows from their operation ids, the same for all replicas (D15).

-- +goose Up
alter table kill_switches
  add column open_at timestamptz, -- when all may go again; null where the switch is closed, or was opened at once
  add constraint kill_switches_staged check (open_at is null or not closed and open_at > changed_at);

-- +goose Down
alter table kill_switches drop constraint kill_switches_staged, drop column open_at;
