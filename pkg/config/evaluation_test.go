package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestExceptions: a rule lets cases act because an evaluation says so, or it is refused when it is loaded (P4).
func TestExceptions(t *testing.T) {
	t.Parallel()
	const route = "    route: auto\n    reason: A few harmless"
	const rules = "rules:\n"
	rule := func(text string) string { return "    " + text + "\n" + route }
	const evaluation = `{id: e, action: crm.contact.update, measured_at: 2026-10-01T00:00:00Z, valid_until: 2027-10-01T00:00:00Z,
    cases: 400, passed: 398, by: rita}`
	evaluations := func(text string) string { return "evaluations: [" + text + "]\n" + rules }

	t.Run("WhatIsWrittenIsReadAndPartOfTheVersion", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		before, err := w.load()
		require.NoError(t, err)
		w.replace("policy.yaml", rules, evaluations(evaluation))
		w.replace("policy.yaml", route, rule("window: 10m\n    exception: {evaluation: e, threshold: 0.995, one_in: 20}"))
		loaded, err := w.load()
		require.NoError(t, err)
		until := time.Date(2027, 10, 1, 0, 0, 0, 0, time.UTC)
		first := loaded.Tenants[0].Rules[0]
		require.Equal(t, 10*time.Minute, first.Window)
		require.Equal(t, &config.Exception{Evaluation: "e", Threshold: "0.995", OneIn: 20, ReviewWithin: 168 * time.Hour, Until: until},
			first.Exception)
		require.Equal(t, []*config.Evaluation{{ID: "e", Action: "crm.contact.update", Cases: 400, Passed: 398, By: "rita",
			MeasuredAt: until.AddDate(-1, 0, 0), ValidUntil: until}}, loaded.Tenants[0].Evaluations)
		require.NotEqual(t, before.Tenants[0].PolicyVersion, loaded.Tenants[0].PolicyVersion)
	})

	exception := func(text string) string {
		return rule("exception: {" + text + "}")
	}
	requireRefusals(t, []refusal{
		{"AnEvaluationThatIsNotStored", "policy.yaml", route, exception("evaluation: e, threshold: 0.9, one_in: 5"),
			`evaluation is "e", which evaluations does not hold, allowed: none`},
		{"NoThreshold", "policy.yaml", route, exception("evaluation: e, one_in: 5"), "threshold is missing"},
		{"AThresholdAboveOne", "policy.yaml", route, exception("evaluation: e, threshold: 1.01, one_in: 5"), "threshold must be a share"},
		{"NoSample", "policy.yaml", route, exception("evaluation: e, threshold: 0.9"), "one_in is missing"},
		{"AWindowOfWhatCannotBeUndone", "policy.yaml", rules,
			"rules:\n  - {id: w, action: payment.refund, when: \"true\", route: auto, reason: x, window: 1m}\n",
			"window is for what can be undone, and payment.refund cannot"},
		{"AWindowForAnyAction", "policy.yaml", rules,
			"rules:\n  - {id: w, action: \"*\", when: \"false\", route: auto, reason: x, window: 1m}\n", "window is for rules of one action type"},
		{"AWindowBeforeAPerson", "policy.yaml", rules,
			"rules:\n  - {id: w, action: crm.contact.update, when: \"true\", route: human_review, reason: x, window: 1m}\n",
			"window is for rules of route auto alone"},
		{"AnEvaluationOfAnotherType", "policy.yaml", rules, `rules:
  - {id: w, action: stock.reserve, when: "true", route: auto, reason: x, exception: {evaluation: e, threshold: 0.9, one_in: 5}}
evaluations: [` + evaluation + "]\nrules_end:\n", `evaluation is of "crm.contact.update", but the rule is about "stock.reserve"`},
		{"AnEvaluationThatPassedTooFew", "policy.yaml", rules, `rules:
  - {id: w, action: crm.contact.update, when: "true", route: auto, reason: x, exception: {evaluation: e, threshold: 0.996, one_in: 5}}
evaluations: [` + evaluation + "]\nrules_end:\n", "threshold is 0.996, but evaluation e passed 398 of 400"},
		{"MorePassedThanThereWere", "policy.yaml", rules, evaluations(`{id: e, action: crm.contact.update, measured_at: 2026-10-01T00:00:00Z,
    valid_until: 2027-10-01T00:00:00Z, cases: 4, passed: 5, by: rita}`), "passed is 5, which must not be more than cases, 4"},
		{"ValidBeforeItWasMeasured", "policy.yaml", rules, evaluations(`{id: e, action: crm.contact.update,
    measured_at: 2026-10-01T00:00:00Z, valid_until: 2026-09-01T00:00:00Z, cases: 4, passed: 4, by: rita}`), "valid_until must be after"},
		{"OfAnUnknownType", "policy.yaml", rules, evaluations(`{id: e, action: no.such, measured_at: 2026-10-01T00:00:00Z,
    valid_until: 2027-10-01T00:00:00Z, cases: 4, passed: 4, by: rita}`), `action is "no.such", which actions.yaml does not register`},
	})
}
