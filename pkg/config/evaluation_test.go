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

	t.Run("WhatIsWrittenIsReadAndPartOfTheVersion", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		loaded, err := w.load()
		require.NoError(t, err)
		tenant := loaded.Tenants[0]
		last := tenant.Rules[len(tenant.Rules)-1]
		until := time.Date(2036, 10, 12, 0, 0, 0, 0, time.UTC)
		require.Equal(t, time.Minute, last.Window)
		require.Equal(t, &config.Exception{Evaluation: "company-names-2026-10", Threshold: "0.98", OneIn: 1, ReviewWithin: 48 * time.Hour,
			Until: until}, last.Exception)
		require.Equal(t, []*config.Evaluation{{ID: "company-names-2026-10", Action: "crm.contact.update", Cases: 400, Passed: 397,
			By: "sales-operations", MeasuredAt: until.AddDate(-10, 0, 0), ValidUntil: until}}, tenant.Evaluations)

		w.replace("policy.yaml", "passed: 397", "passed: 398")
		measured, err := w.load()
		require.NoError(t, err)
		require.NotEqual(t, tenant.PolicyVersion, measured.Tenants[0].PolicyVersion)
		w.replace("policy.yaml", "window: 1m", "window: 2m")
		longer, err := w.load()
		require.NoError(t, err)
		require.NotEqual(t, measured.Tenants[0].PolicyVersion, longer.Tenants[0].PolicyVersion)
	})

	const of = "    action: crm.contact.update\n    measured_at"
	rule := func(text string) string { return "rules:\n  - {id: w, " + text + ", reason: x, window: 1m}\n" }
	requireRefusals(t, []refusal{
		{"AnEvaluationThatIsNotStored", "policy.yaml", "evaluation: company-names-2026-10", "evaluation: other",
			`evaluation is "other", which evaluations does not hold, allowed: company-names-2026-10`},
		{"NoThreshold", "policy.yaml", "      threshold: 0.98\n", "", "threshold is missing"},
		{"AThresholdAboveOne", "policy.yaml", "threshold: 0.98", "threshold: 1.01", "threshold must be a share above 0 and at most 1"},
		{"NoSample", "policy.yaml", "      one_in: 1\n", "", "one_in is missing"},
		{"AnEvaluationOfAnotherType", "policy.yaml", of, "    action: stock.reserve\n    measured_at",
			`evaluation is of "stock.reserve", but the rule is about "crm.contact.update"`},
		{"OfAnUnknownType", "policy.yaml", of, "    action: no.such\n    measured_at",
			`action is "no.such", which actions.yaml does not register`},
		{"AnEvaluationThatPassedTooFew", "policy.yaml", "passed: 397", "passed: 391",
			"threshold is 0.98, but evaluation company-names-2026-10 passed 391 of 400: the rule may not rely on it"},
		{"MorePassedThanThereWere", "policy.yaml", "passed: 397", "passed: 401", "passed is 401, which must not be more than cases, 400"},
		{"ValidBeforeItWasMeasured", "policy.yaml", "valid_until: 2036", "valid_until: 2025", "valid_until must be after measured_at"},
		{"AWindowOfWhatCannotBeUndone", "policy.yaml", "rules:\n", rule(`action: payment.refund, when: "true", route: auto`),
			"window is for what can be undone, and payment.refund cannot"},
		{"AWindowForAnyAction", "policy.yaml", "rules:\n", rule(`action: "*", when: "false", route: auto`),
			"window is for rules of one action type"},
		{"AWindowBeforeAPerson", "policy.yaml", "rules:\n", rule(`action: crm.contact.update, when: "true", route: human_review`),
			"window is for rules of route auto alone"},
	})
}
