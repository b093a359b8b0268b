package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockData(t *testing.T) {
	t.Parallel()

	t.Run("KeepsOthersOutAndNamesWhoHasIt", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		held, err := lockData(dir)
		require.NoError(t, err)
		_, err = lockData(dir)
		require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
		require.NoError(t, held.release())
		next, err := lockData(dir)
		require.NoError(t, err)
		require.False(t, next.killed)
		require.NoError(t, next.release())
	})

	t.Run("KnowsThatTheLastOneWasKilled", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		held, err := lockData(dir)
		require.NoError(t, err)
		require.NoError(t, syscall.Flock(int(held.file.Fd()), syscall.LOCK_UN)) // as the kernel does
		require.NoError(t, held.file.Close())
		next, err := lockData(dir)
		require.NoError(t, err)
		require.True(t, next.killed)
		require.NoError(t, next.release())
	})
}

func TestAwaitPorts(t *testing.T) {
	t.Setenv("HOLDPOINT_DATABASE_URL", "")
	taken := func(t *testing.T) (net.Listener, int) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		return l, l.Addr().(*net.TCPAddr).Port
	}

	t.Run("NamesEveryPortThatIsTakenAndItsFlag", func(t *testing.T) {
		_, one := taken(t)
		_, two := taken(t)
		err := awaitPorts(t.Context(), upFlags{intakePort: one, opsPort: two}, 0)
		require.ErrorContains(t, err, "port "+strconv.Itoa(one)+" is taken")
		require.ErrorContains(t, err, "--intake-port")
		require.ErrorContains(t, err, "port "+strconv.Itoa(two)+" is taken")
		require.ErrorContains(t, err, "--ops-port")
	})

	t.Run("FindsTwoFlagsWithOnePort", func(t *testing.T) {
		l, one := taken(t)
		require.NoError(t, l.Close())
		require.ErrorContains(t, awaitPorts(t.Context(), upFlags{natsPort: one, sandboxPort: one}, 0), "--sandbox-port")
	})

	t.Run("AGivenDatabaseNeedsNoPort", func(t *testing.T) {
		_, one := taken(t)
		require.ErrorContains(t, awaitPorts(t.Context(), upFlags{postgresPort: one}, 0), "--postgres-port")
		t.Setenv("HOLDPOINT_DATABASE_URL", "postgres://elsewhere")
		require.NoError(t, awaitPorts(t.Context(), upFlags{postgresPort: one}, 0))
	})

	t.Run("WaitsForAPortThatIsBeingGivenBack", func(t *testing.T) {
		l, one := taken(t)
		waiting := make(chan error, 1)
		go func() { waiting <- awaitPorts(context.Background(), upFlags{natsPort: one}, time.Minute) }()
		require.NoError(t, l.Close())
		require.NoError(t, <-waiting)
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		_, one := taken(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, awaitPorts(ctx, upFlags{natsPort: one}, time.Minute), context.Canceled)
	})
}

func TestDataDir(t *testing.T) {
	t.Parallel()

	t.Run("EphemeralIsGoneAfterwards", func(t *testing.T) {
		t.Parallel()
		dir, remove, err := dataDir(upFlags{ephemeral: true})
		require.NoError(t, err)
		require.DirExists(t, dir)
		remove()
		require.NoDirExists(t, dir)
	})

	t.Run("GivenIsMadeAndKept", func(t *testing.T) {
		t.Parallel()
		wanted := t.TempDir() + "/new/data"
		dir, remove, err := dataDir(upFlags{data: wanted})
		require.NoError(t, err)
		require.Equal(t, wanted, dir)
		remove()
		require.DirExists(t, dir)
	})
}
