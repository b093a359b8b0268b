package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// conditionsThatRead read what slots keep in every way that rules have: by name and by index, in loops and beside them, in
// loops whose variable hides one of ours, behind conditions, and where nothing or the wrong thing is.
var conditionsThatRead = []string{
	`proposed_change.a > 1`, `proposed_change["a"] > 1`, `proposed_change.a == 1 && proposed_change.a < 5`,
	`proposed_change.b.c == "x"`, `proposed_change["b"].c != "x"`, `proposed_change.b["c"].startsWith("x")`,
	`proposed_change.b == proposed_change.b`,
	`has(proposed_change.a) && proposed_change.a > 0`, `has(proposed_change.b.c) ? proposed_change.b.c == "x" : proposed_change.a == 1`,
	`(proposed_change.a == 1 ? proposed_change.b : proposed_change.d).c == "x"`,
	`proposed_change.l.exists(x, x == proposed_change.a)`, `proposed_change.l.all(x, x > 0) || proposed_change.a == 2`,
	`proposed_change.l.exists(proposed_change, proposed_change == 1)`, `evidence.exists(evidence, evidence.source == "crm")`,
	`proposed_change.l.filter(a, a != proposed_change.a).size() == 1`, `proposed_change.l[0] == proposed_change.a`,
	`proposed_change.l[proposed_change.a] == 2`, `proposed_change[proposed_change.name] == 1`,
	`evidence[0].source == "crm"`, `evidence[0].version == current_version`, `evidence[1].url.contains("x")`, `evidence.size() == 2`,
	`evidence.exists(e, e.source == target.system && e.version == current_version)`, `evidence[0] == evidence[1]`, `"url" in evidence[0]`,
	`evidence[0][proposed_change.name] == "crm"`, `evidence.all(e, e.observed_at < timestamp("2026-12-02T00:00:00Z"))`,
	`evidence[0].all(name, evidence[0][name] == evidence[1][name])`, `{"source": "crm"} == evidence[0]`,
	`target.record_id == "c-1"`, `workflow_version.startsWith("crm")`, `action.risk == "low" && action.reversible`,
	`thresholds.limit > proposed_change.a`, `thresholds["limit"] > 1 && thresholds.ratio < 1`, `uncertainty != "low"`,
	`proposed_change.d == null`, `proposed_change.name in ["a", "source"]`, `proposed_change.a in proposed_change.l`,
	`proposed_change.l == [1, 2]`, `proposed_change.b == {"c": "x"}`, `decimal(proposed_change.a) + proposed_change.a > 2`,
}

// TestRulesDecideTheSameWithoutSlots compares with the same rules where every path is read as CEL reads it.
func TestRulesDecideTheSameWithoutSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, when := range conditionsThatRead {
		w.rule([]string{config.RouteRepair, config.RouteHumanReview, config.RouteReject}[i%3], when)
	}
	engine, plainly := w.engine(), w.engine()
	env, err := newEnv()
	require.NoError(t, err)
	for _, r := range plainly.rules {
		r.plain, err = plan(env, r.ast)
		require.NoError(t, err)
	}
	require.Greater(t, engine.actions[w.action.Type].slots, 15)

	random := rand.New(rand.NewPCG(7, 7))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	seen := map[string]bool{}
	for range 400 {
		var members []string
		for _, name := range []string{"a", "b", "d", "l", "name"} {
			if random.IntN(6) > 0 {
				members = append(members, fmt.Sprintf("%q: %s", name, map[string]string{
					"a": pick("1", "2", "1.5", "0", "null", `"1"`, `{"c": 1}`), "b": pick(`{"c": "x"}`, `{"c": "y"}`, `{}`, `{"c": null}`, `[]`, "7"),
					"d": pick(`{"c": "x"}`, "null", `"d"`), "l": pick("[1, 2]", "[2]", "[]", `["x", 1]`, "null"),
					"name": pick(`"a"`, `"source"`, `"url"`, `"none"`, "1", "null", "[]"),
				}[name]))
			}
		}
		in := w.input
		in.ProposedChange = parse(t, "{"+strings.Join(members, ", ")+"}")
		in.CurrentVersion, in.Target.RecordID = pick("", "7", "8"), pick("", "c-1")
		in.WorkflowVersion, in.Uncertainty = pick("", "crm-enrichment@3"), pick("", "low", "high")
		in.Evidence = nil
		for range random.IntN(3) {
			in.Evidence = append(in.Evidence, Evidence{Source: pick("", "crm", "other"), Version: pick("", "7"), URL: pick("", "x"),
				ObservedAt: []time.Time{{}, noon}[random.IntN(2)]})
		}
		want := plainly.Decide(in)
		require.Equal(t, want, engine.Decide(in))
		for _, reason := range want.Reasons {
			seen[reason.Code+reason.RuleID] = true
		}
	}
	for _, r := range engine.rules {
		require.True(t, seen[CodeRuleMatched+r.ID], "%s never matched", r.When)
	}
}

// TestSlotsHaveABound has more paths than slots, in one rule and in many.
func TestSlotsHaveABound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var fields, all []string
	for i := range 3 * mostSlots {
		fields = append(fields, fmt.Sprintf(`"f%d": %d`, i, i))
		all = append(all, fmt.Sprintf("proposed_change.f%d == %d", i, i))
		w.rule(config.RouteAuto, all[i])
	}
	w.rule(config.RouteAuto, strings.Join(all, " && "))
	w.change("{" + strings.Join(fields, ", ") + "}")
	e := w.engine()
	require.Equal(t, mostSlots, e.actions[w.action.Type].slots)
	require.Len(t, e.Decide(w.input).Rules, len(all)+1)
}

func TestPathsThatAreWrittenOtherwiseShareASlot(t *testing.T) {
	t.Parallel()
	env, err := newEnv()
	require.NoError(t, err)
	for _, tc := range []struct {
		when string
		want int
	}{
		{`proposed_change.a == 1 && proposed_change["a"] == 1`, 1},
		{`proposed_change.a.b == 1 && proposed_change["a.b"] == 1`, 2},
		{`has(proposed_change.a) && has(proposed_change.b)`, 1}, // both look into proposed_change
		{`target.system == "a" && target.system == action.type`, 2},
		{`evidence.exists(e, e.source == "crm")`, 1},
		{`proposed_change.a[0] == 1 && proposed_change.a[1] == 1`, 1},
	} {
		s := newSlots(env)
		parsed, issues := env.Compile(tc.when)
		require.NoError(t, issues.Err())
		_, err := plan(env, parsed, cel.CustomDecoratorV2(s.filling(parsed.NativeRep())))
		require.NoError(t, err)
		require.Len(t, s.number, tc.want, tc.when)
	}
}
