package approval

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestDecidingForSomebody: a delegation carries the roles of a member, for its time, and separation of duties holds for both (A16).
func TestDecidingForSomebody(t *testing.T) {
	t.Parallel()
	approve, reject := want{Decision: ledger.Approve, Reason: "because"}, want{Decision: ledger.Reject, Reason: "because"}

	// dora has no role herself and decides for nora, who is a support lead.
	setup := func(t *testing.T) (*tenant, *ledger.Card, *identity) {
		t.Helper()
		ten, card, as := office(t)
		ten.People = append(ten.People, &config.Person{ID: "dora", Subject: "sub-dora", Email: "dora@example.test"},
			&config.Person{ID: "lea", Subject: "sub-lea", Email: "lea@example.test"})
		ten.Roles[0].Members = []string{"nora", "rita", "gone", "lea"}
		ten.Delegations = []*config.Delegation{{From: "nora", To: "dora", Starts: card.Now.Add(-time.Hour), Ends: card.Now.Add(time.Hour),
			Reason: "leave"}}
		return ten, card, as("sub-dora", "sales")
	}
	code := func(ten *tenant, who *identity, card *ledger.Card, w want) string {
		if no := ten.mayDecide(who, card, w, rolesMaxAge); no != nil {
			return no.Code
		}
		return ""
	}

	t.Run("TheDecisionIsRecordedAsTheirs", func(t *testing.T) {
		t.Parallel()
		ten, card, dora := setup(t)
		require.Empty(t, code(ten, dora, card, approve))
		require.True(t, ten.visible(dora, &card.ApprovalSummary))
		right, no := ten.capacityFor(dora, card, ledger.Approve)
		require.Nil(t, no)
		r := ten.reviewer(dora, right)
		require.Equal(t, "dora for nora", r.ID)
		require.Equal(t, "sub-dora", r.Subject)
		require.Equal(t, []string{"support-lead"}, r.Roles)
		g := ten.Delegations[0]
		require.Equal(t, &ledger.Principal{Issuer: testIssuer, Subject: "sub-nora", ID: "nora", Starts: g.Starts, Ends: g.Ends}, r.For)
		var stored struct {
			Roles []string
			For   struct {
				Person, Reason string
				Roles          []string
			}
		}
		require.NoError(t, json.Unmarshal(r.Authority, &stored))
		require.Empty(t, stored.Roles, "dora has none of her own here")
		require.Equal(t, "nora leave", stored.For.Person+" "+stored.For.Reason)
		require.Equal(t, []string{"support-lead"}, stored.For.Roles)
	})

	for name, c := range map[string]struct {
		change func(*tenant, *ledger.Card)
		want   want
		code   string
	}{
		"BeforeItStarts": {func(ten *tenant, c *ledger.Card) { ten.Delegations[0].Starts = c.Now.Add(time.Second) }, approve, codeWrongRole},
		"WhenItEnds":     {func(ten *tenant, c *ledger.Card) { ten.Delegations[0].Ends = c.Now }, approve, codeWrongRole},
		"ForSomebodyDisabled": {func(ten *tenant, _ *ledger.Card) {
			ten.Delegations[0].From = "gone"
		}, approve, codeWrongRole},
		"OfARoleWithoutMembers": {func(ten *tenant, _ *ledger.Card) { ten.Roles[0].Members = nil }, approve, codeWrongRole},
		"WhatTheOneWhoIsAwayAskedFor": {func(_ *tenant, c *ledger.Card) { c.RequestedBy = "NORA@example.test" }, approve,
			codeOwnRequest},
		"WhatTheOneWhoIsAwayCorrected": {func(_ *tenant, c *ledger.Card) { c.Corrects = &ledger.CorrectionView{By: "nora"} }, approve,
			codeOwnRequest},
		"WhatTheOneWhoIsAwayAnswersFor":        {func(ten *tenant, _ *ledger.Card) { ten.owners["desk"] = "nora" }, approve, codeOwnRequest},
		"WhatTheyAskedForThemselves":           {func(_ *tenant, c *ledger.Card) { c.RequestedBy = "dora" }, approve, codeOwnRequest},
		"RejectingWhatTheOneWhoIsAwayAskedFor": {func(_ *tenant, c *ledger.Card) { c.RequestedBy = "nora" }, reject, ""},
		"WithTheQualificationOfTheOneWhoIsAway": {func(ten *tenant, _ *ledger.Card) {
			ten.actions["payment.refund"].Profession = "legal"
			ten.People[1].Qualifications = []string{"legal"}
		}, approve, codeUnqualified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ten, card, dora := setup(t)
			c.change(ten, card)
			require.Equal(t, c.code, code(ten, dora, card, c.want))
		})
	}

	t.Run("WhoHoldsTheRoleTooDecidesAsThemself", func(t *testing.T) {
		t.Parallel()
		ten, card, dora := setup(t)
		ten.Roles[0].Members = append(ten.Roles[0].Members, "dora")
		dora.Claims["groups"] = "support-leads"
		right, no := ten.capacityFor(dora, card, ledger.Approve)
		require.Nil(t, no)
		require.Nil(t, right.For)
		require.Equal(t, "dora", ten.reviewer(dora, right).ID)
	})

	t.Run("OfTwoWhoAreAwayTheOneWhoHasNoVoteYet", func(t *testing.T) {
		t.Parallel()
		ten, card, dora := setup(t)
		second := *ten.Delegations[0]
		second.From = "lea"
		ten.Delegations = append(ten.Delegations, &second)
		ten.actions["payment.refund"].Review.Quorum = 2
		card.Cast = []ledger.Cast{{Decision: ledger.Approve, Issuer: testIssuer, Subject: "sub-nora", Roles: []string{"support-lead"}}}
		right, no := ten.capacityFor(dora, card, ledger.Approve)
		require.Nil(t, no)
		require.Equal(t, "lea", right.For.ID)
	})

	t.Run("AnOperatorsOtherRightsAreNotDelegated", func(t *testing.T) {
		t.Parallel()
		ten, card, dora := setup(t)
		ten.Roles[1].Members = []string{"nora"}
		require.False(t, ten.mayWithdraw(dora, card))
		card.Audience = []string{"doctor"}
		require.False(t, ten.visible(dora, &card.ApprovalSummary))
	})
}

