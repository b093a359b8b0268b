package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What may never act with no person asked is refused when the files are read, not when an intent arrives (P5, P6).
func TestUnattendedActions(t *testing.T) {
	t.Parallel()

	const autoRefund = `  - id: any-refund
    action: payment.refund
    when: "true"
    route: auto
    reason: Fast.
`
	setup := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		w.replace("policy.yaml", "rules:\n", "rules:\n"+autoRefund)
		return w
	}
	const lookup = `        lookup:
          path: /payments/refunds?reference=${operation_id}
          items: /items
          external_id: /id
          match: /reference
          index_lag: 2s
          conclusive: true
`
	blind := func(w *world) {
		w.replace("connectors.yaml", lookup, "")
		w.replace("connectors.yaml", "        replays: true\n", "")
	}
	const refusal = "policy.yaml:13:12: route auto could match payment.refund, whose operation create_refund of " +
		"sandbox-payments offers neither lookup nor idempotent create"

	t.Run("APaymentWithoutLookupAndReplayCannotBeAuto", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		blind(w)
		_, err := w.load()
		require.ErrorContains(t, err, refusal)
	})

	t.Run("ARuleForEveryTypeCountsAsWell", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		blind(w)
		w.replace("policy.yaml", "action: payment.refund", `action: "*"`)
		_, err := w.load()
		require.ErrorContains(t, err, refusal)
	})

	t.Run("AReversiblePaymentIsStillAPayment", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		blind(w)
		w.replace("actions.yaml", "reversible: false", "reversible: true")
		_, err := w.load()
		require.ErrorContains(t, err, refusal)
	})

	t.Run("AnyIrreversibleTypeIsMeant", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		blind(w)
		w.replace("actions.yaml", "category: payment", "category: deletion")
		_, err := w.load()
		require.ErrorContains(t, err, refusal)
	})

	t.Run("LookupIsEnough", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("connectors.yaml", "        replays: true\n", "")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("IdempotentCreateIsEnough", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.replace("connectors.yaml", lookup, "")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("WithoutAutoABlindConnectorMayBeUsedByPeople", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		blind(w)
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("AReversibleChangeOfAnotherKindMayBeBlind", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		blind(w)
		w.replace("actions.yaml", "reversible: false", "reversible: true")
		w.replace("actions.yaml", "category: payment", "category: discount")
		_, err := w.load()
		require.NoError(t, err)
	})

	t.Run("WhatNeedsAProfessionalCannotBeAuto", func(t *testing.T) {
		t.Parallel()
		for _, profession := range []string{"medical", "legal", "regulated_finance", "child_safety", "structural"} {
			w := newWorld(t)
			w.replace("actions.yaml", "category: crm_change", "profession: "+profession)
			w.replace("people.yaml", "[sales-ops, support-leads]}", "[sales-ops, support-leads]}\n    qualifications: ["+profession+"]")
			_, err := w.load()
			require.ErrorContains(t, err, "policy.yaml:16:12: route auto could match crm.contact.update, which needs a "+
				"qualified professional ("+profession+")")

			w.replace("policy.yaml", "action: crm.contact.update", `action: "*"`)
			_, err = w.load()
			require.ErrorContains(t, err, "route auto could match crm.contact.update")

			w.replace("policy.yaml", "route: auto", "route: human_review")
			_, err = w.load()
			require.ErrorContains(t, err, "1 to mend", "the rule about company names is left")
		}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()

	versions := func(t *testing.T, w *world) (files, policy string) {
		t.Helper()
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Version, loaded.Tenants[0].PolicyVersion
	}

	t.Run("TheSameFilesHaveTheSameVersions", func(t *testing.T) {
		t.Parallel()
		files, policy := versions(t, newWorld(t))
		again, policyAgain := versions(t, newWorld(t))
		require.Equal(t, files, again)
		require.Equal(t, policy, policyAgain)
	})

	changes := []struct {
		name, file, old, new string
		policy               bool // whether decisions may change
	}{
		{"Comments", "policy.yaml", "rules:\n", "# reviewed\n\nrules:\n", false},
		{"Connectors", "connectors.yaml", "timeout: 10s", "timeout: 11s", false},
		{"LayoutOfASchema", "schemas/payment.refund.json", `{"type": "number", `, `{ "type":"number",`, false},
		{"ARule", "policy.yaml", "decimal(thresholds.refused)", "decimal(4000)", true},
		{"AThreshold", "actions.yaml", "refused: 5000.00", "refused: 5000.01", true},
		{"ASchema", "schemas/payment.refund.json", `"GBP"`, `"CHF"`, true},
		{"AWorkflowVersion", "tenant.yaml", "support-refunds@2", "support-refunds@3", true},
		{"WhoMayBeAsked", "people.yaml", "id: carl", "id: charles", false},
		{"ARolesClaims", "people.yaml", "[operators]", "[ops]", false},
		{"AChannel", "people.yaml", "id: support-mail", "id: lead-mail", false},
		{"TheQuorum", "actions.yaml", "quorum: 1", "quorum: 2", true},
		{"TheStages", "actions.yaml", "quorum: 1", "stages: [{groups: [{role: support-lead}]}]", true},
		{"WhoDecidesForWhom", "people.yaml", "notify:\n", "delegations: []\nnotify:\n", false},
		{"HowRecentASignInIs", "actions.yaml", "quorum: 1", "recent_sign_in: 5m", true},
		{"EvidenceAge", "actions.yaml", "max_age: 1h", "max_age: 2h", true},
	}
	for _, tc := range changes {
		t.Run("AChangeOf"+tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			files, policy := versions(t, w)
			w.replace(tc.file, tc.old, tc.new)
			filesAfter, policyAfter := versions(t, w)
			require.NotEqual(t, files, filesAfter)
			if tc.policy {
				require.NotEqual(t, policy, policyAfter)
			} else {
				require.Equal(t, policy, policyAfter)
			}
		})
	}
}
