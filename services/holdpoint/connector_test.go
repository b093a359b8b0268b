package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connectorcheck"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// connectorWorld is a copy of the example and a sandbox of a test's own.
type connectorWorld struct {
	t       *testing.T
	dir     string
	sandbox *sandbox.Client
	env     []string
}

func newConnectorWorld(t *testing.T, options ...func(*sandbox.Config)) *connectorWorld {
	w := &connectorWorld{t: t, dir: t.TempDir(), sandbox: sandboxtest.New(t, options...)}
	require.NoError(t, os.CopyFS(w.dir, os.DirFS(filepath.Join(deployed, "config/example"))))
	w.env = []string{"HOLDPOINT_SANDBOX_URL=" + w.sandbox.URL(), "HOLDPOINT_CONFIG_DIR=" + w.dir, "HOLDPOINT_TENANT=demo"}
	return w
}

// verb is `holdpoint connector` with its exit code.
func (w *connectorWorld) verb(code int, args ...string) (out, complaint string) {
	w.t.Helper()
	p := run(w.t, w.env, append([]string{"connector"}, args...)...)
	require.Equal(w.t, code, p.wait(w.t), "%s\n%s", p.out, p.err)
	return p.out.String(), p.err.String()
}

func (w *connectorWorld) edit(file, old, with string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "tenants/demo", file)
	text, err := os.ReadFile(path)
	require.NoError(w.t, err)
	require.Contains(w.t, string(text), old)
	require.NoError(w.t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, with)), 0o600))
}

// quick has the lookups of the example lag for a moment only, which makes another declaration of it.
func (w *connectorWorld) quick() { w.edit("connectors.yaml", "index_lag: 2s", "index_lag: 200ms") }

func (w *connectorWorld) checks() map[string]*config.Check {
	w.t.Helper()
	cfg, err := config.LoadDir(w.dir)
	require.NoError(w.t, err)
	found := map[string]*config.Check{}
	for _, c := range cfg.Tenants[0].Checks {
		found[c.Connector] = c
	}
	return found
}

func (w *connectorWorld) writes() int {
	written, err := w.sandbox.Writes(w.t.Context(), sandbox.Filter{})
	require.NoError(w.t, err)
	return len(written)
}

var unasked = []string{"check", "--yes", "--without-switches"}

// TestTheExamplesChecksAreProvedAgain exercises what the example declares against a sandbox of this release, as it ships (D13).
func TestTheExamplesChecksAreProvedAgain(t *testing.T) {
	t.Parallel()
	w := newConnectorWorld(t)
	shipped := w.checks()
	out, _ := w.verb(0, append(unasked, "--json")...)
	var printed struct{ Checks []connectorcheck.Report }
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	require.Len(t, printed.Checks, 2, "and the executor's is attested")
	for _, report := range printed.Checks {
		require.Equal(t, shipped[report.Connector].Digest, report.Digest, "%s: run `holdpoint connector check --write`", report.Connector)
		require.ElementsMatch(t, shipped[report.Connector].Proved.Capabilities, report.Proof("").Capabilities, report.Connector)
	}
	out, _ = w.verb(0, "list")
	require.Contains(t, out, "Declared: 10. Counted on: 10.\n")
	require.Regexp(t, `warehouse +reserve_stock +replay +attested +2026-11-30 +-\n`, out)
	require.Equal(t, shipped, w.checks(), "without --write nothing is kept")
}

