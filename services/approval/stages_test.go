package approval

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// stagedGate asks for a support lead first, then for an operator.
func stagedGate(t *testing.T) (*gate, func(key string) ledgertest.Asked) {
	t.Helper()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			tenant.Action("payment.refund").Review.Stages = []config.Stage{{Groups: []config.Group{{Role: "support-lead", Approvals: 1}}},
				{Groups: []config.Group{{Role: "operator", Approvals: 1}}}}
		}
	})
	return g, func(key string) ledgertest.Asked {
		asked := g.waiting(key)
		g.Exec(`update approvals set audience = array['support-lead', 'operator'] where approval_id = $1`, asked.ApprovalID)
		return asked
	}
}

// TestDecidingInStages is A16 over both channels, and the fixtures of approvals hold in it.
func TestDecidingInStages(t *testing.T) {
	t.Parallel()
	g, waiting := stagedGate(t)
	nora, sam, otto := g.token("nora").AccessToken, g.token("sam").AccessToken, g.token("otto").AccessToken
	decide := func(t *testing.T, who string, asked ledgertest.Asked, what string) apiAnswer {
		t.Helper()
		return g.call(t, http.MethodPost, decisionPath(asked), who, decision(asked, what))
	}
	counted := func(t *testing.T, key string) ledgertest.Asked {
		t.Helper()
		asked := waiting(key)
		require.Equal(t, ledger.VoteCounted, decide(t, nora, asked, ledger.Approve).DecisionAnswer.Result)
		return asked
	}

	t.Run("EachStageOpensAfterTheOneBefore", func(t *testing.T) {
		asked := waiting("order")
		early := decide(t, otto, asked, ledger.Approve)
		require.Equal(t, http.StatusConflict, early.Status)
		require.Equal(t, ledger.VoteNotYet, early.DecisionAnswer.Result)
		require.Contains(t, early.Detail, "Others have to approve first")
		require.Equal(t, untouched, g.state(asked))
		first := decide(t, nora, asked, ledger.Approve)
		require.Equal(t, ledger.VoteCounted, first.DecisionAnswer.Result)
		require.Equal(t, 2, first.Quorum)
		require.Equal(t, []contracts.ReviewStage{
			{State: "satisfied", Groups: []contracts.ReviewGroup{{Role: "support-lead", Approvals: 1, ApprovedBy: []string{"nora"}}}},
			{State: "open", Groups: []contracts.ReviewGroup{{Role: "operator", Approvals: 1, Missing: 1, ApprovedBy: []string{}}}},
		}, first.Stages)
		require.Equal(t, ledger.VoteNotNeeded, decide(t, sam, asked, ledger.Approve).DecisionAnswer.Result)
		require.Equal(t, ledger.VoteApproved, decide(t, otto, asked, ledger.Approve).DecisionAnswer.Result)
		require.Equal(t, "approved 2 1", g.state(asked))
	})

	t.Run("TheCardSaysWhoHasApprovedAndWhoIsMissing", func(t *testing.T) {
		asked := counted(t, "card")
		page := g.signedIn("otto").get(cardPath(asked))
		require.Contains(t, page.Says(), "Who must approve satisfied 1 of support-lead: nora open 1 of operator: nobody yet – 1 missing")
		require.Contains(t, page.Body, `value="approve"`)
		other := g.signedIn("sam").get(cardPath(asked))
		require.Contains(t, other.Says(), "Your approval is not needed")
		require.NotContains(t, other.Body, `value="approve"`)
		require.Contains(t, other.Body, `value="reject"`)
		var card contracts.ApprovalCard
		text := g.call(t, http.MethodGet, "/v1/approvals/"+asked.ApprovalID.String(), otto, nil).Text
		require.NoError(t, json.Unmarshal([]byte(text), &card))
		require.Equal(t, "open", card.Stages[1].State)
	})

	t.Run("PeopleAreToldAndTheRequestKeepsWhatTheyAreAskedFor", func(t *testing.T) {
		asked := waiting("told")
		_, err := g.announce(t.Context()) // at the latest; the service's own loop may have been first
		require.NoError(t, err)
		require.Equal(t, "operator", g.Text(`select terms #>> '{stages,1,groups,0,role}' from approvals where approval_id = $1`,
			asked.ApprovalID))
	})

	t.Run("TheRequestKeepsWhatItWasAskedUnder", func(t *testing.T) {
		asked := counted(t, "kept")
		lax := ledger.QuorumOf(1)
		g.Exec(`update approvals set terms = $2 where approval_id = $1`, asked.ApprovalID, lax)
		require.Contains(t, g.signedIn("sam").get(cardPath(asked)).Says(), "The configuration asks for other approvals by now")
	})

	t.Run("ARejectionEndsItAtAnyStage", func(t *testing.T) {
		asked := counted(t, "rejected")
		require.Equal(t, ledger.VoteRejected, decide(t, sam, asked, ledger.Reject).DecisionAnswer.Result)
		require.Equal(t, "rejected 2 0", g.state(asked))
	})

	t.Run("WhatWasShownMustBeWhatWouldRun", func(t *testing.T) {
		asked := counted(t, "stale")
		stale := decision(asked, ledger.Approve)
		stale.IntentHash = contractsHash
		require.Equal(t, ledger.VoteChanged, g.call(t, http.MethodPost, decisionPath(asked), otto, stale).DecisionAnswer.Result)
		require.Equal(t, "pending 1 0", g.state(asked))
	})

	t.Run("AfterTheDecideByNothingCounts", func(t *testing.T) {
		asked := counted(t, "expired")
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, asked.ApprovalID)
		require.Contains(t, []string{ledger.VoteExpired, ledger.VoteLate}, decide(t, otto, asked, ledger.Approve).DecisionAnswer.Result)
		require.Zero(t, g.Count(`select count(*) from effects where run_id = $1`, asked.Effect.RunID))
	})

	t.Run("WhoComesLateIsToldWhatStands", func(t *testing.T) {
		asked := counted(t, "late")
		require.Equal(t, ledger.VoteApproved, decide(t, otto, asked, ledger.Approve).DecisionAnswer.Result)
		late := decide(t, sam, asked, ledger.Reject)
		require.Equal(t, ledger.VoteLate, late.DecisionAnswer.Result)
		require.Contains(t, late.Detail, "approved by nora, otto")
	})

	t.Run("ADoubleClickIsOneVote", func(t *testing.T) {
		asked := counted(t, "double")
		browser := g.signedIn("otto")
		form := browser.filled(asked, ledger.Approve, "yes")
		var clicks sync.WaitGroup
		for range 4 {
			clicks.Go(func() {
				if page := browser.post(cardPath(asked)+"/decision", form); page.Status != http.StatusOK {
					t.Errorf("a click was answered %d: %s", page.Status, page.Says())
				}
			})
		}
		clicks.Wait()
		require.Equal(t, "approved 2 1", g.state(asked))
	})

	t.Run("TwoChannelsAreOnePerson", func(t *testing.T) {
		asked := waiting("channels")
		require.Contains(t, g.signedIn("nora").decide(asked, ledger.Approve, "yes").Says(), "Your approval is counted: 1 of 2")
		require.Equal(t, ledger.VoteRepeated, decide(t, nora, asked, ledger.Approve).DecisionAnswer.Result)
		require.Equal(t, "pending 1 0", g.state(asked))
	})
}

