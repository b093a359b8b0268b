package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	engine "github.com/holdpoint/holdpoint/pkg/policy"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// replayed decides again on all that was decided, by a configuration that is changed first.
func (b *bench) replayed(amount string, change func(*config.Tenant)) ReplayReport {
	b.t.Helper()
	candidate := b.Configuration(change).Tenants[0]
	replay, err := NewReplay(candidate, amount)
	require.NoError(b.t, err)
	operator := b.Env(ledger.Operator).Ledger
	require.NoError(b.t, operator.Recorded(b.t.Context(), ledger.RecordedQuery{TenantID: ledgertest.Tenant,
		Since: time.Now().Add(-time.Hour), Limit: 1000}, replay.Add))
	return replay.Report()
}

func refundOf(amount string) func(*servicetest.Proposal) {
	return func(p *servicetest.Proposal) {
		p.ProposedChange = map[string]any{"payment_id": "p-1", "amount": json.Number(amount), "currency": "EUR"}
	}
}

func TestReplay(t *testing.T) { // P7, P10
	t.Parallel()
	b := setup(t)
	b.decided(b.Refund("r1", refundOf("10.10")), b.Refund("r2", refundOf("20.20")), b.Refund("r3", refundOf("99")), b.Contact("c1"))
	before := b.Count(`select count(*) from policy_decisions`)

	t.Run("TheSamePolicyFlipsNothing", func(t *testing.T) {
		report := b.replayed("", func(*config.Tenant) {})
		require.Equal(t, 4, report.Decisions)
		require.Equal(t, 4, report.Same)
		require.Empty(t, report.Flips)
	})

	t.Run("WhatFlipsIsCountedWithItsAmounts", func(t *testing.T) {
		report := b.replayed("/proposed_change/amount", func(tenant *config.Tenant) {
			servicetest.Action(tenant, "payment.refund").Thresholds["needs_lead"] = "15"
		})
		require.Equal(t, 2, report.Same)
		require.Equal(t, []Flip{{ActionType: "payment.refund", From: config.RouteAuto, To: config.RouteHumanReview, Count: 2, Amount: "119.2",
			Keys: []string{"r3", "r2"}}}, sorted(report.Flips))
	})

	t.Run("NothingIsStoredOrAuthorized", func(t *testing.T) {
		require.Equal(t, before, b.Count(`select count(*) from policy_decisions`))
	})

	t.Run("RulesThatDoNotCompileAreRefused", func(t *testing.T) {
		_, err := NewReplay(b.Configuration(func(tenant *config.Tenant) { tenant.Rules[0].When = "no_such(" }).Tenants[0], "")
		require.Error(t, err)
	})
}

// sorted puts the keys of flips in an order that does not depend on which of one batch was stored first.
func sorted(flips []Flip) []Flip {
	for _, f := range flips {
		slices.SortFunc(f.Keys, func(a, b string) int { return strings.Compare(b, a) })
	}
	return flips
}

func TestWhatWasRaisedByMoreThanRulesStaysRaised(t *testing.T) {
	t.Parallel()
	limits := func(tenant *config.Tenant) {
		servicetest.Action(tenant, "payment.refund").Limits = []config.Limit{{ID: "one", Window: time.Hour, Count: 1,
			Amount: &config.AmountLimit{Pointer: "/proposed_change/amount", Max: "1000"}}}
	}
	b := setup(t, servicetest.WithConfig(limits))
	b.decided(b.Refund("r1", refundOf("10")), b.Refund("r2", refundOf("20")))
	report := b.replayed("", limits)
	require.Equal(t, 2, report.Same, "the second went to a person because of the first, and still would")
	report = b.replayed("", func(tenant *config.Tenant) {
		limits(tenant)
		tenant.Rules = append(tenant.Rules, &config.Rule{ID: "no", Action: "payment.refund", When: "true", Route: config.RouteReject, Reason: "No."})
	})
	require.Len(t, report.Flips, 2)
	for _, f := range report.Flips {
		require.Equal(t, config.RouteReject, f.To)
		require.Contains(t, []string{"10", "20"}, f.Amount, "what the type's limits add up")
	}
}

// TestShadow is P10: a type in shadow mode is decided, and that is all.
func TestShadow(t *testing.T) {
	t.Parallel()
	b := setup(t, servicetest.WithConfig(func(tenant *config.Tenant) {
		servicetest.Action(tenant, "payment.refund").Shadow = true
		servicetest.Action(tenant, "crm.contact.update").Shadow = true
	}))
	b.decided(b.Refund("auto", refundOf("10")), b.Refund("review", refundOf("500")), b.Contact("contact"))
	for key, route := range map[string]string{"auto": config.RouteAuto, "review": config.RouteHumanReview, "contact": config.RouteAuto} {
		d := b.decision(key)
		require.Equal(t, config.RouteReject, d.Route)
		last := d.Reasons[len(d.Reasons)-1]
		require.Equal(t, engine.CodeShadow, last.Code)
		require.Equal(t, route, last.Route, key)
		run := b.World.Run(key)
		require.Equal(t, ledger.OutcomeDenied, run.Outcome)
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, run.RunID))
		require.Zero(t, b.Count(`select count(*) from approvals where run_id = $1`, run.RunID))
	}
	report := b.replayed("", func(*config.Tenant) {})
	require.Equal(t, 3, report.Same, "a replay compares with the route that would have been taken")
}
