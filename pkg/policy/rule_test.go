package policy

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// A field that is missing, null or of another type never lets anything pass: not by the deny rule vanishing, and not by
// the auto rule matching.
func TestAFieldThatIsNotThereNeverPasses(t *testing.T) {
	t.Parallel()

	payloads := []string{`{}`, `{"amount": null}`, `{"amount": "5000"}`, `{"Amount": 5000}`, `{"amount": [5000]}`,
		`{"amount": {"value": 5000}}`, `{"amount": true}`}

	t.Run("InADenyRule", func(t *testing.T) {
		t.Parallel()
		for _, route := range []string{config.RouteReject, config.RouteRepair, config.RouteHumanReview} {
			for _, payload := range payloads {
				w := newWorld(t)
				w.rule(config.RouteAuto, "true")
				w.rule(route, "proposed_change.amount > 1000")
				w.change(payload)
				d := w.requireRoute(route, CodeRuleMatched, CodeRuleError)
				require.Equal(t, route[:4], d.Reasons[1].RuleID[:4], "the reason names the rule")
				require.Contains(t, d.Reasons[1].Message, "could not be evaluated: ", payload)
			}
		}
	})

	t.Run("InAnAutoRule", func(t *testing.T) {
		t.Parallel()
		for _, payload := range payloads {
			for _, when := range []string{"proposed_change.amount <= 1000", "!(proposed_change.amount > 1000)",
				"1000 >= proposed_change.amount"} {
				w := newWorld(t)
				w.rule(config.RouteAuto, when)
				w.change(payload)
				w.requireRoute(config.RouteHumanReview, CodeRuleError, CodeNoRuleMatched)
			}
		}
	})

	t.Run("InTheOneOfTwoAutoRules", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteAuto, "true")
		w.rule(config.RouteAuto, "proposed_change.missing < 1")
		w.requireRoute(config.RouteHumanReview, CodeRuleMatched, CodeRuleError)
	})

	t.Run("ByItsSchema", func(t *testing.T) {
		t.Parallel()
		for _, payload := range payloads {
			w := newWorld(t)
			w.action.Schema = []byte(strictSchema)
			w.rule(config.RouteAuto, "true")
			w.change(payload)
			w.requireRoute(config.RouteReject, CodeSchemaInvalid)
		}
	})

	t.Run("ThroughDecimal", func(t *testing.T) {
		t.Parallel()
		for _, payload := range append(payloads[:2:2], payloads[3:]...) { // plain decimal text is a decimal
			w := newWorld(t)
			w.rule(config.RouteAuto, "decimal(proposed_change.amount) <= decimal(thresholds.limit)")
			w.change(payload)
			w.requireRoute(config.RouteHumanReview, CodeRuleError, CodeNoRuleMatched)
		}
	})
}

// When the engine fails, that is never taken as leave.
func TestAFailingEvaluationNeverPasses(t *testing.T) {
	t.Parallel()

	broken := map[string]func(cel.Activation) (ref.Val, error){
		"panic":   func(cel.Activation) (ref.Val, error) { panic("index out of range") },
		"no bool": func(cel.Activation) (ref.Val, error) { return decimalType, nil },
	}
	for name, eval := range broken {
		for route, want := range map[string]string{
			config.RouteAuto: config.RouteHumanReview, config.RouteHumanReview: config.RouteHumanReview,
			config.RouteRepair: config.RouteRepair, config.RouteReject: config.RouteReject,
		} {
			w := newWorld(t)
			w.rule(config.RouteAuto, "true")
			w.rule(route, "true")
			e := w.engine()
			r := e.actions[w.action.Type].rules[1]
			r.plain, r.counted = eval, eval
			d := e.Decide(w.input)
			require.Equal(t, want, d.Route, name)
			require.Equal(t, CodeRuleError, d.Reasons[1].Code, name)
		}
	}

	t.Run("OverTheCostLimit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.change(`{"list": [` + strings.Repeat("1,", 200) + `1]}`)
		w.rule(config.RouteAuto, "true")
		w.rule(config.RouteReject, "proposed_change.list.all(a, proposed_change.list.all(b, a == b)) && false")
		d := w.requireRoute(config.RouteReject, CodeRuleMatched, CodeRuleError)
		require.Contains(t, d.Reasons[1].Message, "cost limit exceeded")
	})
}

