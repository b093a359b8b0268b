package ledger_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestReaders is B7 in the database: a tenant's login reads that tenant's rows, through views, and nothing else.
func TestReaders(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	_, err := b.Intake.ActivateRules(t.Context(), "acme", ledgertest.Source, 1)
	require.NoError(t, err)
	mine, others := ledgertest.Proposal("mine"), ledgertest.Proposal("others")
	others.TenantID = "acme"
	b.Claim(mine, others)
	b.Decide(config.RouteAuto, mine)
	database, err := url.Parse(b.DB.URL)
	require.NoError(t, err)
	login := func(name string, tenants ...string) *pgx.Conn {
		t.Helper()
		name += "_" + b.Text(`select current_database()`) // logins belong to the whole server
		b.Exec(`do $$ begin execute 'create role "` + name + `" login password ''x'' in role holdpoint_reader'; end $$`)
		t.Cleanup(func() {
			_, err := b.Owner.Exec(context.WithoutCancel(t.Context()), `drop owned by "`+name+`"; drop role "`+name+`"`)
			require.NoError(t, err)
		})
		for _, tenant := range tenants {
			b.Exec(`insert into tenant_logins (login, tenant_id) values ($1, $2)`, name, tenant)
		}
		address := *database
		address.User = url.UserPassword(name, "x")
		conn, err := pgx.Connect(t.Context(), address.String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	keys := func(conn *pgx.Conn, query string) []string {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		require.NoError(t, err)
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return found
	}
	demo, acme, nobody := login("demo_reader", ledgertest.Tenant), login("acme_reader", "acme"), login("no_reader")

	const all = `select idempotency_key from tenant_runs order by 1`
	require.Equal(t, []string{"mine"}, keys(demo, all))
	require.Equal(t, []string{"others"}, keys(acme, all))
	require.Empty(t, keys(nobody, all))
	for _, view := range []string{"tenant_decisions", "tenant_effects", "tenant_audit"} {
		require.NotEmpty(t, keys(demo, `select tenant_id from `+view), view)
		require.NotContains(t, keys(demo, `select tenant_id from `+view), "acme", view)
		require.NotContains(t, keys(acme, `select tenant_id from `+view), ledgertest.Tenant, view)
	}
	require.Empty(t, keys(demo, `select approval_id::text from tenant_approvals`))

	// A function of the reader's own must not see a row before the tenant was checked.
	_, err = demo.Exec(t.Context(), `create function pg_temp.leak(text) returns boolean language plpgsql cost 0.0000001 as
$$ begin raise notice 'seen %', $1; if $1 = 'others' then raise 'leaked'; end if; return true; end $$`)
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, keys(demo, `select idempotency_key from tenant_runs where pg_temp.leak(idempotency_key)`))

	for _, forbidden := range []string{`select 1 from runs`, `select 1 from run_payloads`, `select 1 from intents`, `select 1 from effects`,
		`select 1 from callbacks`, `select 1 from event_log`, `select 1 from tenant_logins`, `insert into tenant_logins values ('x', 'acme')`,
		`update tenant_runs set state = 'completed'`, `delete from tenant_runs`, `set role holdpoint_intake`,
		`set session authorization "` + b.Text(`select current_user`) + `"`, `select maintain_partitions(7, 14)`} {
		_, err := demo.Exec(t.Context(), forbidden)
		require.ErrorContains(t, err, "permission denied", forbidden)
	}
}
