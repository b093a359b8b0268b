package ledgerbench_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgerbench"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

func scratchDatabases(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from pg_database where datname like 'holdpoint_measure_%'`).Scan(&n))
	return n
}

func TestMeasure(t *testing.T) {
	db := postgrestest.New(t)

	t.Run("TheBestOfAllConnectionCountsIsTheResult", func(t *testing.T) {
		result, err := ledgerbench.Measure(t.Context(), db.URL, ledgerbench.Options{Batch: 16, Connections: []int{1, 2}, Duration: 50 * time.Millisecond})
		require.NoError(t, err)
		require.Len(t, result.Measured, 2)
		best := result.Measured[0]
		if result.Measured[1].RunsPerSecond > best.RunsPerSecond {
			best = result.Measured[1]
		}
		require.Equal(t, best.RunsPerSecond, result.RunsPerSecond)
		require.Equal(t, best.Connections, result.Connections)
		require.Positive(t, result.RunsPerSecond)
		require.Zero(t, best.Runs%16, "whole batches count")
		require.Zero(t, scratchDatabases(t, db.URL))
	})

	t.Run("RunsThatPeopleApproveAreMeasuredToo", func(t *testing.T) {
		result, err := ledgerbench.Measure(t.Context(), db.URL,
			ledgerbench.Options{Batch: 16, Connections: []int{2}, Duration: 50 * time.Millisecond, Review: true})
		require.NoError(t, err)
		require.Positive(t, result.RunsPerSecond)
		require.Zero(t, result.Measured[0].Runs%16, "whole batches count")
	})

	t.Run("ACancelledMeasurementLeavesNoDatabase", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := ledgerbench.Measure(ctx, db.URL, ledgerbench.Options{Duration: time.Hour})
		require.Error(t, err)
		require.Zero(t, scratchDatabases(t, db.URL))
	})

	t.Run("NonsenseIsRefusedWithAllComplaints", func(t *testing.T) {
		_, err := ledgerbench.Measure(t.Context(), db.URL, ledgerbench.Options{Batch: -1, Duration: -1, Connections: []int{0}})
		require.ErrorContains(t, err, "a batch of -1")
		require.ErrorContains(t, err, "0 connections")
		_, err = ledgerbench.Measure(t.Context(), "nowhere", ledgerbench.Options{})
		require.ErrorContains(t, err, "postgres://")
	})
}
