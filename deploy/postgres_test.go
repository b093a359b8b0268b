package deploy_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// readPostgres reads postgresql.conf: names and values, without quotes and comments.
func readPostgres(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("postgres/postgresql.conf")
	require.NoError(t, err)
	settings := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if name, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), "'")
		}
	}
	return settings
}

// elsewhere are the settings that `holdpoint up` has other values for, and a session's way to find out whether Postgres
// knows them: up listens on loopback, its log is nobody's, and it takes lz4 where the build has it.
var elsewhere = map[string]string{
	"listen_addresses":           "select current_setting('listen_addresses')",
	"log_lock_waits":             "set log_lock_waits = on",
	"log_min_duration_statement": "set log_min_duration_statement = '2s'",
	"wal_compression":            "select current_setting('wal_compression')",
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	declared := readPostgres(t)
	s, err := postgres.Start(t.Context(), postgres.ServerConfig{DataDir: passableDir(t), Durable: true,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })

	t.Run("HasTheSettingsOfUp", func(t *testing.T) {
		conn := connect(t, s.URL())
		for name, value := range declared {
			if ask, ok := elsewhere[name]; ok {
				_, err := conn.Exec(t.Context(), ask)
				require.NoError(t, err)
				continue
			}
			var underUp string
			require.NoError(t, conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&underUp), name)
			require.Equal(t, underUp, value, name)
		}
	})

	t.Run("HasConnectionsForEveryReplicaAndItsSuccessor", func(t *testing.T) {
		m := readManifests(t)
		pools := 0
		for _, row := range roster.Services {
			var each int
			for _, v := range m.workloads[row.Name].container().Env {
				if v.Name == "HOLDPOINT_DATABASE_CONNECTIONS" {
					_, err := fmt.Sscan(v.Value, &each)
					require.NoError(t, err)
				}
			}
			require.Positive(t, each, row.Name)
			pools += 2 * m.workloads[row.Name].replicas() * each
		}
		var most int
		_, err := fmt.Sscan(declared["max_connections"], &most)
		require.NoError(t, err)
		require.Less(t, pools, most)
	})

	t.Run("LoginsOpenTheirOwnServiceAndNoOther", func(t *testing.T) {
		m := readManifests(t)
		addresses := m.secrets["holdpoint-database"].StringData
		at := func(login string) string { return here(t, addresses[login], s.Port) }
		makeLogins(t, m, s)
		makeLogins(t, m, s) // again, as whoever changes a password does
		require.NoError(t, postgres.Migrate(t.Context(), at("migrate"), migrations.FS))
		for login := range addresses {
			conn := connect(t, at(login))
			for _, role := range append([]string{"operator"}, names()...) {
				_, err := conn.Exec(t.Context(), "set role holdpoint_"+role)
				if login == role {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "permission denied to set role", "%s as %s", login, role)
				}
			}
			if _, err := conn.Exec(t.Context(), "reset role; create table mine (id int)"); login != "migrate" {
				require.ErrorContains(t, err, "permission denied for schema public", login)
			}
		}
		_, err := pgx.Connect(t.Context(), strings.Replace(at("intake"), "local-intake", "guessed", 1))
		require.ErrorContains(t, err, "password authentication failed")
	})
}

// passableDir is one that the account which runs Postgres under root can reach.
func passableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "holdpoint-deploytest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	return filepath.Join(dir, "postgres")
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// makeLogins runs logins.sql as the local Job does: as the administrator, with the passwords of the local Secret.
func makeLogins(t *testing.T, m *manifests, s *postgres.Server) {
	t.Helper()
	script, err := os.ReadFile("postgres/logins.sql")
	require.NoError(t, err)
	config, err := pgx.ParseConfig(s.URL())
	require.NoError(t, err)
	passwords := m.secrets["local-servers"].StringData["postgres-logins"]
	config.RuntimeParams["options"] = "-c holdpoint.passwords=" + passwords
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), string(script))
	require.NoError(t, err)
}

// here is an address of the cluster's Postgres, led to one on this machine.
func here(t *testing.T, address string, port int) string {
	t.Helper()
	require.Contains(t, address, "@postgres:5432/")
	return strings.Replace(address, "@postgres:5432/", fmt.Sprintf("@127.0.0.1:%d/", port), 1)
}

func names() []string {
	all := make([]string, len(roster.Services))
	for i, s := range roster.Services {
		all[i] = s.Name
	}
	return all
}

// bytesOf reads a quantity of Kubernetes in binary units.
func bytesOf(t *testing.T, quantity string) int64 {
	t.Helper()
	parts := regexp.MustCompile(`^(\d+)(Mi|Gi)$`).FindStringSubmatch(quantity)
	require.NotNil(t, parts, quantity)
	var n int64
	_, err := fmt.Sscan(parts[1], &n)
	require.NoError(t, err)
	return n << map[string]int{"Mi": 20, "Gi": 30}[parts[2]]
}