// contractsHash is of no intent.
const contractsHash = "0b5f8c7e3d2a19486f7e6d5c4b3a29180f1e2d3c4b5a69788796a5b4c3d2e1f0"

// TestDecidingForSomebodyAway: over both channels the decision is told as the delegate's for the other (A16).
func TestDecidingForSomebodyAway(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			tenant.Action("payment.refund").Review.Quorum = 2
			for _, r := range tenant.Roles {
				if r.Name == "support-lead" {
					r.Members = []string{"nora", "sam"}
				}
			}
			tenant.Delegations = []*config.Delegation{{From: "nora", To: "carl", Starts: time.Now().Add(-time.Hour), Ends: time.Now().Add(time.Hour),
				Reason: "Leave."}}
		}
	})
	asked := g.waiting("away")
	carl := g.signedIn("carl")
	require.Contains(t, carl.get("/").Body, cardPath(asked))
	card := carl.get(cardPath(asked))
	require.Contains(t, card.Says(), "recorded as the decision of carl for nora")
	require.Contains(t, card.Says(), "You decide for Nora Lead , who is away.")
	require.Contains(t, carl.decide(asked, ledger.Approve, "yes").Says(), "Your approval is counted: 1 of 2")

	nora := g.call(t, http.MethodPost, decisionPath(asked), g.token("nora").AccessToken, decision(asked, ledger.Approve))
	require.Equal(t, ledger.VoteRepeated, nora.DecisionAnswer.Result, "it was nora's vote")
	require.Equal(t, "carl for nora", nora.Decisions[0].ReviewerID)
	require.Equal(t, "nora", nora.Decisions[0].OnBehalfOf)
	require.Contains(t, g.signedIn("nora").get(cardPath(asked)).Says(), "One person has one vote")

	sam := g.call(t, http.MethodPost, decisionPath(asked), g.token("sam").AccessToken, decision(asked, ledger.Approve))
	require.Equal(t, ledger.VoteApproved, sam.DecisionAnswer.Result)
	require.Equal(t, []string{"carl for nora", "sam"}, sam.Stages[0].Groups[0].ApprovedBy)
	require.Equal(t, "carl for nora", g.Text(`select actor from audit_events where run_id = $1 and move = 'vote'`, asked.Effect.RunID))
	require.Equal(t, "nora", g.Text(`select authority->'for'->>'person' from reviews where for_id = 'nora'`))
}
