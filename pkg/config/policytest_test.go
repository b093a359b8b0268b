package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestPolicyTestsAreRead(t *testing.T) {
	t.Parallel()

	t.Run("AsTheyAreWritten", func(t *testing.T) {
		t.Parallel()
		loaded, err := newWorld(t).load()
		require.NoError(t, err)
		require.Len(t, loaded.Tenants[0].PolicyTests, 13)
		first := loaded.Tenants[0].PolicyTests[0]
		require.Equal(t, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), first.At)
		require.Equal(t, "7", first.CurrentVersion)
		require.Equal(t, []config.CitedEvidence{{Source: "crm", Version: "7", ObservedAt: first.At.Add(-time.Hour)}},
			first.Evidence)
		require.Equal(t, config.ExpectedDecision{Route: "auto", Rules: []string{"small-contact-change"},
			Reasons: []string{"rule_matched"}}, first.Expect)
		amount, found := loaded.Tenants[0].PolicyTests[7].ProposedChange.Pointer("/amount")
		require.True(t, found)
		exact, _ := amount.Decimal()
		require.Equal(t, "5000.01", exact, "never through a float")
	})

	t.Run("TheFileMayBeLeftOut", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		delete(w.fs, demo+"policy_tests.yaml")
		loaded, err := w.load()
		require.NoError(t, err)
		require.Empty(t, loaded.Tenants[0].PolicyTests)
	})

	t.Run("AndDoNotChangeThePolicysVersion", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		with, err := w.load()
		require.NoError(t, err)
		delete(w.fs, demo+"policy_tests.yaml")
		without, err := w.load()
		require.NoError(t, err)
		require.Equal(t, with.Tenants[0].PolicyVersion, without.Tenants[0].PolicyVersion)
	})

	t.Run("TextThatLooksLikeATemplateIsText", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("policy_tests.yaml", "{email: ada@example.com}", `{email: "${x"}`)
		_, err := w.load()
		require.NoError(t, err)
	})

	requireRefusals(t, []refusal{
		{"AnUnknownSetting", "policy_tests.yaml", "expect: {route: auto", "expect: {rout: auto",
			"rout is not a known setting here, allowed: route, rules, reasons"},
		{"AMomentThatIsNone", "policy_tests.yaml", "at: 2026-12-01T12:00:00Z", "at: yesterday",
			`policy_tests.yaml:5:9: at must be a time such as 2026-12-01T12:00:00Z, found the text "yesterday"`},
		{"NoMoment", "policy_tests.yaml", "    at: 2026-12-01T12:00:00Z\n", "", "at is missing; it must be a time"},
		{"AChangeThatIsNoObject", "policy_tests.yaml", "{fields: {phone: +49 30 1234567, city: Berlin}}", "[1]",
			"proposed_change must be a mapping of names to values, found a list"},
		{"AChangeWithANumberThatIsNoJSON", "policy_tests.yaml", "amount: 100.00", "amount: 0x10",
			"proposed_change.amount cannot be written as JSON, found the value 0x10; put it in quotes"},
		{"AChangeThatCannotBeKeptExactly", "policy_tests.yaml", "amount: 100.00", `amount: "\0"`,
			"proposed_change cannot be represented faithfully"},
		{"ARouteOutsideTheList", "policy_tests.yaml", "route: auto", "route: allow",
			`route is "allow", allowed: auto, human_review, repair, reject`},
		{"AComparisonWithNothing", "policy_tests.yaml", "rules: [small-contact-change]", "rules: []",
			"rules must list at least one; leave it out to compare none"},
		{"ARepeatedName", "policy_tests.yaml", "three-fields-are-for-a-person", "a-small-change-goes-by-itself",
			`name "a-small-change-goes-by-itself" is declared already at tenants/demo/policy_tests.yaml:4:11`},
	})
}
