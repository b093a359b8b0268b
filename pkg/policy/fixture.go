package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// TestResult is one policy test with what was decided (P7).
type TestResult struct {
	Test        *config.PolicyTest
	Decision    Decision
	Rules       []string // ids of all that matched or could not be evaluated, in the order of the file
	Differences []string // between what was expected and what was decided; empty where the test passes
}

// TestReport is what became of all policy tests of a tenant.
type TestReport struct {
	Tenant        string
	PolicyVersion string
	Results       []TestResult
	Unreached     []*config.Rule // that match in no test, in the order of the file
}

// Failed counts the tests that do not pass.
func (r TestReport) Failed() int {
	failed := 0
	for _, one := range r.Results {
		if len(one.Differences) > 0 {
			failed++
		}
	}
	return failed
}

// RunTests decides on every intent of the tenant's policy tests, as it would in earnest. Its error is New's.
func RunTests(tenant *config.Tenant) (TestReport, error) {
	e, err := New(tenant)
	if err != nil {
		return TestReport{}, err
	}
	report := TestReport{Tenant: tenant.ID, PolicyVersion: tenant.PolicyVersion}
	reached := map[string]bool{}
	for _, test := range tenant.PolicyTests {
		result := TestResult{Test: test, Decision: e.Decide(inputOf(test))}
		for _, reason := range result.Decision.Reasons {
			if reason.RuleID != "" && !slices.Contains(result.Rules, reason.RuleID) {
				result.Rules = append(result.Rules, reason.RuleID)
			}
			reached[reason.RuleID] = reached[reason.RuleID] || reason.Code == CodeRuleMatched
		}
		result.compare()
		report.Results = append(report.Results, result)
	}
	for _, r := range tenant.Rules {
		if !reached[r.ID] {
			report.Unreached = append(report.Unreached, r)
		}
	}
	return report, nil
}

func inputOf(test *config.PolicyTest) Input {
	in := Input{ActionType: test.ActionType, Target: Target{test.System, test.RecordID},
		ProposedChange: test.ProposedChange, CurrentVersion: test.CurrentVersion, WorkflowVersion: test.WorkflowVersion,
		Uncertainty: test.Uncertainty, Now: test.At}
	for _, e := range test.Evidence {
		in.Evidence = append(in.Evidence, Evidence(e))
	}
	return in
}

func (r *TestResult) compare() {
	expect := r.Test.Expect
	if expect.Route != r.Decision.Route {
		r.Differences = append(r.Differences, fmt.Sprintf("route is %s, expected %s", r.Decision.Route, expect.Route))
	}
	different := func(what string, got, wanted []string) {
		if wanted != nil && !slices.Equal(got, wanted) {
			r.Differences = append(r.Differences, fmt.Sprintf("%s: %s, expected %s", what, listOr(got, "none"),
				strings.Join(wanted, ", ")))
		}
	}
	different("rules", r.Rules, expect.Rules)
	different("reasons", r.Decision.Codes(), expect.Reasons)
}
