package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestTogether(t *testing.T) { // D10
	t.Parallel()
	update := func(change ...func(*config.Action)) *config.Action {
		a := &config.Action{Type: "crm.contact.update", Connector: "crm", Operation: "update", Risk: config.RiskLow, Reversible: true,
			Audience: []string{"sales", "finance"}, DecideWithin: time.Hour, ExecuteWithin: 2 * time.Hour,
			Review: config.ReviewRule{Quorum: 1, RemindBefore: time.Minute}, Revisions: config.Revisions{Rounds: 3, Within: time.Hour}}
		for _, c := range change {
			c(a)
		}
		return a
	}
	refund := func(change ...func(*config.Action)) *config.Action {
		a := &config.Action{Type: "payment.refund", Connector: "payments", Operation: "refund", Risk: config.RiskHigh, Audience: []string{"finance"},
			Category: "payment", DecideWithin: 2 * time.Hour, ExecuteWithin: time.Hour,
			Review: config.ReviewRule{Quorum: 2, TypedReason: true, RecentSignIn: time.Minute}, Revisions: config.Revisions{Rounds: 1, Within: time.Minute}}
		for _, c := range change {
			c(a)
		}
		return a
	}
	together := func(t *testing.T, actions ...*config.Action) *config.Action {
		all, err := config.Together(actions)
		require.NoError(t, err)
		return all
	}

	t.Run("OneActionIsItself", func(t *testing.T) {
		t.Parallel()
		a := update()
		require.Same(t, a, together(t, a))
	})

	t.Run("TheStricterOfEverythingHolds", func(t *testing.T) {
		t.Parallel()
		for _, actions := range [][]*config.Action{{update(), refund()}, {refund(), update()}} {
			all := together(t, actions...)
			require.Equal(t, []string{"finance"}, all.Audience)
			require.Equal(t, config.ReviewRule{Quorum: 2, TypedReason: true, RecentSignIn: time.Minute, RemindBefore: time.Minute}, all.Review)
			require.Equal(t, []any{config.RiskHigh, false, "payment", time.Hour, time.Hour, config.Revisions{Rounds: 1, Within: time.Minute}},
				[]any{all.Risk, all.Reversible, all.Category, all.DecideWithin, all.ExecuteWithin, all.Revisions})
		}
		require.Equal(t, "crm.contact.update+payment.refund", together(t, update(), refund(), update()).Type)
	})

	t.Run("WithoutACommonRoleAllGroupsMustApprove", func(t *testing.T) {
		t.Parallel()
		all := together(t, update(func(a *config.Action) { a.Audience = []string{"sales"} }), refund())
		require.Equal(t, []config.Stage{{Groups: []config.Group{{Role: "sales", Approvals: 1}, {Role: "finance", Approvals: 2}}}}, all.Review.Stages)
		require.Equal(t, 3, all.Review.Quorum)
		require.Equal(t, []string{"sales", "finance"}, all.Audience)
	})

	t.Run("StagesAreMergedStepByStep", func(t *testing.T) {
		t.Parallel()
		staged := func(a *config.Action) {
			a.Audience = []string{"finance", "legal"}
			a.Review.Stages = []config.Stage{{Groups: []config.Group{{Role: "finance", Approvals: 1}}}, {Groups: []config.Group{{Role: "legal", Approvals: 1}}}}
		}
		all := together(t, refund(), refund(staged, func(a *config.Action) { a.Type = "payment.credit" }))
		require.Equal(t, []config.Stage{{Groups: []config.Group{{Role: "finance", Approvals: 2}}}, {Groups: []config.Group{{Role: "legal", Approvals: 1}}}},
			all.Review.Stages)
	})

	t.Run("WhatNobodyCanDecideOnIsAnError", func(t *testing.T) {
		t.Parallel()
		_, err := config.Together([]*config.Action{update(), refund(func(a *config.Action) { a.Audience = []string{"legal"} })})
		require.ErrorContains(t, err, "no role may decide on all of them")
		_, err = config.Together([]*config.Action{update(func(a *config.Action) { a.Profession = "legal" }),
			refund(func(a *config.Action) { a.Profession = "medical" })})
		require.ErrorContains(t, err, "people of two professions, legal and medical")
	})

	t.Run("ATenantKnowsKindsBySeveralTypes", func(t *testing.T) {
		t.Parallel()
		tenant := &config.Tenant{Actions: []*config.Action{update(), refund()}}
		require.Equal(t, 2, tenant.Action("crm.contact.update+payment.refund").Review.Quorum)
		require.Nil(t, tenant.Action("crm.contact.update+unknown"))
		require.Nil(t, tenant.Action("unknown"))
	})
}
