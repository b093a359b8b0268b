package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// policyFlags are what the verbs about policies can be told.
type policyFlags struct {
	configDir   string
	raw, strict bool
}

// addPolicyVerbs puts the verbs about rules below the command that runs the policy service.
func addPolicyVerbs(service *cobra.Command) {
	var f policyFlags
	check := &cobra.Command{
		Use:   "check",
		Short: "Say which rules can never fire, and what nothing reads",
		Long: "Say which rules can never match or never decide, which comparisons the schemas have settled already, and which " +
			"declarations and fields no rule reads. A configuration that cannot be loaded, or a rule that does not compile, is an " +
			"error; the rest is advice, and services log the same when they start.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			return checkPolicies(cmd.OutOrStdout(), cfg, f)
		},
	}
	check.Flags().BoolVar(&f.strict, "strict", false, "end with exit code 1 where anything is found")
	test := &cobra.Command{
		Use:   "test",
		Short: "Decide on the intents of policy_tests.yaml, and compare with what is expected",
		Long: "Decide on every intent of each tenant's policy_tests.yaml as it would be decided in earnest, and compare route, rules " +
			"and reasons with what is expected. Any difference ends with exit code 1. Rules that no test reaches are named.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			return testPolicies(cmd.OutOrStdout(), cfg, f)
		},
	}
	for _, verb := range []*cobra.Command{check, test, policyReplayCommand(&f), policyCandidatesCommand(&f), policyActivateCommand(&f),
		policyRollbackCommand(&f), policyVersionsCommand(&f)} {
		verb.Flags().StringVar(&f.configDir, "config", "", "configuration directory, with a folder tenants (default: HOLDPOINT_CONFIG_DIR, else /etc/holdpoint)")
		verb.Flags().BoolVar(&f.raw, "json", false, "print JSON")
		service.AddCommand(verb)
	}
}

func (f policyFlags) load() (*config.Config, error) {
	var common service.Settings
	if err := service.Load("", &common); err != nil {
		return nil, err
	}
	dir := cmp.Or(f.configDir, common.ConfigDir)
	cfg, err := config.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("configuration in %s (another is named with --config):\n%w", dir, err)
	}
	return cfg, nil
}

// findingView is a finding as programs read it.
type findingView struct {
	Tenant  string `json:"tenant"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Code    string `json:"code"`
	Rule    string `json:"rule,omitempty"`
	Action  string `json:"action,omitempty"`
	Message string `json:"message"`
}

func checkPolicies(out io.Writer, cfg *config.Config, f policyFlags) error {
	views, rules := []findingView{}, 0
	var errs []error
	for _, t := range cfg.Tenants {
		found, err := policy.Check(t)
		errs = append(errs, err)
		rules += len(t.Rules)
		for _, one := range found {
			views = append(views, findingView{one.Tenant, one.Pos.File, one.Pos.Line, one.Pos.Column, one.Code, one.RuleID,
				one.Action,
				one.Message})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the rules cannot be used:\n%w", err)
	}
	for _, w := range cfg.Warnings {
		views = append(views, findingView{Tenant: w.Tenant, File: w.Pos.File, Line: w.Pos.Line, Column: w.Pos.Column,
			Code: "connector_check", Message: w.Msg})
	}
	if err := showFindings(out, views, rules, f.raw); err != nil {
		return err
	}
	if f.strict && len(views) > 0 {
		return fmt.Errorf("the policy check found %d, and --strict lets none pass", len(views))
	}
	return nil
}

func showFindings(out io.Writer, views []findingView, rules int, raw bool) error {
	if raw {
		return printJSON(out, map[string]any{"rules": rules, "findings": views})
	}
	p := printer{out}
	for _, v := range views {
		p.line("%s: %s [%s]", config.Position{File: v.File, Line: v.Line, Column: v.Column}, v.Message, v.Code)
	}
	p.line("Rules: %d. Findings: %d.", rules, len(views))
	return nil
}

// testView is a policy test as programs read it.
type testView struct {
	Tenant      string          `json:"tenant"`
	Test        string          `json:"test"`
	Passed      bool            `json:"passed"`
	Route       string          `json:"route"`
	Rules       []string        `json:"rules"`
	Reasons     []policy.Reason `json:"reasons"`
	Differences []string        `json:"differences"`
	at          config.Position
}

// ruleView is a rule that no test reaches.
type ruleView struct {
	Tenant string `json:"tenant"`
	Rule   string `json:"rule"`
	At     string `json:"at"`
}

func testPolicies(out io.Writer, cfg *config.Config, f policyFlags) error {
	tests, unreached := []testView{}, []ruleView{}
	failed := 0
	var errs []error
	for _, t := range cfg.Tenants {
		report, err := policy.RunTests(t)
		errs = append(errs, err)
		failed += report.Failed()
		for _, r := range report.Results {
			tests = append(tests, testView{t.ID, r.Test.Name, len(r.Differences) == 0, r.Decision.Route, append([]string{},
				r.Rules...),
				r.Decision.Reasons, append([]string{}, r.Differences...), r.Test.Pos})
		}
		for _, r := range report.Unreached {
			unreached = append(unreached, ruleView{t.ID, r.ID, r.Pos.String()})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the rules cannot be used:\n%w", err)
	}
	if err := showTests(out, tests, unreached, f.raw); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d policy tests were decided otherwise than expected", failed, len(tests))
	}
	return nil
}

func showTests(out io.Writer, tests []testView, unreached []ruleView, raw bool) error {
	if raw {
		return printJSON(out, map[string]any{"tests": tests, "unreached_rules": unreached})
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	p := printer{table}
	p.line("RESULT\tTENANT\tTEST\tROUTE\tRULES")
	for _, t := range tests {
		result := "pass"
		if !t.Passed {
			result = "FAIL"
		}
		p.line("%s\t%s\t%s\t%s\t%s", result, t.Tenant, t.Test, t.Route, cmp.Or(strings.Join(t.Rules, ", "), "none"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	p = printer{out}
	for _, t := range tests {
		for _, d := range t.Differences {
			p.line("%s: %s: %s", t.at, t.Test, d)
		}
	}
	for _, r := range unreached {
		p.line("%s: no test reaches rule %s", r.At, r.Rule)
	}
	p.line("Tests: %d. Rules that no test reaches: %d.", len(tests), len(unreached))
	return nil
}
