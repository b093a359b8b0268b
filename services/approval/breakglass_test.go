package approval

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

var operatorsBreak = &config.BreakGlass{Roles: []string{"operator"}, ReviewWithin: 24 * time.Hour, RecentSignIn: 10 * time.Minute}

// glassGate asks for two support leads, and lets an operator approve alone.
func glassGate(t *testing.T) *gate {
	t.Helper()
	return newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			review := &tenant.Action("payment.refund").Review
			review.Quorum, review.BreakGlass = 2, operatorsBreak
		}
	})
}

// broken has otto approve alone.
func (g *gate) broken(key string) ledgertest.Asked {
	g.t.Helper()
	asked := g.waiting(key)
	answer := g.call(g.t, http.MethodPost, decisionPath(asked), g.token("otto").AccessToken, decision(asked, ledger.BreakGlass))
	require.Equal(g.t, ledger.VoteApproved, answer.DecisionAnswer.Result)
	return asked
}

func TestBreakGlass(t *testing.T) { // A16
	t.Parallel()
	g := glassGate(t)
	nora, otto := g.signedIn("nora"), g.signedIn("otto")
	token := func(who string) string { return g.token(who).AccessToken }

	t.Run("AnOperatorApprovesAloneOnThePage", func(t *testing.T) {
		asked := g.waiting("page")
		require.NotContains(t, nora.get(cardPath(asked)).Body, `value="break_glass"`, "no role of hers lets her")
		page := otto.get(cardPath(asked))
		require.Contains(t, page.Body, `<details class="alone"><summary>`, "closed until it is opened")
		require.Contains(t, page.Says(), "Approve alone (break-glass)")
		require.NotContains(t, page.Body, `value="approve"`, "an operator is no lead")
		silent := otto.decide(asked, ledger.BreakGlass, " ")
		require.Equal(t, http.StatusUnprocessableEntity, silent.Status)
		require.Contains(t, silent.Says(), "Say why it cannot wait for the others")
		require.Equal(t, untouched, g.state(asked))
		require.Contains(t, otto.decide(asked, ledger.BreakGlass, "The shop is down.").Says(), "Approved alone. What you saw is queued.")
		require.Equal(t, approved, g.state(asked))
		require.Equal(t, "web 32", g.Text(`select channel || ' ' || octet_length(page_digest) from reviews where approval_id = $1`,
			asked.ApprovalID))
		for _, says := range []string{"Approved alone (break-glass) by otto", "The shop is down.", "looks at it by",
			"Approved it alone (break-glass), and it is queued"} {
			require.Contains(t, nora.get(cardPath(asked)).Says(), says)
		}
	})

	t.Run("InTheMiddleOfAQuorum", func(t *testing.T) {
		asked := g.waiting("middle")
		require.Equal(t, ledger.VoteCounted, g.call(t, http.MethodPost, decisionPath(asked), token("nora"),
			decision(asked, ledger.Approve)).DecisionAnswer.Result)
		answer := g.call(t, http.MethodPost, decisionPath(asked), token("otto"), decision(asked, ledger.BreakGlass))
		require.Equal(t, ledger.VoteApproved, answer.DecisionAnswer.Result)
		require.Equal(t, 1, answer.Approvals, "it is no approval among others")
		late := g.call(t, http.MethodPost, decisionPath(asked), token("sam"), decision(asked, ledger.Reject))
		require.Contains(t, late.Detail, "approved by nora, otto alone (break-glass)")
	})

	t.Run("WhatIsRefusedIsRecordedAndMovesNothing", func(t *testing.T) {
		asked := g.waiting("refused")
		own := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "otto.operator" })
		plain := decision(asked, ledger.BreakGlass)
		unsaid, linked := plain, plain
		unsaid.Reason = " "
		linked.Token = strings.TrimPrefix(g.link(asked, "mail otto@example.test"), linkPath)
		for name, tc := range map[string]struct {
			who    string
			asked  ledgertest.Asked
			body   contracts.DecisionRequest
			status int
			detail string
		}{
			"WithoutTheRole": {"nora", asked, plain, http.StatusForbidden, "approved alone by operator, which is no role of yours"},
			"OwnRequest":     {"otto", own, decision(own, ledger.BreakGlass), http.StatusForbidden, "You asked for this"},
			"NoReason":       {"otto", asked, unsaid, http.StatusUnprocessableEntity, "cannot wait for the others"},
			"ByALink":        {"otto", asked, linked, http.StatusForbidden, "No link lets anybody approve alone"},
		} {
			answer := g.call(t, http.MethodPost, decisionPath(tc.asked), token(tc.who), tc.body)
			require.Equal(t, tc.status, answer.Status, name)
			require.Contains(t, answer.Detail, tc.detail, name)
		}
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, untouched, g.state(own))
		require.Equal(t, 3, g.Count(`select count(*) from audit_events where move = 'refuse_vote' and run_id = $1
and detail->>'decision' = 'break_glass'`,
			asked.Effect.RunID))
	})

	t.Run("NotForManyAtOnce", func(t *testing.T) {
		asked := g.waiting("many")
		answer := g.call(t, http.MethodPost, "/v1/approvals/decisions", token("otto"),
			contracts.DecisionBatch{Decisions: []contracts.BatchedDecision{
				{ApprovalID: asked.ApprovalID.String(), DecisionRequest: decision(asked, ledger.BreakGlass)}}})
		var results contracts.DecisionResults
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &results))
		require.Contains(t, results.Results[0].Problem.Detail, "Nobody approves alone for several requests at once")
		form := otto.get(cardPath(asked)).form(t, cardPath(asked)+"/decision")
		page := otto.post("/batch", url.Values{"csrf": form["csrf"], "decision": {ledger.BreakGlass}, "reason": {"all of it"},
			"item": {asked.ApprovalID.String() + ":" + form.Get("command_id") + ":" + asked.IntentHash.String()}})
		require.NotContains(t, page.Says(), "Approved alone")
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("WhereNoRoleLetsAnybodyNobodyDoes", func(t *testing.T) {
		asked := g.waiting("none")
		who := &identity{Issuer: g.idp.Issuer(), Subject: "otto", Claims: map[string]any{"groups": []any{"operators"}}, ClaimsAt: time.Now(),
			SignedInAt: time.Now()}
		tenant, card, err := g.cardFor(t.Context(), who, asked.ApprovalID)
		require.NoError(t, err)
		alone := want{Decision: ledger.BreakGlass, Reason: "because"}
		require.Nil(t, tenant.mayDecide(who, card, alone, time.Hour))
		who.SignedInAt = card.Now.Add(-11 * time.Minute)
		no := tenant.mayDecide(who, card, alone, time.Hour)
		require.Equal(t, codeStepUp, no.Code, "a sign-in within 10 minutes, whatever the action asks for")
		require.Contains(t, no.Detail, "10m0s")
		bare := *tenant
		action := *tenant.actions["payment.refund"]
		action.Review.BreakGlass = nil
		bare.actions = map[string]*config.Action{action.Type: &action}
		who.SignedInAt = time.Now()
		require.Equal(t, codeNoGlass, bare.mayDecide(who, card, alone, time.Hour).Code)
	})

	t.Run("AnOldSignInIsRenewedAndTheReasonKept", func(t *testing.T) { // A6
		asked := g.waiting("step-up")
		g.ahead.Store(int64(-11 * time.Minute))
		browser := g.signedIn("otto")
		g.ahead.Store(0)
		require.Contains(t, browser.get(cardPath(asked)).Says(), "this needs a sign-in within the last 10m0s")
		page := browser.decide(asked, ledger.BreakGlass, "The shop is <down>.")
		require.Equal(t, http.StatusForbidden, page.Status)
		require.Contains(t, page.Body, `href="/sign-in?again=1&amp;return=%2Fapprovals%2F`)
		require.Equal(t, untouched, g.state(asked))
		require.Contains(t, browser.get(signInPath(cardPath(asked), true)).Body, "The shop is &lt;down&gt;.</textarea>")
		require.Contains(t, browser.decide(asked, ledger.BreakGlass, "The shop is <down>.").Says(), "Approved alone.")
	})
}

