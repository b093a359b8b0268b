package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The schemas of the configuration (contracts/schemas/config.*.json) are written by hand, and so is the loader. What
// the loader takes is found out by asking it: its complaints say what is allowed instead. So a setting that is new in
// one of the two fails here until the other has it, and everySetting writes it down.

func TestSchemasTakeWhatTheLoaderTakes(t *testing.T) {
	t.Parallel()
	_, err := LoadEnv(os.DirFS(everySetting), agreementEnv)
	require.NoError(t, err)
	for _, file := range agreementFiles {
		a := newAgreement(t, file)
		require.NoError(t, a.compiled.Validate(a.tree), file)
		example := readTree(t, os.DirFS("../../deploy/config/example"), file)
		require.NoError(t, a.compiled.Validate(example), file)
	}
}

// eachPlace runs a check once for every place of every file.
func eachPlace(t *testing.T, check func(t *testing.T, a *agreement, s spot)) {
	t.Helper()
	for _, file := range agreementFiles {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			a := newAgreement(t, file)
			seen := map[string]bool{}
			for _, part := range a.parts() {
				for _, s := range a.spots(part) {
					if !seen[s.where] {
						check(t, a, s)
					}
					seen[s.where] = true
				}
			}
			require.ElementsMatch(t, a.places("", a.schema), slices.Collect(maps.Keys(seen)),
				"%s/%s/%s must set what the schema describes", everySetting, agreementTenant, file)
		})
	}
}

var known = regexp.MustCompile(`^no_such_setting is not a known setting here, allowed: (.*)$`)

func TestSchemasHaveTheSettingsOfTheLoader(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(t *testing.T, a *agreement, s spot) {
		if s.schema["type"] != "object" {
			return
		}
		_, complaints := a.load(s.member("no_such_setting", "x"))
		listed := findIn(known, complaints)
		properties, closed := s.schema["properties"].(map[string]any)
		if !closed {
			require.Nil(t, listed, "%s has settings of its own at %s", a.file, s.where)
			return
		}
		require.Equal(t, false, s.schema["additionalProperties"], "%s: unknown settings pass at %s", a.file, s.where)
		require.NotNil(t, listed, "%s: the loader takes unknown settings at %s", a.file, s.where)
		require.ElementsMatch(t, strings.Split(listed[1], ", "), slices.Collect(maps.Keys(properties)),
			"%s: settings at %s", a.file, s.where)
	})
}

func findIn(wanted *regexp.Regexp, complaints []string) []string {
	for _, complaint := range complaints {
		if found := wanted.FindStringSubmatch(complaint); found != nil {
			return found
		}
	}
	return nil
}

var bounds = regexp.MustCompile(` from (\d+) to (\d+), found`)

func TestSchemasHaveTheBoundsAndClosedListsOfTheLoader(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(t *testing.T, a *agreement, s spot) {
		_, complaints := a.load(s.put("☹ no such text"))
		complaints = slices.DeleteFunc(complaints, func(c string) bool { return beyond(c) != "" })
		where := a.file + " at " + s.where
		if low, bounded := s.schema["minimum"]; bounded || s.schema["type"] == "integer" {
			found := findIn(bounds, complaints)
			require.NotNil(t, found, where)
			require.Equal(t, found[1:], []string{fmt.Sprint(low), fmt.Sprint(s.schema["maximum"])}, where)
		}
		allowed := regexp.MustCompile(`^` + s.name() + `(?:\[\d+\])?:? .*allowed: (.*)$`)
		if enum, closed := s.schema["enum"].([]any); closed {
			found := findIn(allowed, complaints)
			require.NotNil(t, found, where)
			values := []any{}
			for value := range strings.SplitSeq(found[1], ", ") {
				values = append(values, value)
			}
			require.ElementsMatch(t, values, enum, where)
			return
		}
		requireShape(t, s, where, complaints, findIn(allowed, complaints))
	})
}

// shapes are those of ids.
var shapes = []shape{slug, dotted, word, workflow, digest, header, variable, decimal, share, named, promptFile, subjectID, zone, lasting}

// requireShape compares the pattern of a text with the one that the loader names in words.
func requireShape(t *testing.T, s spot, where string, complaints, allowed []string) {
	t.Helper()
	pattern, _ := s.schema["pattern"].(string)
	for _, one := range shapes {
		if slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, " "+one.words) }) {
			shaped, _, _ := strings.Cut(pattern, `|\$`) // or else a variable of the environment
			require.Equal(t, one.pattern.String(), shaped, where)
			return
		}
	}
	require.Nil(t, allowed, "%s: the schema does not know what is allowed", where)
}

