package postgrestest_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// victimEnv turns this test binary into one that makes a database, prints where, and waits to be killed.
const victimEnv = "HOLDPOINT_TEST_VICTIM"

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("DatabasesShareTheSchemaAndNoRows", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		one, other := postgrestest.New(t).Pool(""), postgrestest.New(t).Pool("")
		_, err := one.Exec(ctx, "CREATE TABLE mine ()")
		require.NoError(t, err)
		_, err = other.Exec(ctx, "SELECT FROM mine")
		require.ErrorContains(t, err, "42P01")
		_, err = other.Exec(ctx, "SELECT FROM runs")
		require.NoError(t, err)
	})

	t.Run("PoolWorksAsItsRole", func(t *testing.T) {
		t.Parallel()
		var user string
		pool := postgrestest.New(t).Pool("holdpoint_intake")
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_user").Scan(&user))
		require.Equal(t, "holdpoint_intake", user)
	})
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var gone string
	t.Run("Inner", func(t *testing.T) {
		db := postgrestest.New(t)
		_, err := pgx.Connect(context.Background(), db.URL) // A leaked connection does not keep the database.
		require.NoError(t, err)
		gone = db.URL
	})
	_, err := pgx.Connect(t.Context(), gone)
	require.ErrorContains(t, err, "3D000")
}

// TestVictim is the other half of TestKilledBinaryLeavesNothing.
func TestVictim(t *testing.T) {
	if os.Getenv(victimEnv) == "" {
		return
	}
	pool := postgrestest.New(t).Pool("")
	var dir, port string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir))
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW port").Scan(&port))
	fmt.Println("\n" + dir + " " + port)
	_, _ = io.ReadAll(os.Stdin) // Until killed.
}

func TestKilledBinaryLeavesNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	victim := exec.Command(self, "-test.run=^TestVictim$")
	victim.Env = append(os.Environ(), victimEnv+"=1", "HOLDPOINT_TEST_POSTGRES_URL=")
	_, err = victim.StdinPipe()
	require.NoError(t, err)
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	var dir, port string
	_, err = fmt.Fscan(out, &dir, &port)
	require.NoError(t, err)
	require.DirExists(t, dir)

	require.NoError(t, victim.Process.Signal(syscall.SIGKILL))
	_ = victim.Wait() // Reports the kill.
	address := url.URL{
		Scheme: "postgres", User: url.User("holdpoint_admin"), Host: "127.0.0.1:" + port, Path: "/postgres",
	}
	require.Eventually(t, func() bool {
		_, statErr := os.Stat(dir)
		conn, err := pgx.Connect(t.Context(), address.String())
		if err == nil {
			conn.Close(t.Context())
		}
		return os.IsNotExist(statErr) && err != nil
	}, 30*time.Second, 20*time.Millisecond)
}
