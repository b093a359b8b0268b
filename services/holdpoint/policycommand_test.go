package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// edited is the example in a directory of its own, with one text of a file replaced.
func edited(t *testing.T, file, old, with string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(deployed, "config/example"))))
	path := filepath.Join(dir, "tenants/demo", file)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), old)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600))
	return dir
}

func TestPolicyCommand(t *testing.T) {
	t.Parallel()

	setup := edited
	load := func(t *testing.T, dir string) *config.Config {
		t.Helper()
		cfg, err := policyFlags{configDir: dir}.load()
		require.NoError(t, err)
		return cfg
	}
	example := filepath.Join(deployed, "config/example")

	t.Run("CheckFindsNothingInTheExample", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.NoError(t, checkPolicies(&out, load(t, example), policyFlags{strict: true}))
		require.Equal(t, "Rules: 6. Findings: 0.\n", out.String())
	})

	t.Run("CheckNamesThePlace", func(t *testing.T) {
		t.Parallel()
		cfg := load(t, setup(t, "policy.yaml", "has(proposed_change.fields.email)", "has(proposed_change.fields.mail)"))
		var out bytes.Buffer
		require.NoError(t, checkPolicies(&out, cfg, policyFlags{}))
		require.Contains(t, out.String(),
			"tenants/demo/policy.yaml:21:15: rule contact-email-change reads proposed_change.fields.mail")
		require.Contains(t, out.String(),
			"allowed: city, company, email, job_title, phone [unknown_field]\nRules: 6. Findings: 1.\n")

		out.Reset()
		require.EqualError(t, checkPolicies(&out, cfg, policyFlags{strict: true, raw: true}),
			"the policy check found 1, and --strict lets none pass")
		var said struct {
			Rules    int
			Findings []findingView
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &said))
		require.Equal(t, 6, said.Rules)
		require.Equal(t, "unknown_field", said.Findings[0].Code)
		require.Equal(t, 21, said.Findings[0].Line)
		require.Equal(t, 15, said.Findings[0].Column)
	})

	t.Run("TestPassesTheExample", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.NoError(t, testPolicies(&out, load(t, example), policyFlags{}))
		require.Regexp(t, `(?m)^pass +demo +a-huge-refund-is-rejected +reject +refund-needs-lead, refund-too-large$`,
			out.String())
		require.Contains(t, out.String(), "Tests: 13. Rules that no test reaches: 0.\n")
	})

	t.Run("TestNamesDifferencesAndRulesThatNoTestReaches", func(t *testing.T) {
		t.Parallel()
		cfg := load(t, setup(t, "policy.yaml", "has(proposed_change.fields.email)",
			"has(proposed_change.fields.email) && size(proposed_change.fields) == 4"))
		var out bytes.Buffer
		require.EqualError(t, testPolicies(&out, cfg, policyFlags{}),
			"1 of 13 policy tests were decided otherwise than expected")
		require.Regexp(t, `(?m)^FAIL +demo +a-change-of-the-address-is-for-a-person +human_review +none$`, out.String())
		require.Contains(t, out.String(),
			"a-change-of-the-address-is-for-a-person: rules: none, expected contact-email-change\n")
		require.Contains(t, out.String(), "tenants/demo/policy.yaml:21:11: no test reaches rule contact-email-change\n")

		out.Reset()
		require.Error(t, testPolicies(&out, cfg, policyFlags{raw: true}))
		var said struct {
			Tests     []testView
			Unreached []ruleView `json:"unreached_rules"`
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &said))
		require.Len(t, said.Tests, 13)
		require.Equal(t, []ruleView{{"demo", "contact-email-change", "tenants/demo/policy.yaml:21:11"}}, said.Unreached)
	})

	t.Run("ARuleThatDoesNotCompileIsAnErrorWithItsPlace", func(t *testing.T) {
		t.Parallel()
		cfg := load(t, setup(t, "policy.yaml", "has(proposed_change.fields.email)", "has(change.fields.email)"))
		var out bytes.Buffer
		const says = "the rules cannot be used:\ntenants/demo/policy.yaml:21:15: rule contact-email-change: when reads change, which no rule"
		require.ErrorContains(t, checkPolicies(&out, cfg, policyFlags{}), says)
		require.ErrorContains(t, testPolicies(&out, cfg, policyFlags{}), says)
		require.Empty(t, out.String())
	})

	t.Run("ItIsAVerbOfTheProgram", func(t *testing.T) {
		t.Parallel()
		p := run(t, []string{"HOLDPOINT_CONFIG_DIR=" + example}, "policy", "test")
		<-p.ended
		require.Zero(t, p.cmd.ProcessState.ExitCode(), p.err.String())
		p = run(t, nil, "policy", "check", "--strict", "--config",
			setup(t, "policy.yaml", "has(proposed_change.fields.email)", "has(proposed_change.fields.mail)"))
		<-p.ended
		require.Equal(t, 1, p.cmd.ProcessState.ExitCode(), p.err.String())
		require.Contains(t, p.err.String(), "--strict lets none pass")
	})
}
