package crash

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

func TestReport(t *testing.T) {
	t.Parallel()
	setup := func() *suite {
		site := fault.Site{Service: "policy", Name: "decide", Kind: fault.KindCommit}
		return &suite{sites: []fault.Site{site}, cases: autoFlow.casesOf([]fault.Site{site}), results: map[string]string{},
			statuses: map[string]int{"signal: killed": 2}, opts: options{flow: autoFlow, Options: Options{Short: true, Seed: 42}}}
	}

	t.Run("JSONHasTheNamesThatOtherToolsRead", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "report.json")
		var out bytes.Buffer
		found := findings{duplicateWrites: 1, lostRuns: 2, unauthorisedEffects: 3}
		r := setup().report(found, facts{runs: make([]runFact, 4)}, []string{"policy/decide"})
		require.NoError(t, write(&out, r, file))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var read map[string]any
		require.NoError(t, json.Unmarshal(content, &read))
		for name, want := range map[string]any{
			"sites": 1.0, "runs": 4.0, "duplicate_writes": 1.0, "lost_runs": 2.0, "unauthorised_effects": 3.0,
			"unreached_sites": 1.0, "unreached": []any{"policy/decide"}, "broken": []any{}, "seed": 42.0,
			"wait_statuses": map[string]any{"signal: killed": 2.0},
		} {
			require.Equal(t, want, read[name], name)
		}
		require.Contains(t, out.String(), "--seed 42")
		require.Contains(t, out.String(), "UNREACHED     policy/decide")
	})

	t.Run("TableCountsWhatWentWell", func(t *testing.T) {
		t.Parallel()
		s := setup()
		s.results[s.cases[0].String()] = "it went wrong"
		row := s.report(findings{}, facts{}, nil).BySite[0]
		require.Equal(t, "0/1", row.Sides[s.cases[0].side].String())
		require.Equal(t, "1/1", row.Sides[s.cases[1].side].String())
		require.Equal(t, "-", row.Sides[accepted].String())
	})

	for name, c := range map[string]struct {
		found   findings
		missing []string
		held    bool
	}{
		"NothingFoundIsHeld":          {findings{}, nil, true},
		"UnreachedSiteIsNotHeld":      {findings{}, []string{"policy/decide"}, false},
		"DuplicateIsNotHeld":          {findings{duplicateWrites: 1}, nil, false},
		"LostRunIsNotHeld":            {findings{lostRuns: 1}, nil, false},
		"UnauthorisedEffectIsNotHeld": {findings{unauthorisedEffects: 1}, nil, false},
		"BrokenPromiseIsNotHeld":      {findings{broken: []string{"something"}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.held, setup().report(c.found, facts{}, c.missing).Held())
		})
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()

	t.Run("SeedIsDrawnWhereNoneIsGiven", func(t *testing.T) {
		t.Parallel()
		o, err := parse([]string{"--flow", "auto", "--short"}, io.Discard)
		require.NoError(t, err)
		require.NotZero(t, o.Seed)
		o, err = parse([]string{"--seed", "9"}, io.Discard)
		require.NoError(t, err)
		require.EqualValues(t, 9, o.Seed)
	})

	for name, args := range map[string][]string{
		"UnknownFlow": {"--flow", "manual"},
		"BadPattern":  {"--only", "("},
		"UnknownFlag": {"--nonsense"},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 2, Command(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}))
		})
	}
}
