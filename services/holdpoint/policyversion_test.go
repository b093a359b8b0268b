package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestPolicyVersions is one history of a tenant's policy, in order: the cases stand on each other (P7).
func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	b.Claim(ledgertest.Proposal("seen"))
	b.Decide("auto", ledgertest.Proposal("seen"))
	example := filepath.Join(deployed, "config/example")
	larger := edited(t, "policy.yaml", "decimal(thresholds.refused)", "decimal(thresholds.refused) + 0")
	versionOf := func(dir string) string {
		cfg, err := config.LoadDir(dir)
		require.NoError(t, err)
		return cfg.Tenants[0].PolicyVersion
	}
	one, two := versionOf(example), versionOf(larger)
	require.NotEqual(t, one, two)
	verb := func(t *testing.T, args ...string) (code int, out, complaint string) {
		t.Helper()
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, append([]string{"policy"}, args...)...)
		code = p.wait(t)
		return code, p.out.String(), p.err.String()
	}
	// change runs a verb that must do something, and says what is active then.
	change := func(t *testing.T, args ...string) (out, version string) {
		t.Helper()
		code, out, complaint := verb(t, append(args, "--tenant", "demo", "--by", "olga", "--reason", "It is "+args[0]+".")...)
		require.Equal(t, 0, code, complaint)
		return out, b.Text(`select version from policy_active where tenant_id = 'demo'`)
	}
	refused := func(t *testing.T, says string, args ...string) {
		t.Helper()
		before := b.Count(`select count(*) from policy_activations`)
		code, out, complaint := verb(t, args...)
		require.Equal(t, 1, code, out)
		require.Contains(t, complaint, says)
		require.Equal(t, before, b.Count(`select count(*) from policy_activations`))
	}
	step := func(name string, check func(*testing.T)) {
		if !t.Run(name, check) {
			t.FailNow()
		}
	}

	step("NobodyAndNoReasonAreRefused", func(t *testing.T) {
		refused(t, "say who decides this", "activate", "--config", example, "--tenant", "demo", "--by", "olga")
		refused(t, "--by names a person", "activate", "--config", example, "--tenant", "demo", "--by", "files", "--reason", "r")
		refused(t, "--tenant", "rollback", "--config", example, "--tenant", "", "--by", "olga", "--reason", "r")
		refused(t, `no tenant "acme"`, "activate", "--config", example, "--tenant", "acme", "--by", "olga", "--reason", "r")
	})

	step("WhatTheTestsDoNotPassIsRefused", func(t *testing.T) {
		refused(t, "nothing was activated: ", "activate", "--tenant", "demo", "--by", "olga", "--reason", "r", "--config",
			edited(t, "policy.yaml", "has(proposed_change.fields.email)", "has(proposed_change.fields.company)"))
	})

	step("TheFilesPolicyIsActivatedAndWhatWasDecidedIsDecidedAgain", func(t *testing.T) {
		out, version := change(t, "activate", "--config", example)
		require.Equal(t, one, version)
		require.Contains(t, out, "demo: 1 decisions looked at")
		require.Contains(t, out, "Policy "+one[:12]+" of tenant demo is active (activation 2). All replicas decide by it from now on.")
		out, _ = change(t, "activate", "--config", example)
		require.Contains(t, out, "is active already (activation 2). Nothing was changed.")
		_, version = change(t, "activate", "--config", larger)
		require.Equal(t, two, version)
	})

	step("TheyAreListedWithWhoAndWhy", func(t *testing.T) {
		code, out, complaint := verb(t, "versions", "--tenant", "demo", "--config", example)
		require.Equal(t, 0, code, complaint)
		require.Regexp(t, `(?m)^3 +`+two[:12]+` +active .* olga +It is activate\.$`, out)
		require.Regexp(t, `(?m)^2 +`+one[:12]+` {3}`, out)
		require.Contains(t, out, "The files of this machine hold "+one[:12]+", which was active before and is not now.")
		_, out, _ = verb(t, "versions", "--tenant", "demo", "--json", "--config", larger)
		var said struct {
			Activations []activationView
			Files       string
		}
		require.NoError(t, json.Unmarshal([]byte(out), &said))
		require.Len(t, said.Activations, 3)
		require.True(t, said.Activations[0].Active)
		require.Equal(t, two, said.Files)
		_, out, _ = verb(t, "versions", "--tenant", "demo", "--config", t.TempDir())
		require.Contains(t, out, "What the files of this machine hold is not known")
	})

	step("ItIsRolledBackAtOnce", func(t *testing.T) {
		out, version := change(t, "rollback", "--config", larger)
		require.Equal(t, one, version)
		require.Contains(t, out, "(activation 4)")
	})

	step("RolledBackTwiceItGoesFurtherBackAndNotToWhatCannotBeUsed", func(t *testing.T) {
		refused(t, "replicas with this configuration could not use it", "rollback", "--tenant", "demo", "--by", "olga", "--reason", "r",
			"--config", example)
	})

	step("AVersionThatWasActiveIsNamedByItsFirstDigits", func(t *testing.T) {
		_, version := change(t, "rollback", "--config", example, "--to", two[:12])
		require.Equal(t, two, version)
		_, version = change(t, "activate", "--config", larger, "--version", one)
		require.Equal(t, one, version)
		refused(t, "names 0 stored versions", "rollback", "--tenant", "demo", "--by", "olga", "--reason", "r", "--config", example,
			"--to", "000000000000")
	})
}

func TestBefore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ history, before string }{
		{"a", ""}, {"ab", "a"}, {"abc", "b"}, {"abcb", "a"}, {"abcba", ""}, {"abab", "a"},
	} {
		var history []ledger.PolicyHistory
		for _, version := range c.history {
			history = append([]ledger.PolicyHistory{{Version: string(version)}}, history...)
		}
		found, err := before(history)
		require.Equal(t, c.before, found, c.history)
		require.Equal(t, c.before == "", err != nil, c.history)
	}
	_, err := before(nil)
	require.Error(t, err)
}
