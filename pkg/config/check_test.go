package config_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const dayLong = 24 * time.Hour

// TestChecks is what counts of what connectors declare (D13).
func TestChecks(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) *world {
		w := newWorld(t)
		w.unproven = true
		return w
	}
	load := func(t *testing.T, w *world) (*config.Config, *config.Operation, *config.Operation) {
		t.Helper()
		cfg, err := w.load()
		require.NoError(t, err)
		return cfg, cfg.Tenants[0].Operation("sandbox-crm", "update_contact"), cfg.Tenants[0].Operation("sandbox-payments", "create_refund")
	}
	messages := func(cfg *config.Config) string {
		var all []string
		for _, w := range cfg.Warnings {
			all = append(all, w.String())
		}
		return strings.Join(all, "\n")
	}

	t.Run("WhatIsProvedCounts", func(t *testing.T) {
		t.Parallel()
		cfg, update, refund := load(t, setup(t))
		require.Empty(t, cfg.Warnings)
		require.True(t, refund.IdempotentCreate())
		require.True(t, refund.Lookup.Conclusive)
		require.True(t, update.Lookup.Conclusive)
		require.True(t, update.Conditional.Counts())
		for _, claim := range update.Standing.Claims {
			require.True(t, claim.Counts())
			require.Equal(t, config.GroundProved, claim.Ground)
			require.Zero(t, claim.Until, "the example's checks count for ever")
		}
	})

	t.Run("WithoutAFileNothingCounts", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		delete(w.fs, demo+"checks.yaml")
		cfg, update, refund := load(t, w)
		require.False(t, refund.IdempotentCreate())
		require.Equal(t, "Idempotency-Key", refund.IdempotencyHeader, "the key is sent all the same")
		require.Nil(t, refund.Lookup)
		require.Nil(t, update.Lookup)
		require.False(t, update.Conditional.Counts())
		require.Equal(t, "If-Match", update.Conditional.Header, "the version is sent all the same")
		require.NotNil(t, update.Read)
		require.False(t, cfg.Tenants[0].Operation("warehouse", "reserve_stock").IdempotentCreate())
		require.Len(t, cfg.Warnings, 3)
		require.Contains(t, messages(cfg), "tenants/demo/connectors.yaml:97:9: what operation create_refund of sandbox-payments declares of "+
			"replay, lookup, conclusive is not counted, because checks.yaml has no check of it; until then it is taken for not declared. "+
			"Prove it: holdpoint connector check --tenant demo --connector sandbox-payments --operation create_refund --write")
		require.Contains(t, messages(cfg), "holdpoint connector attest --tenant demo --connector warehouse --operation reserve_stock "+
			"--capability replay")
	})

	t.Run("AnotherDeclarationMakesACheckStale", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("connectors.yaml", "key_window: 24h # the provider", "key_window: 48h # the provider")
		cfg, update, refund := load(t, w)
		require.False(t, refund.IdempotentCreate())
		require.Nil(t, refund.Lookup)
		require.True(t, update.Lookup.Conclusive, "another operation's check stays good")
		require.Contains(t, messages(cfg), "the declaration has changed since it was checked")
	})

	t.Run("AnotherAddressDoesNot", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.env["HOLDPOINT_SANDBOX_URL"] = "http://127.0.0.1:9"
		w.replace("connectors.yaml", "timeout: 10s", "timeout: 3s")
		cfg, _, refund := load(t, w)
		require.Empty(t, cfg.Warnings)
		require.True(t, refund.IdempotentCreate())
	})

	t.Run("WhatTheCheckDidNotProveDoesNotCount", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("checks.yaml", "[replay, mismatch, lookup, conclusive]", "[mismatch, lookup]")
		cfg, _, refund := load(t, w)
		require.False(t, refund.IdempotentCreate())
		require.NotNil(t, refund.Lookup)
		require.False(t, refund.Lookup.Conclusive)
		require.Contains(t, messages(cfg), "declares of replay, conclusive is not counted, because its check did not prove it")
	})

	t.Run("AnIrreversibleTypeNeedsAProofToActUnattended", func(t *testing.T) { // P6
		t.Parallel()
		w := setup(t)
		w.replace("policy.yaml", "rules:\n", "rules:\n  - id: any-refund\n    action: payment.refund\n    when: \"true\"\n    route: auto\n"+
			"    reason: Fast.\n")
		w.replace("checks.yaml", "[replay, mismatch, lookup, conclusive]", "[lookup]")
		_, err := w.load()
		require.NoError(t, err, "one of the two is enough")

		w.replace("checks.yaml", "[lookup]", "[mismatch]")
		_, err = w.load()
		require.ErrorContains(t, err, "policy.yaml:13:12: route auto could match payment.refund")
		require.ErrorContains(t, err, "; its replay is declared, and not counted because its check did not prove it; its lookup is "+
			"declared, and not counted because its check did not prove it. Prove it: holdpoint connector check --tenant demo --connector sandbox-payments --operation create_refund")

		cfg, err := config.LoadDeclared(w.fs, w.getenv)
		require.NoError(t, err, "what checks it must be able to read it")
		require.True(t, cfg.Tenants[0].Operation("sandbox-payments", "create_refund").IdempotentCreate())
	})

	t.Run("AnAttestationCountsAsOne", func(t *testing.T) {
		t.Parallel()
		cfg, _, _ := load(t, setup(t))
		op := cfg.Tenants[0].Operation("warehouse", "reserve_stock")
		require.True(t, op.IdempotentCreate())
		require.Len(t, op.Standing.Claims, 1)
		require.Equal(t, config.GroundAttested, op.Standing.Claims[0].Ground)
	})

	t.Run("ACheckThatFailedAfterwardsOutweighsAnAttestation", func(t *testing.T) {
		t.Parallel()
		for at, counts := range map[string]bool{"2026-11-01T00:00:00Z": false, "2100-01-01T00:00:00Z": true} {
			w := setup(t)
			w.replace("checks.yaml", "[replay, mismatch, lookup, conclusive]", "[lookup]\n    attested: {by: Nora, at: "+at+
				", how: The manual., capabilities: [replay]}")
			_, _, refund := load(t, w)
			require.Equal(t, counts, refund.IdempotentCreate(), at)
		}
	})

	t.Run("WhatIsNotDeclaredIsNamed", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("checks.yaml", "operation: reserve_stock", "operation: reserve")
		cfg, _, _ := load(t, w)
		require.Contains(t, messages(cfg), "connectors.yaml declares no operation reserve of warehouse, so this counts for nothing")
	})

	t.Run("AnOperationStandsThereOnce", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		text := string(w.fs[demo+"checks.yaml"].Data)
		_, entries, _ := strings.Cut(text, "checks:\n")
		w.fs[demo+"checks.yaml"] = &fstest.MapFile{Data: []byte(text + entries)}
		_, err := w.load()
		require.ErrorContains(t, err, "operation \"sandbox-crm.update_contact\" is declared already at")
	})

	t.Run("TheExamplesFileIsAsItWouldBeWritten", func(t *testing.T) {
		t.Parallel()
		cfg, _, _ := load(t, setup(t))
		text, err := os.ReadFile(config.ChecksFile(exampleDir, "demo"))
		require.NoError(t, err)
		require.Equal(t, string(text), string(config.FormatChecks(cfg.Tenants[0].Checks)))
		require.Equal(t, "checks: []\n", string(config.FormatChecks(nil)[len(config.FormatChecks(nil))-len("checks: []\n"):]))
	})
}