func TestShortWorkIsNotCounted(t *testing.T) {
	t.Parallel()
	cases := []struct {
		when  string
		size  int
		loops int
		short bool
	}{
		{`proposed_change.note.matches("a+")`, 1 << 20, 0, true},
		{`proposed_change.a.all(x, x == 1)`, 900, 1, true},
		{`proposed_change.a.all(x, x == 1)`, 1000, 1, false},
		{`proposed_change.a.filter(x, x == 1).all(x, x == 1) && proposed_change.b.exists(x, x == 1)`, 900, 1, true},
		{`proposed_change.a.all(x, x.all(y, y == 1))`, 50, 2, true},
		{`proposed_change.a.all(x, [{"k": x.map(y, y)}].size() == 1)`, 100, 2, false},
		{`(proposed_change.a + proposed_change.a).all(x, x == 1)`, 1, 1, false},
		{`[1].all(x, [1].all(x, [1].all(x, proposed_change.a.exists(y, y == x))))`, 1, 4, false},
	}
	for _, tc := range cases {
		w := newWorld(t)
		w.rule(config.RouteReject, tc.when)
		b := w.engine().actions[w.action.Type].rules[0].bound
		require.Equal(t, tc.loops, b.loops, tc.when)
		require.Equal(t, tc.short, b.short(tc.size), tc.when)
	}
}

func TestRulesThatDoNotCompile(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, route, when, says string }{
		{"BrokenSyntax", "reject", "proposed_change.amount >",
			"is not a CEL expression: it ends too early; allowed is one expression"},
		{"AnUnknownVariable", "reject", "change.amount > 1",
			"reads change, which no rule can see, allowed: action.category, "},
		{"AMisspeltMemberOfTheAction", "reject", `action.riks == "low"`,
			"reads action, which no rule can see, allowed: action."},
		{"NoBool", "reject", "proposed_change.amount", "yields dyn, but must yield bool"},
		{"AFloat", "reject", "proposed_change.amount == 0.1",
			`holds the float 0.1, which is not exact; write decimal("0.1")`},
		{"AFloatToOrder", "reject", "proposed_change.amount > 0.1",
			"applies > to (any, float), allowed: (duration, duration), " +
				`(number, number), (timestamp, timestamp); a float is not exact, so write decimal("0.1")`},
		{"AConversionToFloat", "reject", "double(proposed_change.amount) == 1",
			"calls double(), which is no function of rules, allowed: all, contains, decimal, "},
		{"AConversionToANumber", "auto", "int(proposed_change.amount) < 5", "calls int(), which is no function of rules"},
		{"AConversionToText", "auto", `string(proposed_change.id) != "5"`, "calls string(), which is no function of rules"},
		{"AQuestionForTheType", "auto", `type(proposed_change.id) != type("")`,
			"calls type(), which is no function of rules"},
		{"ADivision", "reject", "proposed_change.amount / 2 > 1", "uses /, which could round, allowed: ! != && * + - < "},
		{"ATextToOrder", "reject", `proposed_change.amount > "1000"`, "applies > to (any, string), allowed: (duration, "},
		{"TwoTypesToCompare", "reject", `action.risk == 1`,
			"applies == to (string, number), allowed: two values of one type"},
		{"AVariableThatCannotBeNull", "reject", `current_version == null`, "applies == to (string, null)"},
		{"PresenceOfNoField", "reject", "has(proposed_change)", "has() takes a field, as in has(proposed_change.note)"},
		{"ATextThatIsNoDecimal", "reject", `proposed_change.amount > decimal("1e3")`,
			"cannot be evaluated: decimal() was given a text that is not a plain decimal number"},
		{"ATextThatIsNoTime", "reject", `timestamp("noon") < timestamp("2026-12-01T12:00:00Z")`,
			`cannot be evaluated: invalid RFC 3339 timestamp "noon"`},
		{"ATextThatIsNoDuration", "reject", `duration("1 day") < duration("2h")`, "cannot be evaluated: "},
		{"ATextThatIsNoPattern", "reject", `proposed_change.id.matches("(")`, "cannot be evaluated: error parsing regexp"},
		{"AThresholdNobodyDeclares", "reject", "proposed_change.amount > thresholds.limt",
			"reads thresholds.limt, which action crm.contact.update does not declare, allowed: limit, ratio"},
		{"WhatAModelStatesOfItself", "auto", "has(proposed_change.confidence)",
			"reads proposed_change.confidence, which a model " +
				"states about itself"},
		{"Uncertainty", "auto", `uncertainty != "high"`, "reads uncertainty"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rule(tc.route, tc.when)
			w.rule("reject", "nothing")
			_, err := New(w.tenant)
			require.ErrorContains(t, err, "policy.yaml:3:11: rule "+tc.route+"-1: when ")
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "rule reject-2", "every rule is reported")
			var at *config.Error
			require.ErrorAs(t, err, &at)
		})
	}

	t.Run("ASchemaOrThresholdThatCannotBeRead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.action.Schema, w.action.Thresholds = []byte(`{"type": 7}`), map[string]string{"limit": "1e3"}
		_, err := New(w.tenant)
		require.ErrorContains(t, err, "action crm.contact.update of tenant demo: compiling schema")
		require.ErrorContains(t, err, "threshold limit is a text that is not a plain decimal number")
	})
}
