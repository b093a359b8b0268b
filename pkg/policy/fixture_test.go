package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestPolicyTests(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*world, *config.PolicyTest) {
		t.Helper()
		w := newWorld(t)
		w.rule(config.RouteAuto, "proposed_change.amount < 100")
		w.rule(config.RouteReject, "proposed_change.amount > 50")
		w.rule(config.RouteReject, "proposed_change.missing > 1").Action = "payment.refund"
		test := &config.PolicyTest{Name: "small", At: noon, ActionType: w.action.Type, System: "crm", RecordID: "c-1",
			ProposedChange: parse(t, `{"amount": 10}`), CurrentVersion: "7", WorkflowVersion: "crm-enrichment@3",
			Evidence: []config.CitedEvidence{{Source: "crm", Version: "7", ObservedAt: noon.Add(-time.Hour)}},
			Expect:   config.ExpectedDecision{Route: "auto", Rules: []string{"auto-1"}, Reasons: []string{CodeRuleMatched}}}
		w.tenant.PolicyTests = []*config.PolicyTest{test}
		return w, test
	}
	run := func(t *testing.T, w *world) TestReport {
		t.Helper()
		report, err := RunTests(w.tenant)
		require.NoError(t, err)
		require.Len(t, report.Results, len(w.tenant.PolicyTests))
		return report
	}

	t.Run("TheExamplesPass", func(t *testing.T) {
		t.Parallel()
		report, err := RunTests(exampleWith(t, nil))
		require.NoError(t, err)
		require.Len(t, report.Results, 13)
		for _, result := range report.Results {
			require.Empty(t, result.Differences, result.Test.Name)
		}
		require.Empty(t, report.Unreached, "every rule of the example is tried")
		require.Zero(t, report.Failed())
	})

	t.Run("DecideAsInEarnest", func(t *testing.T) {
		t.Parallel()
		w, _ := setup(t)
		report := run(t, w)
		require.Empty(t, report.Results[0].Differences)
		require.Equal(t, w.decide(), report.Results[0].Decision, "the same intent, decided by the engine")
		require.Equal(t, "v1", report.PolicyVersion)
	})

	t.Run("ADifferenceIsNamed", func(t *testing.T) {
		t.Parallel()
		w, test := setup(t)
		test.ProposedChange = parse(t, `{"amount": 60}`)
		test.At = noon.Add(100 * time.Hour)
		report := run(t, w)
		require.Equal(t, []string{"route is reject, expected auto", "rules: auto-1, reject-2, expected auto-1",
			"reasons: rule_matched, evidence_stale, expected rule_matched"}, report.Results[0].Differences)
		require.Equal(t, 1, report.Failed())
	})

	t.Run("WhatIsNotExpectedIsNotCompared", func(t *testing.T) {
		t.Parallel()
		w, test := setup(t)
		test.ProposedChange = parse(t, `{"amount": 60}`)
		test.Expect = config.ExpectedDecision{Route: "reject"}
		require.Empty(t, run(t, w).Results[0].Differences)
	})

	t.Run("ARuleThatCannotBeEvaluatedIsAmongTheRulesAndNotReached", func(t *testing.T) {
		t.Parallel()
		w, test := setup(t)
		test.ProposedChange = parse(t, `{}`)
		report := run(t, w)
		require.Equal(t, []string{"auto-1", "reject-2"}, report.Results[0].Rules)
		require.Len(t, report.Unreached, 3)
	})

	t.Run("RulesThatNoTestReachesAreNamed", func(t *testing.T) {
		t.Parallel()
		w, _ := setup(t)
		report := run(t, w)
		require.Equal(t, w.tenant.Rules[1:], report.Unreached)
	})
}
