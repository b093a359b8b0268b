package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeBinaries lays a version's directory with programs that do nothing.
func fakeBinaries(t *testing.T, root, version string) string {
	t.Helper()
	dir := filepath.Join(root, version, "bin")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return dir
}

func TestFindingBinaries(t *testing.T) {
	ctx := t.Context()
	setup := func(t *testing.T) (root, pattern string) {
		t.Setenv("PATH", "")
		t.Setenv(binDirEnv, "")
		root = t.TempDir()
		return root, filepath.Join(root, "*", "bin")
	}

	t.Run("NewestVersionWinsByNumber", func(t *testing.T) {
		root, pattern := setup(t)
		fakeBinaries(t, root, "9")
		want := fakeBinaries(t, root, "15")
		require.NoError(t, os.MkdirAll(filepath.Join(root, "17", "bin"), 0o755), "a client-only installation")
		got, err := (&ServerConfig{}).binaries(ctx, pattern)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})

	t.Run("PathIsSearchedLast", func(t *testing.T) {
		root, pattern := setup(t)
		want := fakeBinaries(t, filepath.Join(root, "opt"), "x")
		t.Setenv("PATH", want)
		got, err := (&ServerConfig{}).binaries(ctx, pattern)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})

	t.Run("AbsenceSaysWhatToInstall", func(t *testing.T) {
		_, pattern := setup(t)
		_, err := (&ServerConfig{}).binaries(ctx, pattern)
		require.ErrorContains(t, err, "apt-get install postgresql")
	})

	t.Run("FetchIsAskedOnlyWhenNothingIsFound", func(t *testing.T) {
		root, pattern := setup(t)
		fetched := 0
		cfg := &ServerConfig{Fetch: func(context.Context) (string, error) { fetched++; return "/fetched", nil }}
		got, err := cfg.binaries(ctx, pattern)
		require.NoError(t, err)
		require.Equal(t, "/fetched", got)
		fakeBinaries(t, root, "15")
		_, err = cfg.binaries(ctx, pattern)
		require.NoError(t, err)
		require.Equal(t, 1, fetched)
	})

	t.Run("FailedFetchStillSaysWhatToInstall", func(t *testing.T) {
		_, pattern := setup(t)
		cfg := &ServerConfig{Fetch: func(context.Context) (string, error) { return "", errors.New("no network") }}
		_, err := cfg.binaries(ctx, pattern)
		require.ErrorContains(t, err, "no network")
		require.ErrorContains(t, err, "apt-get install postgresql")
	})

	t.Run("FetchedBinariesAreNotFetchedAgain", func(t *testing.T) {
		want := fakeBinaries(t, t.TempDir(), "cache")
		got, err := FetchBinaries(filepath.Dir(want))(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestAccount(t *testing.T) {
	t.Parallel()

	t.Run("OnlyRootNeedsAnother", func(t *testing.T) {
		t.Parallel()
		ours, err := unprivileged(1000)
		require.NoError(t, err)
		require.Nil(t, ours.credential())
		other, err := unprivileged(0)
		require.NoError(t, err)
		require.NotZero(t, other.credential().Uid)
	})

	t.Run("OwnDirectoryIsUsedAsItIs", func(t *testing.T) {
		t.Parallel()
		wanted := filepath.Join(t.TempDir(), "closed", "pg")
		require.NoError(t, os.Mkdir(filepath.Dir(wanted), 0o700))
		got, err := account{}.home(wanted)
		require.NoError(t, err)
		require.Equal(t, wanted, got)
	})

	t.Run("UnreachableDirectoryGetsALastingStandIn", func(t *testing.T) {
		t.Parallel()
		wanted := filepath.Join(t.TempDir(), "closed", "pg")
		require.NoError(t, os.Mkdir(filepath.Dir(wanted), 0o700))
		other := account{other: true, name: "postgres"}
		got, err := other.home(wanted)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(got)) })
		require.True(t, strings.HasPrefix(got, "/var/tmp/holdpoint-"), got)
		require.True(t, passable(got))

		require.NoError(t, os.Mkdir(filepath.Join(got, dataName), 0o700))
		require.NoError(t, os.Chmod(filepath.Dir(wanted), 0o755))
		again, err := other.home(wanted)
		require.NoError(t, err)
		require.Equal(t, got, again, "data that lies in the stand-in stays in use when the wanted place opens up")
	})

	t.Run("DataThatBecameUnreachableIsNotReplacedByAnEmptyDatabase", func(t *testing.T) {
		t.Parallel()
		wanted := filepath.Join(t.TempDir(), "closed", "pg")
		require.NoError(t, os.MkdirAll(filepath.Join(wanted, dataName), 0o755))
		require.NoError(t, os.Chmod(filepath.Dir(wanted), 0o700))
		_, err := account{other: true, name: "postgres"}.home(wanted)
		require.ErrorContains(t, err, "can no longer reach the data")
	})

	t.Run("ForeignStandInIsRefused", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink("/", link))
		require.ErrorContains(t, ownedByUs(link), "remove it or choose another data directory")
	})
}

func TestServerLog(t *testing.T) {
	t.Parallel()
	var passedOn bytes.Buffer
	log := &serverLog{logger: slog.New(slog.NewTextHandler(&passedOn, nil))}

	t.Run("WholeLinesArePassedOnAndRoutineStaysOut", func(t *testing.T) {
		for _, piece := range []string{"LOG:  checkpoint\nFATAL:  out of ", "paper\nWARN"} {
			_, err := log.Write([]byte(piece))
			require.NoError(t, err)
		}
		require.Contains(t, passedOn.String(), "FATAL:  out of paper")
		require.NotContains(t, passedOn.String(), "checkpoint")
		require.NotContains(t, passedOn.String(), "WARN\n")
	})

	t.Run("TailIsBounded", func(t *testing.T) {
		_, err := log.Write(bytes.Repeat([]byte("x"), 3*logTail))
		require.NoError(t, err)
		_, err = log.Write([]byte("the end"))
		require.NoError(t, err)
		require.Len(t, log.tail(), logTail)
		require.True(t, log.contains("the end"))
	})
}

// A statement must give up on a lock before the statement itself is given up, and that before the transaction is.
func TestInnerLimitsAreShorter(t *testing.T) {
	t.Parallel()
	require.Less(t, DefaultLockTimeout, DefaultStatementTimeout)
	require.Less(t, DefaultStatementTimeout, DefaultIdleInTransactionTimeout)
}
