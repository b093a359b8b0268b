package approval

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// acts has a rule let a contact change act after an hour, with a sample of it for sales-operations. rita asked for it.
func (g *gate) acts(key string, changes ...func(*servicetest.Proposal)) (path string) {
	g.t.Helper()
	claim := g.Contact(key, changes...)
	claim.RequestedBy = "rita.requester"
	g.decides(claim, config.RouteAuto, func(d *ledger.Decision) {
		d.Window, d.Audience = time.Hour, []string{"sales-operations"}
		d.Reasons = []byte(`[{"code":"rule_matched","rule_id":"watched","message":"Nearly always right."}]`)
		d.Exceptions = &ledger.ExceptionCheck{Classes: []ledger.Class{{Rule: "watched-" + key, Evaluation: "e-1", OneIn: 1, ReviewWithin: time.Hour}}}
	})
	return "/unattended/" + ledger.RunID(ledgertest.Tenant, key).String()
}

func TestUnattended(t *testing.T) { // P4, D14
	t.Parallel()
	g := newGate(t)
	dora, rita, carl := g.signedIn("dora"), g.signedIn("rita"), g.signedIn("carl")
	back := func(b *browser, path, reason string) seen {
		form := b.get(path).form(t, path+"/take-back")
		form.Set("reason", reason)
		return b.post(path+"/take-back", form)
	}
	filled := func(b *browser, path, verdict, reason string) url.Values {
		form := b.get(path).form(t, path+"/judgement")
		form.Set("verdict", verdict)
		form.Set("reason", reason)
		return form
	}

	t.Run("WhatIsHeldIsListedAndTakenBackOnceForGood", func(t *testing.T) {
		path := g.acts("held")
		require.Contains(t, dora.get("/unattended").Body, path)
		require.Equal(t, http.StatusUnprocessableEntity, back(dora, path, " ").Status)
		form := dora.get(path).form(t, path+"/take-back")
		form.Set("reason", "They asked us not to.")
		require.Contains(t, dora.post(path+"/take-back", form).Says(), "Taken back. The run has ended")
		require.Contains(t, dora.post(path+"/take-back", form).Says(), "Taken back. The run has ended", "the same form again is the same wish")
		require.Equal(t, "cancelled", g.Look("held").State)
		require.Contains(t, g.World.Run("held").OutcomeReason, "Taken back by dora")
	})

	t.Run("WhatMayHaveBeenSentIsToldWithWhatIsKnown", func(t *testing.T) {
		path := g.acts("late")
		form := dora.get(path).form(t, path+"/take-back")
		form.Set("reason", "no")
		g.Exec(`update effects set state = 'unknown', maybe_sent = true, attempts = 1, first_sent_at = clock_timestamp()
where run_id = $1`, ledger.RunID(ledgertest.Tenant, "late"))
		page := dora.post(path+"/take-back", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "may have been sent. It is unknown after 1 attempts")
		require.NotContains(t, page.Body, path+"/take-back", "it is not offered again")
	})

	t.Run("WhoAskedMayTakeItBackAndMayNotJudgeIt", func(t *testing.T) {
		path := g.acts("asked")
		require.NotContains(t, rita.get(path).Body, "/judgement")
		require.Contains(t, back(rita, path, "a mistake").Says(), "Taken back")
	})

	t.Run("WhatPeopleApprovedIsTakenBackOnItsCardAsLongAsItIsUnsent", func(t *testing.T) {
		asked := g.waiting("regretted")
		nora := g.signedIn("nora")
		require.NotContains(t, nora.get(cardPath(asked)).Body, "/take-back", "nothing would be sent yet")
		nora.decide(asked, ledger.Approve, "The order was double.")
		form := nora.get(cardPath(asked)).form(t, cardPath(asked)+"/take-back")
		form.Set("reason", " ")
		require.Equal(t, http.StatusUnprocessableEntity, nora.post(cardPath(asked)+"/take-back", form).Status)
		form.Set("reason", "The other order.")
		require.Contains(t, nora.post(cardPath(asked)+"/take-back", form).Says(), "Taken back. The run has ended")
		require.NotContains(t, nora.get(cardPath(asked)).Body, "/take-back")
		require.Equal(t, "cancelled", g.Text(`select state from effects where run_id = $1`, asked.Effect.RunID))
		require.Equal(t, http.StatusNotFound, carl.post(cardPath(asked)+"/take-back", url.Values{
			"csrf": {carl.get("/").form(t, "/sign-out").Get("csrf")}, "reason": {"x"}}).Status)
	})

	t.Run("ToOthersThereIsNoSuchCase", func(t *testing.T) {
		path := g.acts("hidden")
		require.Equal(t, http.StatusNotFound, carl.get(path).Status)
		require.NotContains(t, carl.get("/unattended").Body, path)
		form := dora.get(path).form(t, path+"/take-back")
		form.Set("csrf", carl.get("/").form(t, "/sign-out").Get("csrf"))
		form.Set("reason", "x")
		require.Equal(t, http.StatusNotFound, carl.post(path+"/take-back", form).Status)
		require.Equal(t, "pending", g.Look("hidden").State)
	})

	t.Run("AVerdictIsRecordedWithThePageThatWasSeen", func(t *testing.T) {
		path := g.acts("right")
		form := filled(dora, path, "right", "")
		require.Contains(t, dora.post(path+"/judgement", form).Says(), "Recorded: the case was right.")
		require.Contains(t, dora.post(path+"/judgement", form).Says(), "Recorded: the case was right.", "one form is one verdict")
		require.Equal(t, "dora right web 32", g.Text(`select reviewer_id || ' ' || verdict || ' ' || channel || ' ' || octet_length(page_digest)
from exception_uses where run_id = $1`, ledger.RunID(ledgertest.Tenant, "right")))
		require.NotContains(t, dora.get(path).Body, "/judgement")
	})

	t.Run("AWrongCaseNeedsAReasonAndStopsTheRule", func(t *testing.T) {
		path := g.acts("wrong")
		require.Equal(t, http.StatusUnprocessableEntity, dora.post(path+"/judgement", filled(dora, path, "wrong", "")).Status)
		require.Equal(t, http.StatusUnprocessableEntity, dora.post(path+"/judgement", filled(dora, path, "perhaps", "x")).Status)
		says := dora.post(path+"/judgement", filled(dora, path, "wrong", "Another Smith.")).Says()
		require.Contains(t, says, "Rule watched-wrong lets nothing act any more")
		require.Equal(t, 1, g.Count(`select count(*) from exception_classes where rule_id = 'watched-wrong' and stopped_by = 'dora'`))
	})

	t.Run("AGetChangesNothing", func(t *testing.T) { // A3
		path := g.acts("get")
		for _, what := range []string{"", "/take-back", "/judgement"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				dora.raw(method, path+what)
			}
		}
		require.Equal(t, "pending", g.Look("get").State)
		require.Zero(t, g.Count(`select count(*) from exception_uses where run_id = $1 and verdict is not null`,
			ledger.RunID(ledgertest.Tenant, "get")))
	})

	t.Run("WhatIsNotShownWholeIsNotRight", func(t *testing.T) {
		path := g.acts("cut", func(p *servicetest.Proposal) {
			p.ProposedChange = map[string]any{"fields": map[string]any{"company": longText()}}
		})
		require.NotContains(t, dora.get(path).Body, `value="right"`)
		form := filled(dora, path, "right", "")
		require.Equal(t, http.StatusConflict, dora.post(path+"/judgement", form).Status)
	})

	t.Run("OverTheAPIWithTheHumansOwnToken", func(t *testing.T) {
		g.acts("api")
		token := g.token("dora").AccessToken
		var list contracts.UnattendedList
		require.NoError(t, json.Unmarshal([]byte(g.call(t, http.MethodGet, "/v1/unattended", token, nil).Text), &list))
		require.NotEmpty(t, list.HeldBack)
		path := "/v1/unattended/" + ledger.RunID(ledgertest.Tenant, "api").String()
		sample := g.Text(`select sample_id::text from exception_uses where run_id = $1`, ledger.RunID(ledgertest.Tenant, "api"))
		right := contracts.JudgementRequest{SampleID: sample, Verdict: contracts.VerdictRight}
		require.Equal(t, http.StatusNotFound, g.call(t, http.MethodPost, path+"/judgement", g.token("carl").AccessToken, right).Status)
		require.Equal(t, http.StatusForbidden, g.call(t, http.MethodPost, path+"/judgement", g.token("rita").AccessToken, right).Status)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, path+"/judgement", token, right).Status)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, path+"/withdrawal", token, contracts.WithdrawalRequest{Reason: "no"}).Status)
		require.Equal(t, http.StatusUnauthorized, g.call(t, http.MethodPost, path+"/withdrawal", "hp_demo_key_for_local_use_only",
			contracts.WithdrawalRequest{Reason: "no"}).Status)
	})
}

// longText is longer than what is shown of a value at once.
func longText() string {
	text := make([]byte, longestShown+1)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}
