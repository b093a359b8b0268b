package policy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func TestLimits(t *testing.T) { // P8
	t.Parallel()
	world := setup(t, servicetest.WithConfig(func(tenant *config.Tenant) {
		servicetest.Action(tenant, "payment.refund").Limits = []config.Limit{{ID: "a-day", Window: 24 * time.Hour, Count: 5,
			Amount: &config.AmountLimit{Pointer: "/proposed_change/amount", Max: "30.00"}, Per: []string{"/proposed_change/currency"}}}
		servicetest.Action(tenant, "crm.contact.update").Limits = []config.Limit{{ID: "sum", Window: time.Hour,
			Amount: &config.AmountLimit{Pointer: "/proposed_change/fields/city", Max: "1"}}}
	}))
	in := func(currency string) func(*servicetest.Proposal) {
		return func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"payment_id": "p-1", "amount": json.Number("12.50"), "currency": currency}
		}
	}

	t.Run("WhatGoesOverABudgetGoesToAPersonWhoIsToldOfIt", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Refund("l1", in("EUR")), b.Refund("l2", in("EUR")), b.Refund("l3", in("EUR")), b.Refund("l4", in("USD")))
		for key, state := range map[string]string{"l1": ledger.RunApproved, "l2": ledger.RunApproved, "l4": ledger.RunApproved,
			"l3": ledger.RunAwaitingHuman} {
			require.Equal(t, state, b.World.Run(key).State, key)
		}
		d := b.decision("l3")
		require.Equal(t, config.RouteHumanReview, d.Route)
		reason := d.Reasons[len(d.Reasons)-1]
		require.Equal(t, engine.CodeLimitExceeded, reason.Code)
		require.Equal(t, "It would go over the limit payment.refund/a-day: in the last 24h0m0s 2 of 5 were authorized, and 25 of 30.00; "+
			"this asks for 12.5.", reason.Message)
		require.Zero(t, b.Count(`select count(*) from limit_draws where run_id = $1`, b.World.Run("l3").RunID))
	})

	t.Run("WhatCannotBeCountedGoesToAPerson", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Contact("uncounted"))
		require.Equal(t, ledger.RunAwaitingHuman, b.World.Run("uncounted").State)
		require.Contains(t, engine.Decision{Reasons: b.decision("uncounted").Reasons}.Codes(), engine.CodeLimitUnreadable)
	})
}
