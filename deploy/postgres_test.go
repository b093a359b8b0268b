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

// onlyHere are the settings that `holdpoint up` has no use for: it listens on loopback, and its log is nobody's.
var onlyHere = []string{"listen_addresses", "log_lock_waits", "log_min_duration_statement"}

func TestPostgres(t *testing.T) {
	t.Parallel()
	declared := readPostgres(t)
	dir := passableDir(t)
	embedded := startPostgres(t, dir, nil)
	underUp := shown(t, embedded, declared)
	require.NoError(t, embedded.Stop(t.Context()))

	own := map[string]string{}
	for name, value := range declared {
		own[name] = value
	}
	own["listen_addresses"] = "127.0.0.1"
	s := startPostgres(t, dir, own) // a name or a value that Postgres does not know ends the start
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })

	t.Run("HasTheSettingsOfUp", func(t *testing.T) {
		here := shown(t, s, declared)
		for _, name := range onlyHere {
			require.Contains(t, declared, name)
			delete(here, name)
			delete(underUp, name)
		}
		require.Equal(t, underUp, here)
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
			for _, role := range append([]string{"operator"}, names()...) {
				pool, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: at(login), Role: "holdpoint_" + role})
				if login != role {
					require.ErrorContains(t, err, "role", "%s took on the role of %s", login, role)
					continue
				}
				require.NoError(t, err)
				_, err = pool.Exec(t.Context(), "create table mine (id int)")
				require.ErrorContains(t, err, "permission denied", login)
				pool.Close()
			}
		}
		_, err := postgres.Open(t.Context(), postgres.PoolConfig{URL: strings.Replace(at("intake"), "local-intake", "guessed", 1)})
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

func startPostgres(t *testing.T, dir string, settings map[string]string) *postgres.Server {
	t.Helper()
	s, err := postgres.Start(t.Context(), postgres.ServerConfig{DataDir: dir, Durable: true, Settings: settings, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

// shown is what the server says of the named settings, in its own spelling.
func shown(t *testing.T, s *postgres.Server, settings map[string]string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	values := map[string]string{}
	for name := range settings {
		var value string
		require.NoError(t, conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&value))
		values[name] = value
	}
	return values
}

// makeLogins runs logins.sql as the local Job does: as the administrator, with the passwords of the local Secret.
func makeLogins(t *testing.T, m *manifests, s *postgres.Server) {
	t.Helper()
	script, err := os.ReadFile("postgres/logins.sql")
	require.NoError(t, err)
	config, err := pgx.ParseConfig(s.URL())
	require.NoError(t, err)
	config.RuntimeParams["options"] = "-c holdpoint.passwords=" + m.secrets["local-servers"].StringData["postgres-logins"]
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
