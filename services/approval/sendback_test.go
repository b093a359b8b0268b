package approval

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func TestSendBack(t *testing.T) { // A18
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			contact := *servicetest.Action(tenant, "payment.refund")
			contact.Type, contact.Revisions.Rounds = "payment.refund.final", 0
			tenant.Actions = append(tenant.Actions, &contact)
		}
	})
	nora := g.token("nora").AccessToken

	t.Run("ItNeedsAReasonAndEndsTheRequestAndNotTheRun", func(t *testing.T) {
		asked := g.waiting("back")
		body := decision(asked, ledger.SendBack)
		body.Reason = " "
		require.Equal(t, http.StatusUnprocessableEntity, g.call(t, http.MethodPost, decisionPath(asked), nora, body).Status)
		body.Reason = "Another amount."
		answer := g.call(t, http.MethodPost, decisionPath(asked), nora, body)
		require.Equal(t, http.StatusOK, answer.Status, answer.Text)
		require.Equal(t, []string{"sent_back", "superseded"}, []string{answer.DecisionAnswer.Result, answer.DecisionAnswer.Status})
		run := g.World.Run("back")
		require.Equal(t, ledger.RunProcessing, run.State)
		require.NotNil(t, run.ReviseBy)
		require.Equal(t, "superseded 1 0", g.state(asked))
		late := g.call(t, http.MethodPost, decisionPath(asked), g.token("sam").AccessToken, decision(asked, ledger.Approve))
		require.Equal(t, http.StatusConflict, late.Status)
	})

	t.Run("WhoAskedMaySendItBackWhereTheyMayDecide", func(t *testing.T) {
		asked := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora.lead" })
		require.Equal(t, http.StatusForbidden, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.SendBack)).Status)
	})

	t.Run("AfterTheLastRoundPeopleApproveOrReject", func(t *testing.T) {
		asked := g.waits("final", func(p *servicetest.Proposal) { p.ActionType = "payment.refund.final" })
		no := g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.SendBack))
		require.Equal(t, http.StatusForbidden, no.Status)
		require.Contains(t, no.Detail, "as often as it may be")
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
	})

	t.Run("ALinkLeadsToItAsToTheOthers", func(t *testing.T) {
		asked := g.waiting("link")
		token := g.link(asked, "support-mail nora@example.test")[len(linkPath):]
		body := decision(asked, ledger.SendBack)
		body.Token = token
		g.Exec(`update approval_tokens set decisions = '{approve,reject,send_back}' where approval_id = $1`, asked.ApprovalID)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, body).Status)
	})

	t.Run("ThePageOffersItAsLongAsThereAreRounds", func(t *testing.T) {
		browser := g.signedIn("nora")
		asked := g.waiting("page")
		require.Contains(t, browser.get(cardPath(asked)).Body, `value="send_back"`)
		require.Equal(t, http.StatusUnprocessableEntity, browser.decide(asked, ledger.SendBack, " ").Status)
		page := browser.decide(asked, ledger.SendBack, "Another amount.")
		require.Contains(t, page.Says(), "Sent back. Whoever proposed it is told why")
		require.Contains(t, page.Says(), "Sent the proposal back to whoever made it")
		require.Equal(t, "superseded 1 0", g.state(asked))
		last := g.waits("page-final", func(p *servicetest.Proposal) { p.ActionType = "payment.refund.final" })
		require.NotContains(t, browser.get(cardPath(last)).Body, `value="send_back"`)
	})

	require.Equal(t, contracts.DecisionSendBack, ledger.SendBack)
}
