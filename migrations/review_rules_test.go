package migrations_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// TestVotesThatAreCastAlreadyKeepTheirRoles: 00014 reads from the authority of each vote by what roles it counts (A16).
func TestVotesThatAreCastAlreadyKeepTheirRoles(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	pool := db.Pool("")
	before := fstest.MapFS{}
	entries, err := migrations.FS.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.Name() < "00014" {
			data, err := migrations.FS.ReadFile(entry.Name())
			require.NoError(t, err)
			before[entry.Name()] = &fstest.MapFile{Data: data}
		}
	}
	require.NoError(t, postgres.MigrateDown(t.Context(), db.URL, migrations.FS))
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, before))

	_, err = pool.Exec(t.Context(), `alter table reviews drop constraint reviews_approval`) // the votes alone matter here
	require.NoError(t, err)
	for ordinal, authority := range []string{`{"roles": ["lead", "operator"]}`, `{"roles": null}`, `{}`} {
		_, err = pool.Exec(t.Context(), `insert into reviews (tenant_id, run_id, approval_id, ordinal, command_id, decision, issuer, subject,
  reviewer_id, authority, reason, channel, intent_hash) values ('demo', $1, $1, $2::int, gen_random_uuid(), 'approve', 'i', 's' || $2::int,
  'r', $3::jsonb, '', 'api', '')`, "00000000-0000-0000-0000-000000000001", ordinal, authority)
		require.NoError(t, err)
	}
	require.NoError(t, postgres.Migrate(t.Context(), db.URL, migrations.FS))
	var roles []string
	require.NoError(t, pool.QueryRow(t.Context(), `select array_agg(array_to_string(roles, '+') order by ordinal) from reviews`).Scan(&roles))
	require.Equal(t, []string{"lead+operator", "", ""}, roles)
}
