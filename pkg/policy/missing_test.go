package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// kinds are values of each kind that JSON has, and what stands for no member at all.
var kinds = map[string]string{"missing": "", "null": "null", "number": "5", "text": `"v"`, "flag": "true",
	"list":   `["x"]`,
	"object": `{"k": "v"}`}

// usage is a condition about a field, written $, with a value that suits it and the other kinds that it may be given.
type usage struct {
	when, good string
	suits      []string
	covers     []string // operators and functions, as CEL names them
}

// usages hold one for each operator, function and macro of rules, and for each type that it takes.
func usages() []usage {
	any3, texts := []string{"list", "object"}, []string{"text"}
	list := []usage{
		{"$ == 5", "5", []string{"number"}, []string{"_==_"}},
		{"5 == $", "5", []string{"number"}, nil},
		{`$ == decimal("0.5")`, "0.5", []string{"number"}, nil},
		{`$ != "blocked"`, `"v"`, texts, []string{"_!=_"}},
		{`$ == true`, "true", []string{"flag"}, nil},
		{`$ == ["x"]`, `["x"]`, []string{"list"}, nil},
		{`$ != {"k": "v"}`, `{"k": "w"}`, []string{"object"}, nil},
		{"$ == $", `"v"`, []string{"number", "text", "flag", "list", "object"}, nil},
		{"$ == null", "null", []string{"null", "number", "text", "flag", "list", "object"}, nil},
		{"$ != null", "5", []string{"null", "number", "text", "flag", "list", "object"}, nil},
		{"dyn($) == 5", "5", []string{"number"}, []string{"dyn"}},
		{"$ < 5", "5", []string{"number"}, []string{"_<_"}},
		{"$ <= 5", "5", []string{"number"}, []string{"_<=_"}},
		{"$ > 5", "5", []string{"number"}, []string{"_>_"}},
		{"5 >= $", "5", []string{"number"}, []string{"_>=_"}},
		{"$ > thresholds.limit", "5", []string{"number"}, nil},
		{`decimal($) <= decimal("5.00")`, "5", []string{"number", "text"}, []string{"decimal"}},
		{`timestamp($) < timestamp("2027-01-01T00:00:00Z")`, `"2026-12-01T12:00:00Z"`, texts, []string{"timestamp"}},
		{`duration($) > duration("1h")`, `"2h"`, texts, []string{"duration"}},
		{"$ + 1 == 6", "5", []string{"number"}, []string{"_+_"}},
		{`$ + "w" == "vw"`, `"v"`, texts, nil},
		{`$ + ["y"] == ["x", "y"]`, `["x"]`, []string{"list"}, nil},
		{"$ - 1 == 4", "5", []string{"number"}, []string{"_-_"}},
		{"$ * 2 == 10", "5", []string{"number"}, []string{"_*_"}},
		{"-$ < 0", "5", []string{"number"}, []string{"-_"}},
		{"!$", "true", []string{"flag"}, []string{"!_"}},
		{"$ && true", "true", []string{"flag"}, []string{"_&&_"}},
		{"true && $", "true", []string{"flag"}, nil},
		{"$ || false", "true", []string{"flag"}, []string{"_||_"}},
		{"$ ? true : false", "true", []string{"flag"}, []string{"_?_:_"}},
		{"true ? $ == true : false", "true", []string{"flag"}, nil},
		{`$ in ["v", "w"]`, `"w"`, texts, []string{"@in"}},
		{`$ in [5, 7]`, `7`, []string{"number"}, nil},
		{`$ in {"v": 1}`, `"v"`, texts, nil},
		{`"x" in $`, `["x"]`, any3, nil},
		{`$.contains("v")`, `"v"`, texts, []string{"contains"}},
		{`$.startsWith("v")`, `"v"`, texts, []string{"startsWith"}},
		{`$.endsWith("v")`, `"v"`, texts, []string{"endsWith"}},
		{`$.matches("v+")`, `"v"`, texts, []string{"matches"}},
		{"size($) == 1", `"v"`, append(any3, "text"), []string{"size"}},
		{"$.size() == 1", `["x"]`, append(any3, "text"), nil},
		{`$[0] == "x"`, `["x"]`, []string{"list"}, []string{"_[_]"}},
		{`$["k"] == "v"`, `{"k": "v"}`, []string{"object"}, nil},
		{`$.k == "v"`, `{"k": "v"}`, []string{"object"}, nil},
		{"has($.k)", `{"k": "v"}`, []string{"object"}, []string{hasFunction}},
		{"has($)", "5", []string{"missing", "number", "text", "flag", "list", "object"}, nil},
		{`$.all(x, x == "x")`, `["x"]`, any3, []string{"all"}},
		{`$.exists(x, x == "x")`, `["x"]`, any3, []string{"exists"}},
		{`$.exists_one(x, x == "x")`, `["x"]`, any3, []string{"exists_one"}},
		{`$.map(x, x + "!") == ["x!"]`, `["x"]`, any3, []string{"map"}},
		{`$.filter(x, x == "x") == ["x"]`, `["x"]`, []string{"list", "object"}, []string{"filter"}},
		{`[$].all(x, x == 5)`, "5", []string{"number"}, nil},
		{`{"k": $}["k"] == 5`, "5", []string{"number"}, nil},
	}
	for _, getter := range []string{"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
		"getMilliseconds", "getMinutes", "getMonth", "getSeconds"} {
		list = append(list, usage{"timestamp($)." + getter + "() > 1", `"2026-12-01T12:00:00Z"`, texts, []string{getter}})
	}
	return list
}

