package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()

	t.Run("JSONHasExactlyTheAgreedMembers", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		file := filepath.Join(t.TempDir(), "report.json")
		r := s.drive()
		var printed strings.Builder
		require.NoError(t, r.write(&printed, file))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, printed.String(), string(content))
		require.Contains(t, printed.String(), "every promise held")
		var document map[string]any
		require.NoError(t, json.Unmarshal(content, &document))
		require.Equal(t, "accepted ack_ms[p50 p95 p99] completed conflicts duplicates end_to_end_ms[p50 p95 p99] errors "+
			"postgres_only_runs_per_second ratio runs_per_second sandbox[duplicate_writes missing writes]", shape(document))
		require.Nil(t, document["ratio"], "what was not measured is null")
	})

	t.Run("RatioComparesWithPostgresAlone", func(t *testing.T) {
		t.Parallel()
		r := &report{RunsPerSecond: 3000}
		r.compare(12_000, nil)
		require.InDelta(t, 0.25, *r.Ratio, 1e-9)
		require.InDelta(t, 12_000, *r.PostgresOnlyRunsPerSecond, 1e-9)
		require.Equal(t, "12000 runs/s · ratio 0.25", r.postgres)
	})

	t.Run("FailedComparisonIsSaidAndNotInvented", func(t *testing.T) {
		t.Parallel()
		r := &report{RunsPerSecond: 3000}
		r.compare(0, errors.New("no such server"))
		require.Nil(t, r.Ratio)
		require.Contains(t, r.postgres, "not measured")
	})
}

// shape lists the member names of a document in order, with those of nested objects in brackets.
func shape(document map[string]any) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(document)) {
		if inner, nested := document[name].(map[string]any); nested {
			name += "[" + shape(inner) + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