func TestJudgeGlass(t *testing.T) { // A16
	t.Parallel()
	g := glassGate(t)
	nora, otto, carl := g.signedIn("nora"), g.signedIn("otto"), g.signedIn("carl")
	judge := func(b *browser, asked ledgertest.Asked, verdict, reason string) seen {
		form := b.get(cardPath(asked)).form(t, cardPath(asked)+"/judgement")
		form.Set("verdict", verdict)
		form.Set("reason", reason)
		return b.post(cardPath(asked)+"/judgement", form)
	}

	t.Run("SomebodyElseLooksAtItAndTheFirstVerdictStands", func(t *testing.T) {
		asked := g.broken("judged")
		list := nora.get("/unattended")
		require.Contains(t, list.Says(), "Approved alone, to be looked at afterwards")
		require.Contains(t, list.Body, cardPath(asked))
		require.NotContains(t, otto.get("/unattended").Body, cardPath(asked), "not for whoever approved alone")
		require.NotContains(t, otto.get(cardPath(asked)).Body, cardPath(asked)+"/judgement")
		require.Equal(t, http.StatusNotFound, carl.get(cardPath(asked)).Status)
		require.Equal(t, http.StatusUnprocessableEntity, judge(nora, asked, ledger.VerdictWrong, " ").Status)
		require.Contains(t, judge(nora, asked, ledger.VerdictWrong, "It could have waited.").Says(),
			"Recorded: that it was approved alone was wrong.")
		require.Equal(t, "nora wrong web 32", g.Text(`select reviewer_id || ' ' || verdict || ' ' || channel || ' ' || octet_length(page_digest)
from glass_reviews where approval_id = $1`, asked.ApprovalID))
		page := otto.get(cardPath(asked))
		require.Contains(t, page.Says(), "wrong , says nora")
		require.Contains(t, page.Says(), "It could have waited.")
		require.NotContains(t, nora.get("/unattended").Body, cardPath(asked))
		late := g.call(t, http.MethodPost, "/v1"+cardPath(asked)+"/judgement", g.token("sam").AccessToken,
			contracts.GlassJudgementRequest{Verdict: contracts.VerdictRight})
		require.Equal(t, http.StatusConflict, late.Status)
		require.Contains(t, late.Detail, "nora has said wrong already")
	})

	t.Run("OverTheAPIAndNeverByWhoeverApprovedAloneOrAsked", func(t *testing.T) {
		asked := g.broken("api")
		path := "/v1" + cardPath(asked) + "/judgement"
		right := contracts.GlassJudgementRequest{Verdict: contracts.VerdictRight}
		own := g.call(t, http.MethodPost, path, g.token("otto").AccessToken, right)
		require.Equal(t, http.StatusForbidden, own.Status)
		require.Contains(t, own.Detail, "You approved this alone")
		asker := g.call(t, http.MethodPost, path, g.token("rita").AccessToken, right)
		require.Equal(t, http.StatusForbidden, asker.Status)
		require.Contains(t, asker.Detail, "You asked for this")
		require.Equal(t, http.StatusNotFound, g.call(t, http.MethodPost, path, g.token("carl").AccessToken, right).Status)
		require.Equal(t, http.StatusUnprocessableEntity, g.call(t, http.MethodPost, path, g.token("nora").AccessToken,
			contracts.GlassJudgementRequest{Verdict: "perhaps"}).Status)

		var list contracts.UnattendedList
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, "/v1/unattended", g.token("nora").AccessToken, nil).Text), &list))
		require.Equal(t, asked.ApprovalID.String(), list.BreakGlass[0].ApprovalID)
		require.Equal(t, "otto", list.BreakGlass[0].BreakGlass.BrokenBy)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, path, g.token("nora").AccessToken, right).Status)
		var card contracts.ApprovalCard
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, "/v1"+cardPath(asked), g.token("otto").AccessToken, nil).Text), &card))
		require.Equal(t, "right", card.BreakGlass.Verdict)
		require.Equal(t, ledger.BreakGlass, card.Decisions[0].Decision)
		plain := g.call(t, http.MethodPost, "/v1"+cardPath(g.waiting("whole"))+"/judgement", g.token("nora").AccessToken, right)
		require.Contains(t, plain.Detail, "Nobody has approved this alone")
	})

	t.Run("ByNoOtherNameOfTheBreaker", func(t *testing.T) {
		tenant := g.tenant(ledgertest.Tenant)
		card := &ledger.Card{ApprovalSummary: ledger.ApprovalSummary{RequestedBy: "rita.requester"},
			Glass: &ledger.GlassReview{Issuer: "i", Subject: "s", BrokenBy: "otto", Audience: []string{"operator", "support-lead"}}}
		claims := map[string]any{"groups": []any{"operators"}, "preferred_username": "otto.operator"}
		for name, who := range map[string]*identity{
			"the same account":         {Issuer: "i", Subject: "s", Claims: claims},
			"the configured one":       {Issuer: g.idp.Issuer(), Subject: "otto", Claims: claims},
			"another with their name":  {Issuer: g.idp.Issuer(), Subject: "x", Claims: claims},
			"another with their mail":  {Issuer: g.idp.Issuer(), Subject: "x", Email: "otto@example.test", Claims: claims},
			"one that says it is them": {Issuer: g.idp.Issuer(), Subject: "otto.operator", Claims: claims},
		} {
			require.Equal(t, codeOwnGlass, tenant.mayJudgeGlass(who, card).Code, name)
		}
		require.Nil(t, tenant.mayJudgeGlass(&identity{Issuer: g.idp.Issuer(), Subject: "nora", Claims: map[string]any{
			"groups": []any{"support-leads"}}}, card))
	})
}

