package policy

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

var record = flag.Bool("record", false,
	"write the recorded decisions anew, to be looked through before they are committed")

const recorded = "testdata/decisions.txt"

// A change of the engine, or of the library it is built on, that changes a decision is seen here and nowhere else: some
// 800 decisions are compared with what they were (POL-04). Whoever changes one on purpose changes EngineVersion with
// it, runs go test ./pkg/policy -run Recorded -record, and looks through the difference.
func TestRecordedDecisionsStand(t *testing.T) {
	t.Parallel()
	lines := []string{"engine " + EngineVersion}
	for _, u := range usages() {
		when := strings.ReplaceAll(u.when, "$", "proposed_change.f")
		for _, condition := range []string{when, "!(" + when + ")"} {
			auto, reject := fieldRule(t, config.RouteAuto, condition), fieldRule(t, config.RouteReject, condition)
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				a, r := auto(kinds[kind]), reject(kinds[kind])
				lines = append(lines, fmt.Sprintf("%s | %s | auto: %s %s | reject: %s %s", condition, kind, a.Route,
					a.Reasons[0].Code,
					r.Route, r.Reasons[0].Code))
			}
		}
	}
	report, err := RunTests(exampleWith(t, nil))
	require.NoError(t, err)
	for _, result := range report.Results {
		lines = append(lines, fmt.Sprintf("example %s | %s %s | inputs %s", result.Test.Name, result.Decision.Route,
			strings.Join(result.Decision.Codes(), " "), result.Decision.InputsHash))
	}
	text := strings.Join(lines, "\n") + "\n"
	if *record {
		require.NoError(t, os.WriteFile(recorded, []byte(text), 0o600))
	}
	was, err := os.ReadFile(recorded)
	require.NoError(t, err)
	require.Equal(t, string(was), text,
		"where this is meant: go test ./pkg/policy -run Recorded -record, and look through the difference")
}
