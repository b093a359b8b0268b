package policy

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const checkedSchema = `{
	"type": "object", "additionalProperties": false,
	"$defs": {"place": {"type": "object", "additionalProperties": false, "properties": {"city": {"type": "string"}}}},
	"properties": {
		"amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
		"count": {"type": "integer", "minimum": 1},
		"currency": {"enum": ["EUR", "USD"]},
		"note": {"type": "string", "maxLength": 5},
		"at": {"$ref": "#/$defs/place"},
		"tags": {"type": ["array", "object"]},
		"anything": {},
		"list": {"type": "array", "items": {"type": "string"}}
	}
}`

func TestCheck(t *testing.T) {
	t.Parallel()

	// check lists "code: message" of what is found about the rules, beside what is never read.
	check := func(t *testing.T, change func(*world)) []string {
		t.Helper()
		w := newWorld(t)
		w.action.Schema = []byte(checkedSchema)
		change(w)
		found, err := Check(w.tenant)
		require.NoError(t, err)
		var said []string
		for _, f := range found {
			if f.Code != FindingUnreadField && f.Code != FindingUnreadThreshold {
				said = append(said, f.Code+": "+f.Message)
			}
		}
		return said
	}
	reject := func(when string) func(*world) {
		return func(w *world) { w.rule(config.RouteReject, when) }
	}

	cases := []struct {
		name   string
		change func(*world)
		says   string // "" finds nothing
	}{
		{"AnOrdinaryRule", reject(`proposed_change.amount > 100 && proposed_change.currency == "EUR"`), ""},
		{"AConstantFalse", reject("false"), "never_matches: rule reject-1 can never match: its condition is false"},
		{"AFalseAmongOthers", reject(`proposed_change.amount > 100 && 1 > 2`),
			"never_matches: rule reject-1 can never match"},
		{"AnotherTypeByItsName", reject(`action.type == "payment.refund" && proposed_change.amount > 5`), "never_matches: "},
		{"ItsOwnTypeByItsName", reject(`action.type == "crm.contact.update" && proposed_change.amount > 5`), ""},
		{"ARiskThatItHasNot", reject(`action.risk == "high" && proposed_change.amount > 5`), "never_matches: "},
		{"AThresholdThatDecides", reject(`thresholds.limit < 10 && proposed_change.amount > 5`), "never_matches: "},
		{"AnError", reject(`[1][2] == 3`),
			"never_matches: rule reject-1 can never be evaluated"},
		{"AStricterRuleThatAlwaysMatches", func(w *world) {
			w.rule(config.RouteReject, "true")
			w.rule(config.RouteAuto, "proposed_change.amount > 5")
		}, "never_decides: rule auto-2 can never decide: rule reject-1 always matches as well, and its route reject is stricter"},
		{"AStricterRuleWithTheSameCondition", func(w *world) {
			w.rule(config.RouteAuto, "proposed_change.amount > 5")
			w.rule(config.RouteHumanReview, "proposed_change.amount > 5 ")
		}, "never_decides: rule auto-1 can never decide: rule human-review-2 has the same condition"},
		{"ALenientRuleThatAlwaysMatches", func(w *world) {
			w.rule(config.RouteAuto, "true")
			w.rule(config.RouteReject, "proposed_change.amount > 5")
		}, ""},
		{"AStricterRuleForOtherTypes", func(w *world) {
			w.rule(config.RouteReject, "true").Action = "payment.refund"
			w.rule(config.RouteAuto, "proposed_change.amount > 5")
			w.tenant.Actions = append(w.tenant.Actions, &config.Action{Type: "payment.refund", Schema: []byte(checkedSchema)})
			w.tenant.Rules[1].Action = "crm.contact.update"
		}, ""},
		{"ARepeatedRule", func(w *world) {
			w.rule(config.RouteReject, "proposed_change.amount > 5")
			w.rule(config.RouteReject, "proposed_change.amount > 5")
		}, "repeated: rule reject-2 repeats rule reject-1"},
		{"AutoForWhatCannotBeUndone", func(w *world) {
			w.action.Reversible = false
			w.rule(config.RouteAuto, "proposed_change.amount > 5")
		}, "never_decides: rule auto-1 can never decide: crm.contact.update cannot be undone"},
		{"AFieldThatThereIsNot", reject(`proposed_change.amuont > 5`),
			"unknown_field: rule reject-1 reads proposed_change.amuont, " +
				"which no proposal can have by the schema of crm.contact.update: it is an error always; allowed: amount, anything, at, "},
		{"AFieldBehindAReference", reject(`proposed_change.at.town == "x"`), "allowed: city"},
		{"AFieldThatIsAskedFor", reject(`has(proposed_change.at.town)`),
			"unknown_field: rule reject-1 reads proposed_change.at.town, " +
				"which no proposal can have by the schema of crm.contact.update: it is false always"},
		{"AFieldByIndex", reject(`proposed_change["amuont"] == 5`), "unknown_field: "},
		{"AFieldOfWhatMayBeAnything", reject(`proposed_change.anything.at.all == 5`), ""},
		{"AValueOutsideTheList", reject(`proposed_change.currency == "GBP"`), "settled: rule reject-1 asks for " +
			`proposed_change.currency == "GBP", which can never be true by the schema of crm.contact.update`},
		{"AValueOutsideTheListOnTheLeft", reject(`"GBP" != proposed_change.currency`), "which is always true"},
		{"OneOfSeveralOutsideTheList", reject(`proposed_change.currency in ["EUR", "GBP"]`),
			`== "GBP", which can never be true`},
		{"AValueOfAnotherType", reject(`proposed_change.note == 5`), "settled: "},
		{"ATextThatIsTooLong", reject(`proposed_change.note == "too long"`), "settled: "},
		{"NullWhereThereIsNone", reject(`proposed_change.note == null`), "settled: "},
		{"AnAmountAboveTheMost", reject(`proposed_change.amount > 1000`), "which can never be true"},
		{"AnAmountAtTheMost", reject(`proposed_change.amount >= 1000`), ""},
		{"AnAmountBelowTheLeast", reject(`proposed_change.amount <= 0`), "which can never be true"},
		{"AnAmountThatIsAlwaysAbove", reject(`decimal(proposed_change.amount) > decimal("0.00")`), "which is always true"},
		{"ACountThatIsAlwaysEnough", reject(`1 <= proposed_change.count`), "which is always true"},
		{"ACountThatMayBeEnough", reject(`proposed_change.count > 1`), ""},
		{"AThresholdAboveTheMost", reject(`proposed_change.amount > thresholds.limit`),
			"proposed_change.amount > 1000.00, which can"},
		{"AnOrderOfTexts", reject(`proposed_change.note > 5`), "is always an error, since string has no order"},
		{"AListThatMayBeAnObject", reject(`"a" in proposed_change.tags`), "many_kinds: rule reject-1 looks into " +
			"proposed_change.tags, which can be array or object"},
		{"ALoopOverAnything", reject(`proposed_change.anything.all(x, x == 1)`), "many_kinds: "},
		{"TheSizeOfAnything", reject(`size(proposed_change.anything) > 1 && proposed_change.anything.size() > 1`),
			"many_kinds: "},
		{"AListThatIsOne", reject(`"a" in proposed_change.list && size(proposed_change.list) > 1`), ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			said := check(t, tc.change)
			if tc.says == "" {
				require.Empty(t, said)
				return
			}
			require.NotEmpty(t, said)
			require.Contains(t, said[0], tc.says)
		})
	}

	t.Run("ARuleForEveryTypeIsJudgedByAllOfThem", func(t *testing.T) {
		t.Parallel()
		two := func(when string) []string {
			return check(t, func(w *world) {
				other := *w.action
				other.Type, other.Schema = "payment.refund",
					[]byte(`{"type": "object", "additionalProperties": false, "properties": {
					"currency": {"enum": ["GBP", "CHF"]}}}`)
				w.tenant.Actions = append(w.tenant.Actions, &other)
				w.rule(config.RouteReject, when)
			})
		}
		require.Empty(t, two(`proposed_change.currency == "GBP"`))
		require.Empty(t, two(`proposed_change.amount > 5`))
		require.Empty(t, two(`action.type == "payment.refund" && proposed_change.currency == "GBP"`))
		require.Len(t, two(`proposed_change.currency == "JPY"`), 1)
	})

	t.Run("WhatNobodyReads", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.action.Schema = []byte(checkedSchema)
		w.rule(config.RouteAuto, `proposed_change.amount < thresholds.ratio && "a" in proposed_change.list`)
		w.rule(config.RouteReject, `has(proposed_change.at.city) || proposed_change.currency == "USD"`)
		found, err := Check(w.tenant)
		require.NoError(t, err)
		var said []string
		for _, f := range found {
			said = append(said, f.Code+": "+f.Message)
			require.Equal(t, w.action.Type, f.Action)
		}
		unread := func(field string) string {
			return "unread_field: an auto rule may let proposed_change." + field + " of action crm.contact.update be anything: no rule " +
				"of the type reads it"
		}
		require.ElementsMatch(t,
			[]string{"unread_threshold: no rule reads thresholds.limit, which action crm.contact.update " +
				"declares; use it, or take it out", unread("anything"), unread("count"), unread("note"), unread("tags")}, said)
	})

	t.Run("WhatIsReadAsAWholeIsRead", func(t *testing.T) {
		t.Parallel()
		for _, when := range []string{`proposed_change.all(name, name in ["a"]) && thresholds.all(n, true)`,
			`size(proposed_change) < 3 && size(thresholds) > 1`} {
			w := newWorld(t)
			w.action.Schema = []byte(checkedSchema)
			w.rule(config.RouteAuto, when)
			found, err := Check(w.tenant)
			require.NoError(t, err)
			require.Empty(t, found)
		}
	})

	t.Run("TheExampleIsSound", func(t *testing.T) {
		t.Parallel()
		found, err := Check(exampleWith(t, nil))
		require.NoError(t, err)
		require.Empty(t, found)
	})

	t.Run("FindingsNameTheirPlace", func(t *testing.T) {
		t.Parallel()
		tenant := exampleWith(t, map[string]string{"policy.yaml": `rules:
  - id: swiss
    action: payment.refund
    when: >-
      proposed_change.amount > thresholds.refused
      && proposed_change.amount > thresholds.needs_lead
      && proposed_change.currency == "CHF"
    route: reject
    reason: Why.
`, "policy_tests.yaml": "tests: []\n"})
		found, err := Check(tenant)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, demo+"policy.yaml:7:35", found[0].Pos.String())
	})

	t.Run("AreLoggedAtTheStart", func(t *testing.T) {
		t.Parallel()
		var logged bytes.Buffer
		w := newWorld(t)
		w.rule(config.RouteReject, "false")
		Warn(slog.New(slog.NewTextHandler(&logged, nil)), w.tenant)
		require.Contains(t, logged.String(), `level=WARN msg="policy: rule reject-1 can never match`)
		require.Contains(t, logged.String(), "code=never_matches rule=reject-1")
		require.Contains(t, logged.String(), "at=policy.yaml:3:11")
	})

	t.Run("WhatDoesNotCompileIsTheCompilersToSay", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.rule(config.RouteReject, "nothing")
		_, err := Check(w.tenant)
		require.ErrorContains(t, err, "reads nothing, which no rule can see")
	})
}

// A condition that the check calls settled is settled: whatever the schema lets in, it comes to the same.
func TestSettledComparisonsAreSettled(t *testing.T) {
	t.Parallel()
	for _, operator := range []string{"<", "<=", ">", ">=", "==", "!="} {
		for _, number := range []string{"-1", "0", "1", "2", "3", "4"} {
			w := newWorld(t)
			w.action.Schema = []byte(`{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMaximum": 4}}}`)
			w.rule(config.RouteReject, "proposed_change.n "+operator+" "+number)
			found, err := Check(w.tenant)
			require.NoError(t, err)
			outcomes := map[string]bool{}
			e := w.engine()
			for _, n := range []string{"1", "2", "3"} {
				w.change(`{"n": ` + n + `}`)
				outcomes[e.Decide(w.input).Reasons[0].Code] = true
			}
			settled := slices.ContainsFunc(found, func(f Finding) bool { return f.Code == FindingSettled })
			if settled {
				require.Len(t, outcomes, 1, w.tenant.Rules[0].When)
			}
			if operator != ">" && operator != "<=" || number != "3" { // that 3 is the most is so for whole numbers alone
				require.Equal(t, len(outcomes) == 1, settled, w.tenant.Rules[0].When)
			}
		}
	}
}
