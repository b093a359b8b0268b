package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestReviewRules(t *testing.T) {
	t.Parallel()

	const written = "    review:\n      quorum: 1"
	rule := func(t *testing.T, risk, review string) config.ReviewRule {
		t.Helper()
		w := newWorld(t)
		w.replace("actions.yaml", "risk: high", "risk: "+risk)
		w.replace("actions.yaml", written, review)
		loaded, err := w.load()
		require.NoError(t, err)
		rule := loaded.Tenants[0].Action("payment.refund").Review
		require.Equal(t, time.Hour, rule.RemindBefore, "a quarter of its four hours")
		rule.RemindBefore = 0
		return rule
	}

	cases := []struct {
		name, risk, review string
		want               config.ReviewRule
	}{
		{"HighRiskAlwaysTakesAReasonAndARecentSignIn", "high", "",
			config.ReviewRule{Quorum: 1, TypedReason: true, RecentSignIn: 15 * time.Minute}},
		{"HighRiskMayAskForMore", "high", "    review: {quorum: 10, typed_reason: true, recent_sign_in: 5m}",
			config.ReviewRule{Quorum: 10, TypedReason: true, RecentSignIn: 5 * time.Minute}},
		{"MediumRiskAsksForNeither", "medium", "", config.ReviewRule{Quorum: 1}},
		{"LowRiskAsksForNeither", "low", "    review: {quorum: 2}", config.ReviewRule{Quorum: 2}},
		{"AnyRiskMayAskForBoth", "low", "    review: {typed_reason: true, recent_sign_in: 1h}",
			config.ReviewRule{Quorum: 1, TypedReason: true, RecentSignIn: time.Hour}},
		{"AnExplicitFalseIsTheDefault", "medium", "    review: {typed_reason: false}", config.ReviewRule{Quorum: 1}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, rule(t, tc.risk, tc.review))
		})
	}

	requireRefusals(t, []refusal{
		{"HighRiskWithoutAReason", "actions.yaml", "quorum: 1", "typed_reason: false",
			"actions.yaml:40:21: typed_reason must be true or left out: risk is high"},
		{"HighRiskWithASignInOfAnyAge", "actions.yaml", "quorum: 1", "recent_sign_in: 0s",
			`recent_sign_in must be a positive duration such as 30s, 15m or 24h, found the text "0s"`},
		{"ASignInAgeThatIsANumber", "actions.yaml", "quorum: 1", "recent_sign_in: 0",
			"recent_sign_in must be a positive duration such as 30s, 15m or 24h, found the value 0"},
		{"NobodyAsQuorum", "actions.yaml", "quorum: 1", "quorum: 0",
			"actions.yaml:40:15: quorum must be a whole number from 1 to 10, found the value 0"},
		{"ACrowdAsQuorum", "actions.yaml", "quorum: 1", "quorum: 11", "quorum must be a whole number from 1 to 10"},
		{"AnUnknownReviewSetting", "actions.yaml", "quorum: 1", "qorum: 1",
			"qorum is not a known setting here, allowed: remind_before, escalate, quorum, stages, typed_reason, recent_sign_in, break_glass"},
	})
}