func TestBreakGlassIsToldAtOnce(t *testing.T) { // A16, A2
	t.Parallel()
	leads, operations := &pigeon{to: []string{"nora@example.test"}}, &pigeon{to: []string{"otto@example.test"}}
	g := wide(t, leads, operations)
	g.tenant("demo").actions["payment.refund"].Review.BreakGlass = operatorsBreak
	asked := g.waiting("told")
	g.turn()
	require.Len(t, leads.sent, 1)
	who := &identity{Issuer: nobody, Subject: "otto", Claims: map[string]any{"groups": []any{"operators"}}, ClaimsAt: time.Now(),
		SignedInAt: time.Now(), Channel: "api"}
	tenant, card, err := g.cardFor(t.Context(), who, asked.ApprovalID)
	require.NoError(t, err)
	_, err = g.decide(t.Context(), who, ballot{CommandID: card.RunID, Tenant: tenant, Card: card, Decision: ledger.BreakGlass,
		Reason: "The shop is down.", Shown: card.IntentHash})
	require.NoError(t, err)
	g.turn()
	g.turn()
	require.Len(t, leads.sent, 2)
	require.Len(t, operations.sent, 1, "the roles that may break the glass are told too")
	m := leads.sent[1]
	require.Equal(t, ledger.NoticeBreakGlass, m.Kind)
	require.NotEqual(t, leads.sent[0].ID, m.ID)
	require.Equal(t, "http://127.0.0.1:7075"+cardPath(asked), m.Link, "there is no token in it")
	require.Zero(t, g.Count(`select count(*) from approval_tokens where spent_at is null`))
	for _, words := range []string{text(&m), chatText(&m)} {
		require.Contains(t, words, "Somebody has approved alone (break-glass)")
		require.Contains(t, words, m.ReviewBy.UTC().Format(time.RFC1123))
		require.NotContains(t, words, "Decide by")
		require.NotContains(t, words, "The shop is down.", "the words of the reason stay on the page (A18)")
	}
	mail := &emailSender{declared: &config.Email{Template: &config.MessageTemplate{Subject: "It waits", Text: "It waits"}}}
	require.NotContains(t, mail.subject(&m)+mail.body(&m), "It waits", "a channel's own words are about what waits")
	require.Equal(t, "approval.break_glass", types[m.Kind])
}

