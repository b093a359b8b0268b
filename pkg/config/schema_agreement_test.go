package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The schemas of the configuration (contracts/schemas/config.*.json) are written by hand, and so is the loader. What the
// loader takes is found out by asking it: its complaints say what is allowed instead.

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

// eachPlace runs a check for every place of every file, once for each kind of value there.
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
var shapes = []shape{slug, dotted, word, workflow, digest, header, variable, decimal, named, promptFile, subjectID}

// requireShape compares the pattern of a text with the one that the loader names in words.
func requireShape(t *testing.T, s spot, where string, complaints, allowed []string) {
	t.Helper()
	pattern, _ := s.schema["pattern"].(string)
	for _, one := range shapes {
		if slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, " "+one.words) }) {
			shaped, environment, _ := strings.Cut(pattern, `|\$`)
			if environment == "" {
				shaped = pattern
			}
			require.Equal(t, one.pattern.String(), shaped, where)
			return
		}
	}
	require.Nil(t, allowed, "%s: the schema does not know what is allowed", where)
}

// withoutDefault are optional settings with no value of their own where they are left out.
var withoutDefault = map[string]string{
	".actions[].category":                         "nothing is sensitive",
	".actions[].profession":                       "nobody qualified is needed",
	".actions[].review.typed_reason":              "depends on the risk",
	".actions[].review.recent_sign_in":            "depends on the risk",
	".rate_limit.burst":                           "is per_second",
	".connectors[].operations[].key_window":       "no key is remembered",
	".connectors[].operations[].key_margin":       "a key is relied on for its whole window",
	".sources[].signature.encoding":               "is needed with scheme hmac alone",
	".connectors[].operations[].lookup.index_lag": "every write is visible",
}

func TestSchemasHaveTheDefaultsOfTheLoader(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(t *testing.T, a *agreement, s spot) {
		where := a.file + " at " + s.where
		value, stated := s.schema["default"]
		scalar := s.schema["type"] == "integer" || s.schema["type"] == "boolean" || s.schema["enum"] != nil || isDuration(s)
		if _, listed := withoutDefault[s.where]; listed || !s.optional || !scalar {
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
		require.Equal(t, written, leftOut, where)
	})
}

func isDuration(s spot) bool {
	pattern, _ := s.schema["pattern"].(string)
	return strings.Contains(pattern, "(ns|us|")
}

// beyondShape are complaints of the loader about what no schema of one file can see.
var beyondShape = []struct {
	says   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^cel is not valid:`), "an expression is compiled"},
}

// TestSchemasRefuseWhatTheLoaderRefuses changes a valid file in one place at a time.
func TestSchemasRefuseWhatTheLoaderRefuses(t *testing.T) {
	t.Parallel()
	for _, file := range agreementFiles {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			a := newAgreement(t, file)
			samples := map[string][]any{}
			for _, s := range a.spots(a.tree) {
				samples[s.where] = append(samples[s.where], s.value)
			}
			tried := 0
			for _, part := range a.parts() {
				for _, s := range a.spots(part) {
					for _, tree := range a.changes(s, samples) {
						a.compare(s, tree)
						tried++
					}
				}
			}
			require.Greater(t, tried, 100)
			for _, d := range slices.Sorted(maps.Keys(a.disagreements)) {
				t.Log(d)
			}
			t.Log(tried)
		})
	}
}

// compare notes where the schema and the loader do not agree about a tree.
func (a *agreement) compare(s spot, tree any) {
	refusal := a.compiled.Validate(tree)
	_, complaints := a.load(tree)
	if refusal != nil && len(complaints) == 0 {
		a.disagreements[fmt.Sprintf("%s: the schema alone refuses: %v", s.where, refusal)] = fmt.Sprint(tree)
	}
	if refusal != nil {
		return
	}
	for _, complaint := range complaints {
		if !isBeyondShape(complaint) {
			a.disagreements[fmt.Sprintf("%s: the loader alone refuses: %s", s.where, complaint)] = fmt.Sprint(tree)
		}
	}
}

func isBeyondShape(complaint string) bool {
	for _, b := range beyondShape {
		if b.says.MatchString(complaint) {
			return true
		}
	}
	return false
}

// strange are values of which most are wrong anywhere.
var strange = []any{true, false, json.Number("7"), json.Number("-1"), json.Number("1.5"), []any{}, []any{nil}, []any{""},
	[]any{"a", "a"}, []any{json.Number("7")}, []any{map[string]any{}}, map[string]any{}, "☹ no such text"}

// texts are values of which each is right somewhere, or nearly.
var texts = []any{"7", "true", "a", "A", "a.b", "a b", "a_b", "a-b", "a@1", "a@0", "a@b", "a@b@c", "/", "/a/b", "/a~0/~1", "/a~2",
	"a/b", "a.json", "a/b.json", "a.tmpl", "1s", "0s", "-1s", "+1h30m", ".5h", "1.h", "1", "1d", "1h 2m", "10us", "http://h", "https://h/p",
	"HTTPS://h", "ftp://h", "https://", "http://h?q=1", "https://h#f", "h:1", ":1", "h:port", "${NAME:-x}", "${NAME", "demo_0123456789abcdef",
	"whsec_demo_0123456789abcdef", "hidden", "{body}", "{timestamp}.{body}", "{body}{id}", "1e3", "1.50", "-0.5", "007",
	strings.Repeat("a", 33), strings.Repeat("a", 65), strings.Repeat("a", 129), strings.Repeat("0", 64), strings.Repeat("9", 40)}

// changes are the tree with other values at the spot, some of them right and most wrong.
func (a *agreement) changes(s spot, samples map[string][]any) []any {
	var trees []any
	values := append(slices.Clone(strange), samples[s.where]...)
	switch {
	case s.schema["type"] == "integer":
		low, high := a.integer(s.schema["minimum"]), a.integer(s.schema["maximum"])
		for _, n := range []int64{low - 1, low, high, high + 1} {
			values = append(values, json.Number(fmt.Sprint(n)))
		}
	case s.schema["enum"] != nil:
		values = append(values, s.schema["enum"].([]any)...)
	case s.schema["type"] != nil && s.schema["type"] != "object" && s.schema["type"] != "array" && s.schema["type"] != "boolean":
		values = append(values, texts...)
	}
	if !s.optional {
		values = append(values, nil, "", " ")
	}
	for _, value := range values {
		trees = append(trees, s.put(value))
	}
	object, ok := s.value.(map[string]any)
	if !ok || s.schema["type"] == nil {
		return trees
	}
	trees = append(trees, s.member("no_such_setting", "x"), s.member("No Such", "x"))
	for name := range object {
		trees = append(trees, s.member(name, nothing{}))
	}
	properties, _ := s.schema["properties"].(map[string]any)
	for name := range properties {
		for _, value := range samples[s.where+"."+name] {
			trees = append(trees, s.member(name, value))
		}
	}
	return trees
}

func (a *agreement) integer(n any) int64 {
	value, err := cmp.Or(n.(json.Number), "0").Int64()
	require.NoError(a.t, err)
	return value
}
