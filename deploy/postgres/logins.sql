-- Makes one login for each service, a member of that service's group role and of nothing else (D1), one for operators,
-- and one that owns the database and migrates it. A tenant's own reader is a login of yours in role holdpoint_reader, with
-- a row in tenant_logins. Running it again sets the passwords anew. It is run by an
-- administrator, in the database that is to be Holdpoint's, before the first migration:
--
--   passwords='{"migrate":"…","operator":"…","intake":"…","relay":"…","policy":"…","approval":"…","dispatcher":"…",'
--   passwords+='"reconciler":"…"}'
--   PGOPTIONS="-c holdpoint.passwords=$passwords" psql --set=ON_ERROR_STOP=1 --file=logins.sql "$ADMIN_DATABASE_URL"
--
-- The value may hold no space and no backslash. The logins are called holdpoint_<name>_login.

do $$
declare
  groups constant text[] := array['intake', 'policy', 'approval', 'dispatcher', 'reconciler', 'relay', 'operator', 'reader'];
  passwords constant jsonb := current_setting('holdpoint.passwords')::jsonb;
  name text;
  login text;
begin
  foreach name in array groups loop
    if not exists (select from pg_roles where rolname = 'holdpoint_' || name) then
      execute format('create role %I nologin', 'holdpoint_' || name);
    end if;
  end loop;
  execute format('revoke all on database %I from public', current_database());
  for name in select jsonb_object_keys(passwords) loop
    if name <> 'migrate' and name <> all (groups) then
      raise 'holdpoint.passwords has "%": no service is called that', name;
    end if;
    login := 'holdpoint_' || name || '_login';
    if not exists (select from pg_roles where rolname = login) then
      execute format('create role %I', login);
    end if;
    execute format('alter role %I login password %L', login, passwords ->> name);
    execute format('grant connect on database %I to %I', current_database(), login);
    if name = 'migrate' then
      execute format('alter database %I owner to %I', current_database(), login);
    else
      execute format('grant %I to %I', 'holdpoint_' || name, login);
    end if;
  end loop;
end $$;
