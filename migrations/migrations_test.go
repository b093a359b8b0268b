package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// schemaSQL describes all that the migrations make, in a stable order. Names that Postgres makes up for partitions do not count.
const schemaSQL = `
select 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') || ' ' || is_identity
from information_schema.columns where table_schema = 'public'
union all select 'constraint ' || conrelid::regclass || ' ' || case when conparentid = 0 then conname else '' end || ' ' || pg_get_constraintdef(oid)
from pg_constraint where connamespace = 'public'::regnamespace
union all select 'index ' || regexp_replace(indexdef, 'INDEX \S+ ', 'INDEX ') from pg_indexes where schemaname = 'public'
union all select 'grant ' || relname || ' ' || coalesce(relacl::text, '') from pg_class where relnamespace = 'public'::regnamespace
union all select 'grant ' || attrelid::regclass || '.' || attname || ' ' || attacl::text from pg_attribute
where attacl is not null and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
union all select 'function ' || p.oid::regprocedure || ' ' || md5(prosrc || coalesce(pg_get_function_sqlbody(p.oid), '')) || ' ' || coalesce(proacl::text, '')
from pg_proc p where pronamespace = 'public'::regnamespace
union all select 'option ' || relname || ' ' || reloptions::text from pg_class where relnamespace = 'public'::regnamespace and reloptions is not null
order by 1`

func schema(t *testing.T, pool *pgxpool.Pool) (lines []string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), schemaSQL)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return lines
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t) // migrated up
	pool := db.Pool("")
	up := schema(t, pool)
	require.Greater(t, len(up), 200)
	require.NoError(t, postgres.MigrateDown(t.Context(), db.URL, migrations.FS))
	for _, line := range schema(t, pool) {
		require.Contains(t, line, "goose_db_version", "nothing else is left behind")
	}
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, migrations.FS))
	require.Equal(t, up, schema(t, pool))
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, migrations.FS), "and once more changes nothing")
	require.Equal(t, up, schema(t, pool))
}

// TestForeignKeysAreServedByIndexes: a check that has no index reads the whole table for every row.
func TestForeignKeysAreServedByIndexes(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool("")
	var missing []string
	rows, err := pool.Query(t.Context(), `select conname from pg_constraint c where contype = 'f' and not exists (
  select from pg_index i where i.indrelid = c.confrelid and i.indisunique and i.indkey::int2[] @> c.confkey and c.confkey @> i.indkey::int2[])`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		missing = append(missing, name)
	}
	require.Empty(t, missing)
}

// TestTenantsCannotBeMixed: every foreign key between runs' tables carries the tenant (B7).
func TestTenantsCannotBeMixed(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool("")
	var n, without int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*), count(*) filter (where not exists (
  select from pg_attribute a where a.attrelid = c.conrelid and a.attnum = any(c.conkey) and a.attname = 'tenant_id'))
from pg_constraint c where contype = 'f'`).Scan(&n, &without))
	require.Positive(t, n)
	require.Zero(t, without)
}
