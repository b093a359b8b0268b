package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// sharedDir is a directory that the account which runs Postgres can reach; t.TempDir's parents are closed to others.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "holdpoint-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, cfg postgres.ServerConfig) *postgres.Server {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	server, err := postgres.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// one reads a single value of a single row.
func one[T any](t *testing.T, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, query string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRow(t.Context(), query, args...).Scan(&value))
	return value
}

func TestDurableServer(t *testing.T) {
	t.Parallel()
	dir := sharedDir(t)
	ctx := t.Context()
	first, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: dir, Durable: true})
	require.NoError(t, err)
	conn := connect(t, first.URL())

	t.Run("KeepsEveryCommit", func(t *testing.T) {
		for setting, want := range map[string]string{
			"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "127.0.0.1",
			"shared_buffers": "256MB", "max_wal_size": "2GB", "TimeZone": "UTC", "server_encoding": "UTF8",
			"lc_collate": "C", "idle_in_transaction_session_timeout": "30s", "wal_compression": "lz4",
		} {
			require.Equal(t, want, one[string](t, conn, "SELECT current_setting($1)", setting), setting)
		}
	})

	t.Run("PasswordIsNeededAndKeptForUsAlone", func(t *testing.T) {
		u, err := url.Parse(first.URL())
		require.NoError(t, err)
		u.User = url.UserPassword(u.User.Username(), "guess")
		_, err = pgx.Connect(ctx, u.String())
		require.ErrorContains(t, err, "28P01")
		info, err := os.Stat(filepath.Join(dir, "superuser.password"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		require.NoFileExists(t, filepath.Join(dir, "initdb.password"))
	})

	t.Run("SecondServerOnTheSameDataIsRefused", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: dir, Durable: true})
		require.ErrorContains(t, err, "lock file")
	})

	t.Run("RestartFindsTheSameDataUnderTheSamePassword", func(t *testing.T) {
		_, err := conn.Exec(ctx, "CREATE TABLE kept AS SELECT 7 AS n")
		require.NoError(t, err)
		require.NoError(t, first.Stop(ctx))
		second := start(t, postgres.ServerConfig{DataDir: dir, Durable: true})
		require.Equal(t, 7, one[int](t, connect(t, second.URL()), "SELECT n FROM kept"))
	})

	t.Run("LostPasswordFileIsToldAndNothingIsStartedEmpty", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(dir, "superuser.password")))
		_, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: dir, Durable: true})
		require.ErrorContains(t, err, "restore that file")
	})
}

func TestServerStart(t *testing.T) {
	t.Parallel()

	t.Run("TakenPortIsTold", func(t *testing.T) {
		t.Parallel()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		port := taken.Addr().(*net.TCPAddr).Port
		_, err = postgres.Start(t.Context(), postgres.ServerConfig{DataDir: sharedDir(t), Port: port})
		require.ErrorContains(t, err, "Address already in use")
	})

	t.Run("HalfMadeDataDirectoryIsMadeAnew", func(t *testing.T) {
		t.Parallel()
		dir := sharedDir(t)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.making", "base"), 0o700))
		server := start(t, postgres.ServerConfig{DataDir: dir})
		require.Equal(t, "holdpoint", one[string](t, connect(t, server.URL()), "SELECT current_database()"))
		require.NoDirExists(t, filepath.Join(dir, "data.making"))
	})

	t.Run("SettingsOfTheCallerWin", func(t *testing.T) {
		t.Parallel()
		server := start(t, postgres.ServerConfig{
			DataDir: sharedDir(t), Settings: map[string]string{"max_connections": "17"},
		})
		require.Equal(t, "17", one[string](t, connect(t, server.URL()), "SHOW max_connections"))
	})

	t.Run("WrongSettingIsToldInTheServersWords", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Start(t.Context(), postgres.ServerConfig{
			DataDir: sharedDir(t), Settings: map[string]string{"max_conections": "17"},
		})
		require.ErrorContains(t, err, "unrecognized configuration parameter")
	})

	t.Run("IncompleteConfigurationIsRefusedWithAllComplaints", func(t *testing.T) {
		t.Parallel()
		_, err := postgres.Start(t.Context(), postgres.ServerConfig{Port: -1})
		require.ErrorContains(t, err, "DataDir is empty")
		require.ErrorContains(t, err, "port -1")
	})

	t.Run("CancelledStartLeavesNoServer", func(t *testing.T) {
		t.Parallel()
		dir := sharedDir(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: dir})
		require.ErrorIs(t, err, context.Canceled)
		require.NoFileExists(t, filepath.Join(dir, "data", "postmaster.pid"))
	})
}

// launch runs this binary as a process that owns a server (see TestMain), optionally from another path and as another
// user.
func launch(
	t *testing.T, binary, dataDir string, attr *syscall.SysProcAttr,
) (cmd *exec.Cmd, url string, pid int, stdin io.Closer) {
	t.Helper()
	cmd = exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), serverProcessEnv+"="+dataDir)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, err = fmt.Fscan(out, &url, &pid)
	require.NoError(t, err)
	return cmd, url, pid, in
}

func TestServerProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)

	t.Run("KilledParentTakesItsServerAlongAndTheNextStartRecovers", func(t *testing.T) {
		t.Parallel()
		dir := sharedDir(t)
		parent, url, pid, _ := launch(t, self, dir, nil)
		_, err := connect(t, url).Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n")
		require.NoError(t, err)
		require.NoError(t, parent.Process.Kill())
		_ = parent.Wait() // Reports the kill.

		server := start(t, postgres.ServerConfig{DataDir: dir, Durable: true})
		require.NotEqual(t, pid, server.PID())
		require.Equal(t, 7, one[int](t, connect(t, server.URL()), "SELECT n FROM kept"))
	})

	t.Run("OrdinaryUserRunsItsOwnServer", func(t *testing.T) {
		t.Parallel()
		dir := sharedDir(t)
		attr, binary := &syscall.SysProcAttr{}, self
		if os.Geteuid() == 0 {
			attr.Credential = nobody(t)
			binary = filepath.Join(dir, "binary")
			copyFile(t, self, binary)
			require.NoError(t, os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)))
		}
		process, url, _, stdin := launch(t, binary, filepath.Join(dir, "pg"), attr)
		require.Equal(t, 1, one[int](t, connect(t, url), "SELECT 1"))
		require.NoError(t, stdin.Close())
		require.NoError(t, process.Wait(), "it stops its server and ends well")
	})
}

func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(u.Gid)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o755))
}

func TestBinaries(t *testing.T) {
	ctx := t.Context()

	t.Run("GivenDirectoryWithoutBinariesIsRefused", func(t *testing.T) {
		_, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: t.TempDir(), BinDir: "/nowhere"})
		require.ErrorContains(t, err, "/nowhere holds no initdb and postgres")
	})

	t.Run("EnvironmentNamesTheDirectory", func(t *testing.T) {
		t.Setenv("HOLDPOINT_POSTGRES_BIN", "/elsewhere")
		_, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: t.TempDir()})
		require.ErrorContains(t, err, "/elsewhere")
	})
}