func TestOverdueGlassAlerts(t *testing.T) { // A16
	t.Parallel()
	g := loft(t, &pigeon{to: []string{"nora@example.test"}})
	g.tenant("demo").actions["payment.refund"].Review.BreakGlass = operatorsBreak
	var said bytes.Buffer
	g.env.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))
	who := &identity{Issuer: nobody, Subject: "otto", Claims: map[string]any{"groups": []any{"operators"}}, ClaimsAt: time.Now(),
		SignedInAt: time.Now(), Channel: "api"}
	asked := g.waiting("late")
	tenant, card, err := g.cardFor(t.Context(), who, asked.ApprovalID)
	require.NoError(t, err)
	_, err = g.decide(t.Context(), who, ballot{CommandID: card.RunID, Tenant: tenant, Card: card, Decision: ledger.BreakGlass, Reason: "now",
		Shown: card.IntentHash})
	require.NoError(t, err)
	alert := func() string {
		t.Helper()
		said.Reset()
		_, err := g.alertGlass(t.Context())
		require.NoError(t, err)
		return said.String()
	}
	require.Empty(t, alert(), "there is still time")
	g.Exec(`update glass_reviews set broken_at = broken_at - interval '2 days', review_by = review_by - interval '2 days'`)
	first := alert()
	require.Contains(t, first, "nobody else has looked at it in time")
	require.Contains(t, first, "approvals=1 oldest="+asked.ApprovalID.String())
	require.Empty(t, alert(), "once an hour")
	g.glassAlerted["demo"] = time.Now().Add(-glassAlert)
	require.NotEmpty(t, alert(), "and again, as long as nobody has")
	g.glassAlerted["demo"] = time.Time{}
	lead := &identity{Issuer: nobody, Subject: "nora", Claims: map[string]any{"groups": []any{"support-leads"}}, ClaimsAt: time.Now(),
		Channel: "api"}
	tenant, card, err = g.cardFor(t.Context(), lead, asked.ApprovalID)
	require.NoError(t, err)
	said.Reset()
	_, err = g.judgeGlass(t.Context(), lead, tenant, card, verdict{CommandID: card.RunID, Verdict: ledger.VerdictWrong,
		Reason: "it could wait"})
	require.NoError(t, err)
	require.Contains(t, said.String(), "somebody approved alone, and it was wrong")
	require.Empty(t, alert())
}
