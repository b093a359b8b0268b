-- One role for each service, so that grants can keep every service to its own moves (guarantee D1). They are group roles:
-- a deployment gives each service a login that is a member of its role, and the connection takes the role on.
-- Roles belong to the whole server, so the statement must bear being run for a second database at the same time.

-- +goose Up
-- +goose StatementBegin
do $$
declare
  name text;
begin
  foreach name in array array['holdpoint_intake', 'holdpoint_policy', 'holdpoint_approval', 'holdpoint_dispatcher',
                              'holdpoint_reconciler', 'holdpoint_relay', 'holdpoint_operator'] loop
    if not exists (select from pg_roles where rolname = name) then
      begin
        execute format('create role %I nologin', name);
      exception when duplicate_object or unique_violation then
        null; -- another database's migration was faster
      end;
    end if;
  end loop;
end $$;
-- +goose StatementEnd
revoke create on schema public from public;

-- +goose Down
-- The roles stay: another database of the same server may use them.
select 1;