// TestAgeOfChecks loads the example at other times: its checks are of the end of November 2026.
func TestAgeOfChecks(t *testing.T) {
	t.Parallel()
	checked := time.Date(2026, 11, 30, 21, 47, 44, 0, time.UTC)
	at := func(t *testing.T, w *world, now time.Time) (replays bool, warnings int) {
		t.Helper()
		cfg, err := config.LoadAt(w.fs, w.getenv, now)
		require.NoError(t, err)
		op := cfg.Tenants[0].Operation("sandbox-payments", "create_refund")
		return op.IdempotentCreate(), len(cfg.Warnings)
	}

	t.Run("ForEverIsForEver", func(t *testing.T) {
		t.Parallel()
		replays, warnings := at(t, newWorld(t), checked.Add(3650*dayLong))
		require.True(t, replays)
		require.Zero(t, warnings)
	})

	t.Run("AYearUnlessItSaysOtherwise", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("tenant.yaml", "checks_good_for: none\n", "")
		replays, warnings := at(t, w, checked.Add(334*dayLong))
		require.True(t, replays)
		require.Zero(t, warnings)
		replays, warnings = at(t, w, checked.Add(336*dayLong))
		require.True(t, replays, "it is warned of for thirty days")
		require.Equal(t, 3, warnings)
		replays, _ = at(t, w, checked.Add(365*dayLong-time.Minute))
		require.True(t, replays)
		replays, warnings = at(t, w, checked.Add(365*dayLong))
		require.False(t, replays)
		require.Equal(t, 3, warnings)
	})

	t.Run("AConnectorMaySayOtherwise", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "  - id: sandbox-payments\n", "  - id: sandbox-payments\n    checks_good_for: 10d\n")
		replays, _ := at(t, w, checked.Add(9*dayLong))
		require.True(t, replays)
		replays, warnings := at(t, w, checked.Add(11*dayLong))
		require.False(t, replays)
		require.Equal(t, 1, warnings)
	})
}
