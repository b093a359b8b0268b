package postgres_test

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	server := start(t, postgres.ServerConfig{DataDir: sharedDir(t)})
	files := func(second string) fstest.MapFS {
		return fstest.MapFS{
			"00001_first.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n int);\n-- +goose Down\nDROP TABLE a;\n")},
			"00002_next.sql":  {Data: []byte(second)},
		}
	}
	const next = "-- +goose Up\nINSERT INTO a VALUES (1);\n-- +goose Down\nDELETE FROM a;\n"
	setup := func(t *testing.T) string {
		t.Helper()
		name := "m" + t.Name()[len("TestMigrate/"):]
		_, err := connect(t, server.URL()).Exec(t.Context(), `CREATE DATABASE "`+name+`"`)
		require.NoError(t, err)
		return server.URLFor(name)
	}

	t.Run("UpDownUp", func(t *testing.T) {
		url := setup(t)
		conn := connect(t, url)
		for range 2 {
			require.NoError(t, postgres.Migrate(t.Context(), url, files(next)))
			require.Equal(t, 1, one[int](t, conn, "SELECT count(*) FROM a"))
			require.NoError(t, postgres.MigrateDown(t.Context(), url, files(next)))
			require.True(t, one[bool](t, conn, "SELECT to_regclass('a') IS NULL"))
		}
	})

	t.Run("RacingReplicasApplyEachOnce", func(t *testing.T) {
		url := setup(t)
		var replicas errgroup.Group
		for range 6 {
			replicas.Go(func() error { return postgres.Migrate(t.Context(), url, files(next)) })
		}
		require.NoError(t, replicas.Wait())
		require.Equal(t, 1, one[int](t, connect(t, url), "SELECT count(*) FROM a"))
	})

	t.Run("BrokenMigrationIsNamedAndLeavesTheOneBefore", func(t *testing.T) {
		url := setup(t)
		err := postgres.Migrate(t.Context(), url, files("-- +goose Up\nINSERT INTO missing VALUES (1);\n"))
		require.ErrorContains(t, err, "00002_next.sql")
		require.NoError(t, postgres.Migrate(t.Context(), url, files(next)), "repaired, it goes on from there")
	})

	t.Run("WaitForAnotherReplicaEndsWithTheContext", func(t *testing.T) {
		url := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		holder := connect(t, url)
		_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(7525352680998267246)")
		require.NoError(t, err)
		result := make(chan error)
		go func() { result <- postgres.Migrate(ctx, url, files(next)) }()
		require.Eventually(t, func() bool {
			return one[int](t, holder, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
		}, waitLimit, pollEvery)
		cancel()
		require.ErrorContains(t, <-result, "wait for another replica's migration")
	})
}
