package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestNearDuplicateAndCorrectionSettings(t *testing.T) {
	t.Parallel()

	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("actions.yaml", "    review:\n      quorum: 1",
			"    near_duplicate: {within: 2h, ignore: [/reference]}\n    review:\n      quorum: 1")
		w.replace("sources.yaml", "correlation_id: /ticket_id", "correlation_id: /ticket_id\n    corrects: /corrects\n    attempts: 3")
		w.replace("tenant.yaml", "display_name: Demo", "display_name: Demo\nrate_limit: {per_second: 50, burst: 200}")
		loaded, err := w.load()
		require.NoError(t, err)
		tenant := loaded.Tenants[0]
		require.Equal(t, &config.NearDuplicate{Within: 2 * time.Hour, Ignore: []string{"/reference"}},
			tenant.Action("payment.refund").NearDuplicate)
		require.Equal(t, &config.RateLimit{PerSecond: 50, Burst: 200}, tenant.RateLimit)
		for _, s := range tenant.Sources {
			switch s.ID {
			case "support-refunds":
				require.Equal(t, "/corrects", s.Corrects)
				require.Equal(t, 3, s.Attempts)
			case "crm-enrichment":
				require.Equal(t, 5, s.Attempts, "unless it says otherwise")
			}
		}
	})

	const review = "    review:\n      quorum: 1"
	requireRefusals(t, []refusal{
		{"NoTimeForNearDuplicates", "actions.yaml", review, "    near_duplicate: {ignore: [/a]}\n" + review, "within is missing"},
		{"APointerWithoutASlash", "actions.yaml", review, "    near_duplicate: {within: 1h, ignore: [reference]}\n" + review,
			"no JSON pointer"},
		{"NoAttemptAtAll", "sources.yaml", "correlation_id: /ticket_id", "correlation_id: /ticket_id\n    attempts: 0",
			"attempts must be a whole number from 1 to 100"},
		{"NoRateAtAll", "tenant.yaml", "display_name: Demo", "display_name: Demo\nrate_limit: {per_second: 0}",
			"per_second must be a whole number from 1"},
	})
}