// A field that is missing, null or of another type makes no auto rule pass and no other rule vanish, whatever is done
// with it and whatever way round it is written (POL-01).
func TestNoOperatorPassesAWrongField(t *testing.T) {
	t.Parallel()
	for _, u := range usages() {
		t.Run(u.when, func(t *testing.T) {
			t.Parallel()
			when := strings.ReplaceAll(u.when, "$", "proposed_change.f")
			passes, turned := fieldRule(t, config.RouteAuto, when), fieldRule(t, config.RouteAuto, "!("+when+")")
			require.ElementsMatch(t, []string{CodeRuleMatched, CodeNoRuleMatched}, []string{passes(u.good).Reasons[0].Code,
				turned(u.good).Reasons[0].Code}, "with what suits it, it matches exactly one way round")

			for _, form := range []string{"@", "!(@)", "!!(@)", "(@) && true", "(@) || false", "(@) ? true : true",
				"[1].all(i, @)", "[1].exists(i, !(@))"} {
				form = strings.ReplaceAll(form, "@", when)
				auto, reject := fieldRule(t, config.RouteAuto, form), fieldRule(t, config.RouteReject, form)
				for kind, value := range kinds {
					if slices.Contains(u.suits, kind) {
						continue
					}
					d := auto(value)
					require.Equal(t, config.RouteHumanReview, d.Route, "%s, %s: %v", form, kind, d.Reasons)
					require.Equal(t, CodeRuleError, d.Reasons[0].Code, "%s, %s", form, kind)
					require.Equal(t, config.RouteReject, reject(value).Route, "%s, %s", form, kind)
				}
			}
		})
	}

	t.Run("AllThatRulesHaveIsTried", func(t *testing.T) {
		t.Parallel()
		env, err := newEnv()
		require.NoError(t, err)
		var tried, there []string
		for _, u := range usages() {
			tried = append(tried, u.covers...)
		}
		for name := range env.Functions() {
			there = append(there, name)
		}
		for _, macro := range env.Macros() {
			there = append(there, macro.Function())
		}
		slices.Sort(there)
		// What loops are made of, two older names of in, and has, which becomes a call.
		inner := []string{"@not_strictly_false", "__not_strictly_false__", "_in_", "in", "has"}
		there = slices.DeleteFunc(slices.Compact(there), func(name string) bool { return slices.Contains(inner, name) })
		require.ElementsMatch(t, there, tried)
	})
}

// fieldRule decides by one rule on changes whose f is the value; "" leaves it out.
func fieldRule(t *testing.T, route, when string) func(value string) Decision {
	t.Helper()
	w := newWorld(t)
	w.rule(route, when)
	e := w.engine()
	return func(value string) Decision {
		w.change(`{}`)
		if value != "" {
			w.change(`{"f": ` + value + `}`)
		}
		return e.Decide(w.input)
	}
}

