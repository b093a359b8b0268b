package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	const review = "    review:\n      quorum: 1"
	limits := func(text string) string { return "    limits: [" + text + "]\n" + review }

	t.Run("WhatIsWrittenIsRead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("actions.yaml", review, limits(`{id: a-day, window: 24h, count: 20},
      {id: money, window: 1h, amount: {pointer: /proposed_change/amount, max: 100.50}, per: [/proposed_change/currency, /target/record_id]}`))
		loaded, err := w.load()
		require.NoError(t, err)
		require.Equal(t, []config.Limit{
			{ID: "a-day", Window: 24 * time.Hour, Count: 20},
			{ID: "money", Window: time.Hour, Amount: &config.AmountLimit{Pointer: "/proposed_change/amount", Max: "100.50"},
				Per: []string{"/proposed_change/currency", "/target/record_id"}},
		}, loaded.Tenants[0].Action("payment.refund").Limits)
	})

	requireRefusals(t, []refusal{
		{"NothingBounded", "actions.yaml", review, limits("{id: a, window: 1h}"), "bounds nothing"},
		{"NoWindow", "actions.yaml", review, limits("{id: a, count: 1}"), "window is missing"},
		{"NoId", "actions.yaml", review, limits("{window: 1h, count: 1}"), "id is missing"},
		{"OneIdTwice", "actions.yaml", review, limits("{id: a, window: 1h, count: 1}, {id: a, window: 2h, count: 1}"), "is declared already at"},
		{"APointerElsewhere", "actions.yaml", review, limits("{id: a, window: 1h, count: 1, per: [/model/name]}"),
			"must begin with /target/ or /proposed_change/"},
		{"AnAmountThatIsRounded", "actions.yaml", review,
			limits("{id: a, window: 1h, amount: {pointer: /proposed_change/amount, max: 1e3}}"), "max must be a plain decimal"},
		{"AnAmountOfNothing", "actions.yaml", review, limits("{id: a, window: 1h, amount: {max: 10}}"), "pointer is missing"},
		{"NoneAtAll", "actions.yaml", review, limits("{id: a, window: 1h, count: 0}"), "count must be a whole number from 1"},
	})
}