// TestTermsOfStages: a request keeps who must approve it, and somebody to whom it escalated stands in for any group (A12, A16).
func TestTermsOfStages(t *testing.T) {
	t.Parallel()
	ten, card, as := office(t)
	action := ten.actions["payment.refund"]
	action.Review = config.ReviewRule{Quorum: 2, Stages: []config.Stage{{Groups: []config.Group{{Role: "support-lead", Approvals: 1}}},
		{Groups: []config.Group{{Role: "doctor", Approvals: 1}}}}, Escalation: &config.Escalation{To: []string{"operator"}}}
	rule := ten.termsOf(card)
	require.Equal(t, 2, rule.Quorum)
	require.Equal(t, []string{"support-lead", "doctor"}, rule.roles())
	require.False(t, rule.Other)

	kept := ledger.QuorumOf(3)
	card.Terms = &kept
	rule = ten.termsOf(card)
	require.Equal(t, 3, rule.Quorum, "a later configuration does not loosen what was asked")
	require.True(t, rule.Other)
	card.Terms = nil

	action.Review.Stages = action.Review.Stages[:1]
	card.RequestedBy = "nobody we know"
	require.Equal(t, 2, ten.termsOf(card).Quorum, "two people, whatever the stages ask for")
	card.RequestedBy = "rita"

	otto := as("sub-otto", "operators")
	require.Empty(t, ten.capacities(otto, card), "not before it escalates")
	card.Audience = append(card.Audience, "operator")
	require.Equal(t, []string{"operator", "support-lead"}, ten.capacities(otto, card)[0].Roles)
}