// What a proposal leaves out beside its change is not equal to another thing that it leaves out.
func TestWhatAProposalLeavesOutNeverPasses(t *testing.T) {
	t.Parallel()
	for _, when := range []string{
		"evidence.exists(e, e.version == current_version)", `current_version != "3"`, `workflow_version != "old@1"`,
		`!workflow_version.startsWith("old@")`, `evidence.all(e, e.url != "https://blocked.example")`,
		`evidence.all(e, e.observed_at != timestamp("2026-12-01T00:00:00Z"))`, `target.system != "erp"`,
		`target.record_id != "c-7"`, `evidence.all(e, e.version == e.url)`,
	} {
		w := newWorld(t)
		w.input = Input{ActionType: w.input.ActionType, ProposedChange: w.input.ProposedChange, Now: noon,
			Evidence: []Evidence{{Source: "crm"}}}
		w.rule(config.RouteAuto, when)
		d := w.decide()
		require.Equal(t, CodeRuleError, d.Reasons[0].Code, "%s: %v", when, d.Reasons)
		require.NotContains(t, d.Codes(), CodeRuleMatched, when)
	}
}

// Parts of lists and objects are held to their types as well, and a difference elsewhere is a difference.
func TestPartsAreComparedByType(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ when, value, code string }{
		{`proposed_change.f != ["a"]`, `[1]`, CodeRuleError},
		{`proposed_change.f != ["a", "b"]`, `[1, "c"]`, CodeRuleMatched},
		{`proposed_change.f == ["a", null]`, `["a", null]`, CodeRuleMatched},
		{`proposed_change.f == ["a"]`, `["a", 7]`, CodeNoRuleMatched},
		{`!("a" in proposed_change.f)`, `[1, null]`, CodeRuleError},
		{`"a" in proposed_change.f`, `[1, "a"]`, CodeRuleMatched},
		{`!("a" in proposed_change.f)`, `[]`, CodeRuleMatched},
		{`!(proposed_change.f in [])`, `5`, CodeRuleMatched},
		{`!(5 in proposed_change.f)`, `{"5": 5}`, CodeRuleError},
		{`!(proposed_change.f in [null])`, `null`, CodeRuleError},
		{`proposed_change.f != {"a": 1}`, `{"a": "1"}`, CodeRuleError},
		{`proposed_change.f != {"a": 1, "b": 2}`, `{"a": "1", "b": 3}`, CodeRuleMatched},
		{`proposed_change.f != {"a": 1}`, `{"b": "1"}`, CodeRuleMatched},
		{`proposed_change.f == decimal("1.50")`, `1.5`, CodeRuleMatched},
		{`null == proposed_change.f`, `null`, CodeRuleMatched},
		{`proposed_change.f.a == proposed_change.f.b`, `{"a": null, "b": null}`, CodeRuleError},
	} {
		d := fieldRule(t, config.RouteAuto, tc.when)(tc.value)
		require.Equal(t, tc.code, d.Reasons[0].Code, "%s, %s: %v", tc.when, tc.value, d.Reasons)
	}
}

// Where and, or, conditions and loops come to a result without a field that is missing, they come to the same with
// every value of it: what is missing never decides.
func TestAMissingFieldNeverDecides(t *testing.T) {
	t.Parallel()
	atoms := []string{"proposed_change.f > 3", "proposed_change.f == 3", "proposed_change.f in [1, 3]",
		"proposed_change.g == 1",
		"proposed_change.g > 1", "true", "false"}
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) string
		draw = func(depth int) string {
			kind := rapid.IntRange(0, 6).Draw(t, "kind")
			if depth == 0 {
				kind = 0
			}
			switch kind {
			case 1:
				return "!(" + draw(depth-1) + ")"
			case 2:
				return "(" + draw(depth-1) + " && " + draw(depth-1) + ")"
			case 3:
				return "(" + draw(depth-1) + " || " + draw(depth-1) + ")"
			case 4:
				return "(" + draw(depth-1) + " ? " + draw(depth-1) + " : " + draw(depth-1) + ")"
			case 5:
				return "[1, 2].exists(i, i == 1 && " + draw(depth-1) + ")"
			case 6:
				return "[1, 2].all(i, i == 1 || " + draw(depth-1) + ")"
			}
			return rapid.SampledFrom(atoms).Draw(t, "atom")
		}
		w := newWorld(t)
		w.rule(config.RouteAuto, draw(4))
		e := w.engine()
		code := func(change string) string {
			w.change(change)
			return e.Decide(w.input).Reasons[0].Code
		}
		g := rapid.IntRange(0, 2).Draw(t, "g")
		without := code(fmt.Sprintf(`{"g": %d}`, g))
		if without == CodeRuleError {
			return
		}
		for f := range 6 {
			require.Equal(t, without, code(fmt.Sprintf(`{"f": %d, "g": %d}`, f, g)), "%s with f = %d", w.tenant.Rules[0].When, f)
		}
	})
}
