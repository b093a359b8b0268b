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

// TestActionsTogether is D10: what one decision makes of several actions.
func TestActionsTogether(t *testing.T) {
	t.Parallel()
	world := setup(t, servicetest.WithConfig(func(tenant *config.Tenant) {
		servicetest.Action(tenant, "crm.contact.update").NearDuplicate = &config.NearDuplicate{Within: time.Hour}
		servicetest.Action(tenant, "payment.refund").NearDuplicate = &config.NearDuplicate{Within: time.Hour}
	}))
	large := func(key string) servicetest.Proposal {
		p := servicetest.RefundProposal(key)
		p.ProposedChange = map[string]any{"payment_id": "p-" + key, "amount": json.Number("900.00"), "currency": "EUR"}
		return p
	}

	t.Run("WhereEveryActionMayPassAllOfThemDo", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Plan("pass", servicetest.ContactProposal("pass"), servicetest.RefundProposal("pass")))
		require.Equal(t, config.RouteAuto, b.decision("pass").Route)
		require.Equal(t, 2, b.Count(`select count(*) from effects where run_id = $1 and actions = 2 and stage = ordinal and
(action_type, connector) in (('crm.contact.update', 'sandbox-crm'), ('payment.refund', 'sandbox-payments'))`, b.World.Run("pass").RunID))
	})

	t.Run("TheStrictestRouteIsTheRouteOfAll", func(t *testing.T) {
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Plan("person", servicetest.ContactProposal("person"), large("person")))
		d := b.decision("person")
		require.Equal(t, config.RouteHumanReview, d.Route)
		require.Contains(t, d.Reasons[len(d.Reasons)-1].Message, "Action 2, payment.refund: ")
		require.Equal(t, "crm.contact.update+payment.refund", b.Text(`select action_type from approvals where run_id = $1`,
			b.World.Run("person").RunID))
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, b.World.Run("person").RunID))

		unknown := servicetest.ContactProposal("unknown")
		unknown.ActionType = "crm.contact.destroy"
		b.decided(b.Plan("unknown", servicetest.ContactProposal("known"), unknown))
		require.Equal(t, config.RouteReject, b.decision("unknown").Route)
	})

	t.Run("TheSecondActionIsFoundByWhoWantsNearlyTheSame", func(t *testing.T) { // K13
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Plan("near", servicetest.ContactProposal("near-1"), servicetest.RefundProposal("near-2")))
		require.Equal(t, config.RouteAuto, b.decision("near").Route)
		same := func(p *servicetest.Proposal) { *p = servicetest.RefundProposal("near-2") }
		b.decided(b.Refund("alone", same))
		require.Contains(t, engine.Decision{Reasons: b.decision("alone").Reasons}.Codes(), engine.CodeNearDuplicate)
		b.decided(b.Plan("again", servicetest.ContactProposal("near-3"), servicetest.RefundProposal("near-2")))
		require.Equal(t, ledger.RunAwaitingHuman, b.World.Run("again").State)
	})

	t.Run("TwoActionsThatWantNearlyTheSameGoToAPerson", func(t *testing.T) { // K13
		t.Parallel()
		b := world.forCase(t)
		b.decided(b.Plan("twice", servicetest.RefundProposal("twice"), servicetest.ContactProposal("twice"), servicetest.RefundProposal("twice")))
		d := b.decision("twice")
		require.Equal(t, config.RouteHumanReview, d.Route)
		require.Equal(t, "Actions 1 and 3 want nearly the same.", d.Reasons[len(d.Reasons)-1].Message)
		require.Equal(t, ledger.RunAwaitingHuman, b.World.Run("twice").State)
		require.Zero(t, b.Count(`select count(*) from effects where run_id = $1`, b.World.Run("twice").RunID))
	})

	t.Run("WhatNobodyMayDecideOnTogetherIsRejected", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(tenant *config.Tenant) {
			servicetest.Action(tenant, "crm.contact.update").Audience = []string{"a", "b"}
			servicetest.Action(tenant, "payment.refund").Audience = []string{"c", "d"}
		}))
		b.decided(b.Plan("apart", servicetest.ContactProposal("apart"), servicetest.RefundProposal("apart")))
		d := b.decision("apart")
		require.Equal(t, config.RouteReject, d.Route)
		require.Contains(t, d.Reasons[len(d.Reasons)-1].Message, "no role may decide on all of them. Propose them one by one.")
	})
}