// withoutDefault are optional settings with no value of their own where they are left out.
var withoutDefault = map[string]string{
	".actions[].category":                         "nothing is sensitive",
	".actions[].limits[].count":                   "no number is bounded",
	".rules[].window":                             "nothing is held",
	".actions[].profession":                       "nobody qualified is needed",
	".tests[].uncertainty":                        "nothing is stated",
	".actions[].review.typed_reason":              "depends on the risk",
	".actions[].review.recent_sign_in":            "depends on the risk",
	".actions[].review.remind_before":             "is a quarter of decide_within",
	".connectors[].rate.burst":                    "is per_second",
	".rate_limit.burst":                           "is per_second",
	".connectors[].profile":                       "everything is declared",
	".connectors[].operations[].method":           "is needed with kind http alone",
	".connectors[].tls":                           "is needed with kind smtp alone",
	".connectors[].operations[].conditional.body": "is true or left out",
	".connectors[].operations[].key_window":       "no key is remembered",
	".connectors[].operations[].key_margin":       "a key is relied on for its whole window",
	".sources[].rules[].key.cloud_event":          "is one of the four forms of a key",
	".sources[].signature.encoding":               "is needed with scheme hmac alone",
	".connectors[].webhook.signature.encoding":    "is needed with scheme hmac alone",
	".connectors[].operations[].lookup.index_lag": "every write is visible",
	".checks[].proved.index_lag":                  "was found at the first look",
	".actions[].resolve.second_person":            "depends on whether it is reversible",
}

func TestSchemasHaveTheDefaultsOfTheLoader(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(t *testing.T, a *agreement, s spot) {
		where := a.file + " at " + s.where
		value, stated := s.schema["default"]
		scalar := s.schema["type"] == "integer" || s.schema["type"] == "boolean" || s.schema["enum"] != nil || isDuration(s)
		_, without := withoutDefault[s.where]
		require.False(t, without && !(s.optional && scalar), "%s could have no default anyway", where)
		if without || !s.optional || !scalar {
			require.False(t, stated, "%s: a default that is none", where)
			return
		}
		require.True(t, stated, "%s: the schema does not say what holds where it is left out", where)
		written, complaints := a.load(s.put(value))
		require.Empty(t, complaints, where)
		leftOut, complaints := a.load(s.put(nothing{}))
		require.Empty(t, complaints, where)
		if s.where == ".sources[].signature.algorithm" { // the package signature fills it in
			leftOut.Sources[0].Signature.Algorithm = "sha256"
		}
		if s.where == ".connectors[].webhook.signature.algorithm" {
			leftOut.Connectors[0].Webhook.Signature.Algorithm = "sha256"
		}
		require.Equal(t, unplaced(written), unplaced(leftOut), where)
	})
}

// unplaced forgets where rules stand: what is written before one moves it.
func unplaced(t *Tenant) *Tenant {
	for _, r := range t.Rules {
		r.Pos, r.places = Position{}, nil
	}
	return t
}

func isDuration(s spot) bool {
	pattern, _ := s.schema["pattern"].(string)
	return strings.Contains(pattern, "(ns|us|")
}

// TestSchemasRefuseWhatTheLoaderRefuses changes a valid file in one place at a time, and asks both.
func TestSchemasRefuseWhatTheLoaderRefuses(t *testing.T) {
	t.Parallel()
	var used sync.Map // reasons of exceptions
	t.Run("Files", func(t *testing.T) {
		for _, file := range agreementFiles {
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				a := newAgreement(t, file)
				var disagreements []string
				tried := 0
				for where, tree := range a.changes() {
					tried++
					for _, found := range a.compare(tree) {
						if found.exception != "" {
							used.Store(found.exception, true)
						} else {
							disagreements = append(disagreements, where+": "+found.words)
						}
					}
				}
				require.Empty(t, disagreements, strings.Join(disagreements, "\n"))
				require.Greater(t, tried, 100)
			})
		}
	})
	for reason := range exceptions() {
		_, ok := used.Load(reason)
		require.True(t, ok, "nothing is refused any more for this reason, so take it away: %s", reason)
	}
}

// disagreement is a refusal by one of the two alone; with exception, which is the reason, it is meant.
type disagreement struct{ words, exception string }

func (a *agreement) compare(tree any) []disagreement {
	refusal := a.compiled.Validate(tree)
	_, complaints := a.load(tree)
	switch {
	case refusal != nil && len(complaints) == 0:
		return []disagreement{{fmt.Sprintf("the schema alone refuses: %v", refusal), ""}}
	case refusal != nil:
		return nil
	}
	var found []disagreement
	for _, complaint := range complaints {
		why := beyond(complaint)
		if why != "" { // one change has one cause, and the other complaints follow from it
			return []disagreement{{complaint, why}}
		}
		found = append(found, disagreement{"the loader alone refuses: " + complaint, ""})
	}
	return found
}

// TestSchemasMarkWhatSaysNothing lists what the loader takes and the schemas refuse on purpose.
func TestSchemasMarkWhatSaysNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string // and why
		file  string
		path  []any
		value any
	}{
		{"NothingAfterTheColonCountsAsLeftOutAndIsMostOftenUnfinished", tenantFile, []any{"rate_limit"}, nil},
		{"AnEmptyTextCountsAsLeftOutLikewise", sourcesFile, []any{"sources", 1, "proposer", "revision"}, ""},
		{"SpaceAroundATextIsNoPartOfItAndIsMostOftenASlip", peopleFile, []any{"people", 0, "id"}, " nora "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAgreement(t, tc.file)
			tree := with(a.tree, tc.path, tc.value)
			_, complaints := a.load(tree)
			require.Empty(t, complaints)
			require.Error(t, a.compiled.Validate(tree))
		})
	}
}
