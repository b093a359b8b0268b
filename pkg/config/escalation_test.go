package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestReminderAndEscalation(t *testing.T) { // A12
	t.Parallel()
	const written = "    review:\n      quorum: 1"

	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("actions.yaml", written, "    review: {remind_before: 90m, escalate: {before: 30m, to: [sales-operations]}}")
		loaded, err := w.load()
		require.NoError(t, err)
		review := loaded.Tenants[0].Action("payment.refund").Review
		require.Equal(t, 90*time.Minute, review.RemindBefore)
		require.Equal(t, &config.Escalation{Before: 30 * time.Minute, To: []string{"sales-operations"}}, review.Escalation)
	})

	review := func(text string) string { return "    review: {" + text + "}" }
	requireRefusals(t, []refusal{
		{"NoTimeToEscalate", "actions.yaml", written, review("escalate: {to: [sales-operations]}"), "before is missing"},
		{"NobodyToEscalateTo", "actions.yaml", written, review("escalate: {before: 1h, to: []}"), "at least one role"},
		{"ARoleThatIsNone", "actions.yaml", written, review("escalate: {before: 1h, to: [boss]}"), "boss"},
		{"BeforeAnybodyCouldDecide", "actions.yaml", written, review("escalate: {before: 4h, to: [sales-operations]}"), "before anybody could decide"},
		{"AReminderBeforeTheRequest", "actions.yaml", written, review("remind_before: 5h"), "nobody could be reminded"},
	})
}
