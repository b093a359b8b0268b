package intent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/intent"
)

func TestDraws(t *testing.T) { // P8
	t.Parallel()
	snapshot := func(t *testing.T, target, change string) *intent.Snapshot {
		t.Helper()
		tree, err := canonical.Parse([]byte(`{"target":` + target + `,"proposed_change":` + change + `}`))
		require.NoError(t, err)
		return &intent.Snapshot{Ordinal: 1, Action: tree}
	}
	const target = `{"system":"payments","record_id":"p-1"}`
	money := &config.Action{Type: "payment.refund", Limits: []config.Limit{{ID: "daily", Window: time.Hour, Count: 3,
		Amount: &config.AmountLimit{Pointer: "/proposed_change/amount", Max: "10.00"}, Per: []string{"/proposed_change/currency"}}}}

	t.Run("EqualValuesShareABudgetAndOthersDoNot", func(t *testing.T) {
		t.Parallel()
		scope := func(change string) canonical.Digest {
			draws, err := snapshot(t, target, change).Draws(money)
			require.NoError(t, err)
			return draws[0].Scope
		}
		euro := scope(`{"amount":"1","currency":"EUR"}`)
		require.Equal(t, euro, scope(`{"currency":"EUR","amount":2.5}`))
		require.NotEqual(t, euro, scope(`{"amount":"1","currency":"USD"}`))
		require.NotEqual(t, euro, scope(`{"amount":"1"}`))
		require.Equal(t, scope(`{"amount":"1"}`), scope(`{"amount":"1","currency":null}`))
	})

	t.Run("TheAmountIsExactlyWhatIsWritten", func(t *testing.T) {
		t.Parallel()
		for change, amount := range map[string]string{
			`{"amount":"0.10"}`: "0.10", `{"amount":12345678901234567890.12}`: "12345678901234567890.12", `{"amount":0}`: "0",
		} {
			draws, err := snapshot(t, target, change).Draws(money)
			require.NoError(t, err)
			require.Equal(t, amount, draws[0].Amount)
			require.Equal(t, "payment.refund/daily", draws[0].Limit)
			require.Equal(t, "10.00", draws[0].Max)
			require.Equal(t, 3, draws[0].Count)
		}
	})

	t.Run("WhatCannotBeAddedUpIsAnError", func(t *testing.T) {
		t.Parallel()
		for _, change := range []string{`{}`, `{"amount":null}`, `{"amount":true}`, `{"amount":"ten"}`, `{"amount":"1e9"}`,
			`{"amount":{"value":1}}`, `{"amount":"-5"}`, `{"amount":-5}`, `{"amount":""}`} {
			_, err := snapshot(t, target, change).Draws(money)
			require.ErrorContains(t, err, "limit daily", change)
		}
	})
}
