package config_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// A place in a condition is found in the file, however the condition is written.
func TestPlacesOfAConditionInItsFile(t *testing.T) {
	t.Parallel()

	rule := func(t *testing.T, when string) (*config.Rule, string) {
		t.Helper()
		w := newWorld(t)
		file := "# ü\nrules:\n  - id: one\n    action: payment.refund\n    when: " + when +
			"\n    route: reject\n    reason: Why.\n"
		w.fs[demo+"policy.yaml"] = &fstest.MapFile{Data: []byte(file)}
		w.fs[demo+"policy_tests.yaml"] = &fstest.MapFile{Data: []byte("tests: []\n")}
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Tenants[0].Rules[0], file
	}

	for name, when := range map[string]string{
		"Plain":                     "a == 1 && BAD > 2 # and a comment",
		"PlainOverLines":            "a == 1\n      && b == 2\n\n      && BAD > 2",
		"SingleQuoted":              `'a == "it''s" && BAD > 2'`,
		"SingleQuotedOverLines":     "'a == ''x''\n      || BAD > 2'",
		"DoubleQuoted":              `"a == \"x\\n\" && b == 'ä' && BAD > 2"`,
		"DoubleQuotedWithCodes":     `"a == '\u00e4\x41\U0001F600\t' && BAD > 2"`,
		"DoubleQuotedOverLines":     "\"a == 1 \\\n      && b == 2\n      && BAD > 2\"",
		"Folded":                    ">-\n      a == 1\n      && b == 2\n\n      && BAD > 2",
		"FoldedWithIndentedLines":   ">-\n      a == 1\n        && b == 2\n      && BAD > 2",
		"FoldedAndKept":             ">+\n      a == 1 && BAD > 2\n\n",
		"Literal":                   "|\n      a == 1\n      && b == 2\n      && BAD > 2",
		"LiteralWithIndentedLines":  "|-\n      a == 1\n        && (b == 2\n          || BAD > 2)",
		"LiteralWithItsIndentation": "|2-\n      a == 1\n      && BAD > 2",
		"LiteralBelowEmptyLines":    "|\n\n\n      a == 1 && BAD > 2",
		"LettersOfSeveralBytes":     `"a == 'üüü😀' && BAD > 2"`,
		"SpaceAroundIt":             `"   a == 1 && BAD > 2   "`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, file := rule(t, when)
			before, _, found := strings.Cut(r.When, "BAD")
			require.True(t, found, r.When)
			line, column := 1+strings.Count(before, "\n"), len([]rune(before[strings.LastIndex(before, "\n")+1:]))

			above, _, _ := strings.Cut(file, "BAD")
			wanted := config.Position{File: demo + "policy.yaml", Line: 1 + strings.Count(above, "\n"),
				Column: 1 + len([]rune(above[strings.LastIndex(above, "\n")+1:]))}
			require.Equal(t, wanted.String(), r.At(line, column).String(), r.When)
			require.Equal(t, wanted.Column+len("BAD"), r.At(line, column+len("BAD")).Column)
		})
	}

	t.Run("TheEndIsAPlaceToo", func(t *testing.T) {
		t.Parallel()
		r, _ := rule(t, "a >")
		require.Equal(t, demo+"policy.yaml:5:14", r.At(1, 3).String())
	})

	t.Run("BeyondItOnlyTheWholeIsKnown", func(t *testing.T) {
		t.Parallel()
		r, _ := rule(t, "a > 1")
		for _, at := range [][2]int{{1, 99}, {2, 0}, {1, -1}} {
			require.Equal(t, demo+"policy.yaml:5:11", r.At(at[0], at[1]).String())
		}
		require.Equal(t, r.Pos, (&config.Rule{When: "a > 1", Pos: r.Pos}).At(1, 2), "of a rule that no file holds")
	})
}
