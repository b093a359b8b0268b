package migrations_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// TestRequestsThatWaitAlreadyKeepTheirTarget: 00018 reads it from the intent that each is about, so that a search finds them (A18).
func TestRequestsThatWaitAlreadyKeepTheirTarget(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	pool := db.Pool("")
	before := fstest.MapFS{}
	entries, err := migrations.FS.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.Name() < "00018" {
			data, err := migrations.FS.ReadFile(entry.Name())
			require.NoError(t, err)
			before[entry.Name()] = &fstest.MapFile{Data: data}
		}
	}
	require.NoError(t, postgres.MigrateDown(t.Context(), db.URL, migrations.FS))
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, before))

	_, err = pool.Exec(t.Context(), `alter table approvals drop constraint approvals_intent`) // requests and intents alone matter here
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `do $$ declare c text; begin
  for c in select conname from pg_constraint where conrelid = 'intents'::regclass and contype = 'f' loop
    execute format('alter table intents drop constraint %I', c);
  end loop;
end $$`)
	require.NoError(t, err)
	for i, canonical := range []string{`{"actions":[{"target":{"record_id":"r-ü","system":"crm"}}]}`, `{"actions":[]}`} {
		_, err = pool.Exec(t.Context(), `with i as (
  insert into intents (tenant_id, run_id, intent_hash, revision, canonical, action_type)
  select 'demo', id, sha256(text), 1, text, 'a' from (select $1::uuid as id, convert_to($2, 'UTF8') as text) t
  returning run_id, intent_hash
) insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, decide_by, execute_within)
select 'demo', run_id, intent_hash, run_id, 'a', '{lead}', '[]', 'c', now(), '1 hour' from i`,
			[]string{"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"}[i], canonical)
		require.NoError(t, err)
	}
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, migrations.FS))
	var targets []string
	require.NoError(t, pool.QueryRow(t.Context(),
		`select array_agg(target_system || ' ' || target_record order by approval_id) from approvals`).Scan(&targets))
	require.Equal(t, []string{"crm r-ü", " "}, targets)
}