func TestConnectorCheckCommand(t *testing.T) {
	t.Parallel()

	t.Run("KeepsWhatWasProvedAndNothingElse", func(t *testing.T) {
		t.Parallel()
		w := newConnectorWorld(t, func(c *sandbox.Config) { c.Payments.IgnoreKeys = true })
		w.quick()
		out, _ := w.verb(0, "list", "--json")
		require.NotContains(t, out, `"ground": "proved"`, "another declaration was checked")
		out, complaint := w.verb(1, append(unasked, "--write")...)
		require.Regexp(t, `sandbox-payments +create_refund +replay +NOT PROVED +the key again was answered HTTP 201`, out)
		require.Regexp(t, `sandbox-crm +update_contact +conclusive +proved`, out)
		require.Contains(t, complaint, "of what is declared was not proved; it does not count")
		kept := w.checks()
		require.Empty(t, kept["sandbox-payments"].Proved.Capabilities)
		require.Equal(t, []string{"mismatch", "lookup", "conclusive", "conditional", "read"}, kept["sandbox-crm"].Proved.Capabilities)
		require.Equal(t, w.sandbox.URL(), kept["sandbox-crm"].Proved.Target)
		require.NotNil(t, kept["warehouse"].Attested, "others are left as they were")
		cfg, err := config.LoadDir(w.dir)
		require.NoError(t, err)
		require.False(t, cfg.Tenants[0].Operation("sandbox-payments", "create_refund").IdempotentCreate())
	})

	t.Run("WantsAYes", func(t *testing.T) {
		t.Parallel()
		w := newConnectorWorld(t)
		_, complaint := w.verb(2, "check", "--without-switches")
		require.Contains(t, complaint, "This writes to real systems")
		require.Contains(t, complaint, "up to 4 writes to "+w.sandbox.URL())
		require.Contains(t, complaint, "nothing was written: it wants a typed yes, or --yes")
		require.Zero(t, w.writes())
	})

	t.Run("IsStoppedByAClosedSwitch", func(t *testing.T) {
		t.Parallel()
		w := newConnectorWorld(t)
		w.env = append(w.env, "HOLDPOINT_DATABASE_URL="+ledgertest.New(t).DB.URL)
		w.quick()
		toggle := func(args ...string) {
			p := run(t, w.env, append(append([]string{"kill-switch"}, args...), "--by", "olga", "--reason", "looking")...)
			require.Zero(t, p.wait(t), p.err.String())
		}
		toggle("close", "--action-type", "payment.refund")
		payments := []string{"check", "--yes", "--connector", "sandbox-payments"}
		_, complaint := w.verb(2, payments...)
		require.Contains(t, complaint, `the switch "action_type demo/payment.refund" is closed, by olga: looking`)
		require.Zero(t, w.writes())
		toggle("open", "--action-type", "payment.refund", "--ramp", "0")
		w.verb(0, payments...)
		require.Equal(t, 1, w.writes())
	})

	t.Run("CannotRun", func(t *testing.T) {
		t.Parallel()
		w := newConnectorWorld(t)
		require.NoError(t, os.Remove(filepath.Join(w.dir, "tenants/demo/samples/sandbox-crm.update_contact.json")))
		for says, args := range map[string][]string{
			"ask the kill switches":                    {"check", "--yes", "--data", t.TempDir(), "--connector", "sandbox-payments"},
			"warehouse is of kind executor: nothing":   append(unasked, "--connector", "warehouse"),
			"sandbox-crm has no samples":               unasked,
			"has no operation at all of a connector x": append(unasked, "--connector", "x"),
			`has no tenant "other"`:                    append(unasked, "--tenant", "other"),
			"--sample is for one operation":            append(unasked, "--sample", "x"),
			"unknown flag":                             {"check", "--no-such"},
		} {
			_, complaint := w.verb(2, args...)
			require.Contains(t, complaint, says)
		}
		w.env = append(w.env, "AI_ACTIONS_ENABLED=false")
		_, complaint := w.verb(2, unasked...)
		require.Contains(t, complaint, "AI_ACTIONS_ENABLED is false")
		require.Zero(t, w.writes())
	})
}

func TestConnectorAttestCommand(t *testing.T) {
	t.Parallel()
	w := newConnectorWorld(t)
	w.edit("connectors.yaml", "key_window: 24h\n        key_margin: 1h\n", "key_window: 12h\n        key_margin: 1h\n")
	warehouse := []string{"--connector", "warehouse", "--operation", "reserve_stock"}
	out, _ := w.verb(0, append([]string{"list"}, warehouse...)...)
	require.Regexp(t, `warehouse +reserve_stock +replay +no: the declaration has changed since it was checked`, out)
	for says, args := range map[string][]string{
		"say who answers for it":    {"--how", "x", "--capability", "replay"},
		"say what is attested":      {"--by", "Nora", "--how", "x"},
		`does not declare "lookup"`: {"--by", "Nora", "--how", "x", "--capability", "lookup"},
	} {
		_, complaint := w.verb(1, append(append([]string{"attest"}, warehouse...), args...)...)
		require.Contains(t, complaint, says)
	}
	out, _ = w.verb(0, append(append([]string{"attest"}, warehouse...), "--by", "Nora", "--how", "Its tests: \"again\".", "--capability", "replay")...)
	require.Contains(t, out, "Nora attests replay")
	kept := w.checks()
	require.Equal(t, "Its tests: \"again\".", kept["warehouse"].Attested.How)
	require.NotNil(t, kept["sandbox-crm"].Proved)
	out, _ = w.verb(0, append([]string{"list"}, warehouse...)...)
	require.Regexp(t, `warehouse +reserve_stock +replay +attested`, out)
}

func TestConnectorProfilesCommand(t *testing.T) {
	t.Parallel()
	w := newConnectorWorld(t)
	names, _ := w.verb(0, "profiles")
	require.Equal(t, config.Profiles(), strings.Fields(names))
	text, _ := w.verb(0, "profiles", "payments")
	require.Contains(t, text, "key_window: 24h")
	_, complaint := w.verb(1, "profiles", "unknown")
	require.Contains(t, complaint, `no profile is called "unknown"; there are: crm, `)
}
