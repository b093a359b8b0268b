package approval

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// deskGate is a gate that has the operator's login, and whose support leads may settle refunds besides operators.
func deskGate(t testing.TB, changes ...func(*gateConfig)) *gate {
	t.Helper()
	return newGate(t, append(changes, func(c *gateConfig) {
		more := c.tenant
		c.tenant = func(tenant *config.Tenant) {
			for _, a := range tenant.Actions {
				if a.Type == "payment.refund" {
					a.Reversible, a.Resolve = false, config.Resolve{Roles: []string{"support-lead"}, SecondPerson: true, AlertAfter: 15 * time.Minute}
				}
			}
			if more != nil {
				more(tenant)
			}
		}
		c.desk = true
	})...)
}

// lost is a refund of 250 EUR whose answer got lost some hours ago, which the provider does not replay any more.
func (g *gate) lost(key string, propose ...func(*servicetest.Proposal)) ledger.EffectKey {
	g.t.Helper()
	asked := g.waits(key, func(p *servicetest.Proposal) {
		for _, change := range propose {
			change(p)
		}
	})
	vote := asked.Vote("nora", ledger.Approve)
	vote.Effects = []ledger.EffectRequest{{Connector: "sandbox-payments", Operation: "create_refund", TargetSystem: "payments",
		TargetRecord: "p-" + key}}
	g.Vote(vote)
	g.Exec(`insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch, started_at, class, sent,
  http_status, provider_request_id, detail, finished_at)
values ('demo', $1, 1, 1, 1, $2, 1, clock_timestamp() - interval '25 hours', 'ambiguous', true, 504,
  'req-9', 'the answer was lost', now())`,
		asked.Effect.RunID, uuid.New())
	g.Exec(`insert into lookups (tenant_id, run_id, revision, ordinal, lookup, verdict, conclusive, evidence)
values ('demo', $1, 1, 1, 1, 'unclear', false, 'HTTP 500 from the search')`, asked.Effect.RunID)
	g.Exec(`update effects set state = 'unknown', maybe_sent = true, attempts = 1, lookups = 1,
  unknown_since = clock_timestamp() - interval '24 hours', first_sent_at = clock_timestamp() - interval '25 hours'
where run_id = $1`, asked.Effect.RunID)
	return asked.Effect
}

func deskPath(e ledger.EffectKey) string { return "/desk/" + e.OperationID() }

// resolution fills in the form of an effect's page.
func (b *browser) resolution(e ledger.EffectKey, move, reason string, more ...string) url.Values {
	b.t.Helper()
	form := b.get(deskPath(e)).form(b.t, deskPath(e)+"/resolution#settle")
	form.Set("move", move)
	form.Set("reason", reason)
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func (b *browser) resolve(e ledger.EffectKey, move, reason string, more ...string) seen {
	b.t.Helper()
	return b.post(deskPath(e)+"/resolution", b.resolution(e, move, reason, more...))
}

func (g *gate) effect(e ledger.EffectKey) string {
	g.t.Helper()
	return g.Text(`select concat_ws(' ', state, hold_reason, external_id) from effects where run_id = $1`, e.RunID)
}

func TestDesk(t *testing.T) { // R6
	t.Parallel()
	g := deskGate(t)
	otto, nora, carl := g.signedIn("otto"), g.signedIn("nora"), g.signedIn("carl")

	t.Run("TheQueueAndTheCaseShowAllThatIsKnown", func(t *testing.T) {
		e := g.lost("shown")
		list := otto.get("/desk")
		require.Contains(t, list.Body, deskPath(e))
		for _, says := range []string{"At risk", "250 EUR", "1 day old", "support-lead", "ambiguous: the answer was lost",
			"the last lookup: unclear"} {
			require.Contains(t, list.Says(), says)
		}
		page := otto.get(deskPath(e)).Says()
		for _, says := range []string{e.OperationID(), "payment_id", "p-shown", "250 EUR", "HTTP 504", "req-9", "the answer was lost", "unclear",
			"HTTP 500 from the search", "Idempotency key", "rita.requester", "it is done twice", "Another person has to confirm"} {
			require.Contains(t, page, says)
		}
		require.Contains(t, otto.get(deskPath(e)).Body, runPath+"demo/"+e.RunID.String())
		require.Equal(t, http.StatusOK, otto.get(runPath+"demo/"+e.RunID.String()).Status)
	})

	t.Run("WhatTheProviderToldIsShownAndWhatItToldOfNothingKnown", func(t *testing.T) { // R4
		e := g.lost("told")
		told := func(id, state, detail string, run any) {
			g.Exec(`insert into provider_events (tenant_id, connector, provider_event_id, body, body_digest, external_id, record_version, status_text,
  verdict, state, detail, run_id, revision, ordinal)
values ('demo', 'sandbox-payments', $1, '{}', sha256('{}'), 're_77', 'v2', $2, 'succeeded', $3, $4, $5, case when $5::uuid is not null then 1 end,
  case when $5::uuid is not null then 1 end)`, id, "paid\u202Eout<b>", state, detail, run)
		}
		told("evt-told", "ignored", "an operator disputes it", e.RunID)
		page := otto.get(deskPath(e))
		require.Contains(t, page.Says(), "Told by the provider 1")
		for _, says := range []string{"evt-told", "succeeded: paid ⟦U+202E⟧ out<b>", "id re_77", "version v2", "ignored an operator disputes it"} {
			require.Contains(t, page.Says(), says)
		}
		require.NotContains(t, page.Body, "out<b>", "it is escaped")
		require.NotContains(t, otto.get("/desk").Says(), "Told by providers")
		told("evt-strange", "unmatched", "nothing that is known has its ids", nil)
		require.Contains(t, otto.get("/desk").Says(), "Told by providers, about nothing that is known demo · sandbox-payments : 1")
		require.NotContains(t, nora.get("/desk").Says(), "Told by providers", "that is an operator's")
	})

	t.Run("FiltersNarrowAndPlacesThatAreNoneAreRefused", func(t *testing.T) {
		e := g.lost("filtered")
		require.Contains(t, otto.get("/desk?kind=unknown&connector=sandbox-payments&tenant=demo&sort=amount").Body, deskPath(e))
		for _, none := range []string{"?kind=incident", "?connector=sandbox-crm", "?tenant=another"} {
			require.NotContains(t, otto.get("/desk"+none).Body, deskPath(e), none)
		}
		require.Equal(t, http.StatusNotFound, otto.get("/desk?after=x").Status)
		require.NotContains(t, otto.get("/desk?after="+url.QueryEscape("0~2999-01-01T00:00:00Z~"+e.OperationID())).Body, deskPath(e))
	})

	t.Run("ToWhoeverMaySettleNothingThereIsNoDesk", func(t *testing.T) {
		e := g.lost("hidden")
		require.NotContains(t, carl.get("/").Body, `href="/desk"`)
		require.Contains(t, otto.get("/").Body, `href="/desk"`)
		require.Contains(t, nora.get("/desk").Body, deskPath(e), "a role of the action's own may")
		require.Equal(t, http.StatusNotFound, carl.get("/desk").Status)
		require.Equal(t, http.StatusNotFound, carl.get(deskPath(e)).Status)
		form := otto.resolution(e, "give_up", "x")
		form.Set("csrf", carl.get("/").form(t, "/sign-out").Get("csrf"))
		require.Equal(t, http.StatusNotFound, carl.post(deskPath(e)+"/resolution", form).Status)
		require.Equal(t, http.StatusNotFound, otto.get("/desk/op1-none").Status)
		require.Equal(t, "unknown", g.effect(e))
	})

	t.Run("AFormOfAnotherSiteOrSessionChangesNothing", func(t *testing.T) { // A3
		e := g.lost("forged")
		form := otto.resolution(e, "give_up", "x")
		require.Equal(t, http.StatusForbidden, otto.post(deskPath(e)+"/resolution", form, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}).Status)
		form.Set("csrf", "guessed")
		require.Equal(t, http.StatusForbidden, otto.post(deskPath(e)+"/resolution", form).Status)
		require.Equal(t, http.StatusMethodNotAllowed, otto.get(deskPath(e)+"/resolution").Status)
		require.Equal(t, "unknown", g.effect(e))
	})

	t.Run("ADoneOneNeedsItsIDAndAlwaysAReason", func(t *testing.T) {
		e := g.lost("done")
		for _, bad := range [][]string{{" ", "external_id", "re_1"}, {"seen there"}, {"seen there", "external_id", "re_1",
			"evidence", "javascript:x"}} {
			page := otto.resolve(e, "confirm_done", bad[0], bad[1:]...)
			require.Equal(t, http.StatusUnprocessableEntity, page.Status)
			require.Contains(t, page.Says(), "Nothing was changed.")
		}
		require.Equal(t, http.StatusUnprocessableEntity, otto.resolve(e, "invent", "x").Status)
		form := otto.resolution(e, "confirm_done", "seen there", "external_id", "re_1", "evidence", "https://pay.example/re_1")
		require.Contains(t, otto.post(deskPath(e)+"/resolution", form).Says(), "Recorded as done.")
		require.Contains(t, otto.post(deskPath(e)+"/resolution", form).Says(), "Recorded as done.", "the same form again is the same wish")
		require.Equal(t, "completed re_1", g.effect(e))
		require.Equal(t, "otto seen there web true operator https://pay.example/re_1", g.Text(`select concat_ws(' ', by_id, reason, channel,
(page_digest is not null)::text, authority->'roles'->>0, evidence) from resolutions where run_id = $1`, e.RunID))
		require.Contains(t, otto.get(deskPath(e)).Says(), "confirm done by otto")
		require.NotContains(t, otto.get(deskPath(e)).Body, "/resolution", "nothing is offered any more")
	})

	t.Run("WhatIsSettledAlreadyIsTold", func(t *testing.T) {
		e := g.lost("settled")
		form := otto.resolution(e, "give_up", "They do not answer.")
		require.Contains(t, nora.resolve(e, "confirm_done", "seen there", "external_id", "re_2").Says(), "Recorded as done.")
		page := otto.post(deskPath(e)+"/resolution", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "It is settled already: it is completed, and the provider calls it re_2, after confirm done by nora")
	})

	t.Run("WhatHasChangedSinceIsShownAgain", func(t *testing.T) {
		e := g.lost("changed")
		form := otto.resolution(e, "give_up", "They do not answer.")
		g.Exec(`update effects set attempts = 2 where run_id = $1`, e.RunID)
		page := otto.post(deskPath(e)+"/resolution", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "has changed since you were shown it")
		require.Equal(t, "unknown", g.effect(e))
	})

	t.Run("WhatItsTargetDoesNotHoldIsNotOfferedAgain", func(t *testing.T) { // R7
		e := g.lost("mismatch")
		g.Exec(`update effects set state = 'held', hold_reason = 'mismatch', unknown_since = null where run_id = $1`, e.RunID)
		page := otto.get(deskPath(e))
		require.Contains(t, page.Says(), "It can never be said to be not done")
		require.NotContains(t, page.Body, `value="confirm_not_done"`)
		refused := otto.resolve(e, "confirm_not_done", "again")
		require.Contains(t, refused.Says(), "never sent again")
		require.Equal(t, "held mismatch", g.effect(e))
		require.Contains(t, otto.resolve(e, "dispute", "They are looking.").Says(), "Held as disputed.")
		require.Equal(t, "held disputed", g.effect(e))
	})

	t.Run("HostileTextIsMarkedAndShownWholeBeforeItIsSettled", func(t *testing.T) {
		e := g.lost("hostile", func(p *servicetest.Proposal) {
			p.ProposedChange.(map[string]any)["note"] = "\u202Egnp.exe<b>"
		})
		g.Exec(`update lookups set evidence = '<script>alert(1)</script>' || repeat('a', 5000) where run_id = $1`, e.RunID)
		page := otto.get(deskPath(e))
		require.Contains(t, page.Says(), "⟦U+202E⟧")
		require.NotContains(t, page.Body, "<script>alert")
		require.NotContains(t, page.Body, `value="confirm_done"`, "a value is cut")
		require.Equal(t, http.StatusConflict, otto.resolve(e, "confirm_done", "x", "external_id", "re").Status)
		form := otto.get(deskPath(e)+"?full=1").form(t, deskPath(e)+"/resolution?full=1#settle")
		form.Set("move", "confirm_done")
		form.Set("reason", "looked at all of it")
		form.Set("external_id", "re_h")
		require.Contains(t, otto.post(deskPath(e)+"/resolution?full=1", form).Says(), "Recorded as done.")
	})
}

func TestDeskSecondPerson(t *testing.T) { // R6, A5
	t.Parallel()
	g := deskGate(t)
	otto, nora, sam := g.signedIn("otto"), g.signedIn("nora"), g.signedIn("sam")
	confirm := func(b *browser, e ledger.EffectKey, reason string) seen {
		path := deskPath(e) + "/resolution"
		form := b.get(deskPath(e)).form(t, path)
		form.Set("move", "confirm_not_done")
		form.Set("reason", reason)
		return b.post(path, form)
	}

	t.Run("WhatMayBeDoneTwiceIsConfirmedByAnother", func(t *testing.T) {
		e := g.lost("two")
		require.Contains(t, otto.resolve(e, "confirm_not_done", "Their desk has nothing.").Says(), "Proposed. Another person has to confirm it")
		require.Equal(t, "unknown", g.effect(e))
		own := otto.get(deskPath(e))
		require.Contains(t, own.Says(), "You proposed this, so another person has to confirm it")
		form := own.form(t, deskPath(e)+"/resolution#settle")
		form.Set("proposal_id", own.form(t, deskPath(e)+"/resolution#withdraw").Get("proposal_id"))
		form.Set("move", "confirm_not_done")
		form.Set("reason", "me again")
		require.Equal(t, http.StatusForbidden, otto.post(deskPath(e)+"/resolution", form).Status)
		require.Contains(t, sam.get(deskPath(e)).Says(), "Their desk has nothing.")
		require.Equal(t, http.StatusConflict, sam.resolve(e, "confirm_not_done", "I think so too").Status, "one proposal at a time")
		require.Equal(t, http.StatusUnprocessableEntity, confirm(sam, e, " ").Status)
		require.Contains(t, confirm(sam, e, "I have asked as well.").Says(), "It is sent again under the same key.")
		require.Equal(t, "pending", g.effect(e))
		require.Equal(t, "otto sam I have asked as well.", g.Text(`select concat_ws(' ', by_id, second_id, second_reason) from resolutions
where run_id = $1 and made_at is not null`, e.RunID))
	})

	t.Run("WhoeverAskedIsNotTheSecond", func(t *testing.T) {
		e := g.lost("asked")
		g.Exec(`update runs set requested_by = 'nora.lead' where run_id = $1`, e.RunID)
		otto.resolve(e, "confirm_not_done", "Their desk has nothing.")
		require.Contains(t, nora.get(deskPath(e)).Says(), "You asked for this, or corrected it")
		require.NotContains(t, nora.get(deskPath(e)).Body, "second-reason")
	})

	t.Run("EitherWithdrawsIt", func(t *testing.T) {
		e := g.lost("withdrawn")
		for _, b := range []*browser{otto, sam} {
			otto.resolve(e, "confirm_not_done", "Their desk has nothing.")
			form := b.get(deskPath(e)).form(t, deskPath(e)+"/resolution#withdraw")
			form.Set("move", "withdraw")
			require.Contains(t, b.post(deskPath(e)+"/resolution", form).Says(), "Withdrawn.")
		}
		require.Equal(t, "unknown", g.effect(e))
	})

	t.Run("WhereItsProviderReplaysTheKeyOneIsEnough", func(t *testing.T) {
		e := g.lost("replayed")
		g.Exec(`update effects set first_sent_at = clock_timestamp() - interval '1 hour' where run_id = $1`, e.RunID)
		require.Contains(t, otto.get(deskPath(e)).Says(), "The provider still answers a repeated key")
		require.Contains(t, otto.resolve(e, "confirm_not_done", "Their desk has nothing.").Says(), "It is sent again")
	})

	t.Run("WhatCertainlyNeverLeftTakesOne", func(t *testing.T) {
		e := g.lost("unsent")
		g.Exec(`update effects set state = 'held', hold_reason = 'unauthorized', unknown_since = null, maybe_sent = false
where run_id = $1`, e.RunID)
		require.Contains(t, otto.resolve(e, "confirm_not_done", "The credential is right now.").Says(), "It is sent again")
	})

	t.Run("ToHaveItSentAgainNeedsARecentSignIn", func(t *testing.T) {
		e := g.lost("recent")
		g.ahead.Store(int64(-20 * time.Minute))
		old := g.signedIn("otto")
		g.ahead.Store(0)
		page := old.resolve(e, "confirm_not_done", "Their desk has nothing.")
		require.Equal(t, http.StatusForbidden, page.Status)
		require.Contains(t, page.Says(),
			"to have this sent again needs a sign-in within the last 15m0s. "+
				"Nothing was changed yet; your reason is kept.")
		require.Contains(t, page.Body, "again=1&amp;return=%2Fdesk%2F"+e.OperationID())
		require.Contains(t, old.get(deskPath(e)).Body, "Their desk has nothing.</textarea>")
		require.Contains(t, old.resolve(e, "dispute", "Nothing is sent by it.").Says(), "Held as disputed.", "no other needs it")
	})
}

func TestDeskWithoutTheOperatorsLogin(t *testing.T) {
	t.Parallel()
	g := deskGate(t, func(c *gateConfig) { c.settings = func(s *Settings) { s.OperatorDatabaseURL = "" } })
	otto := g.signedIn("otto")
	e := g.lost("read")
	page := otto.get(deskPath(e))
	require.Contains(t, page.Says(), "by the command line alone: holdpoint resolve "+e.OperationID())
	require.NotContains(t, page.Body, "/resolution")
}

func TestDeskMeasures(t *testing.T) { // R9
	t.Parallel()
	g := deskGate(t)
	require.NoError(t, g.stop()) // the test is the loop
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	var errs [3]error
	g.unsettled, errs[0] = meter.Int64Gauge("holdpoint_unsettled")
	g.unsettledAge, errs[1] = meter.Float64Gauge("holdpoint_unsettled_oldest_seconds")
	g.atRisk, errs[2] = meter.Float64Gauge("holdpoint_amount_at_risk")
	require.NoError(t, errors.Join(errs[:]...))
	measured := func() map[string]float64 {
		_, err := g.watchDesk(t.Context())
		require.NoError(t, err)
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		values := map[string]float64{}
		for _, m := range all.ScopeMetrics[0].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			}
		}
		return values
	}
	e := g.lost("old")
	other := g.lost("older")
	g.Exec(`update effects set unknown_since = clock_timestamp() - interval '48 hours' where run_id = $1`, e.RunID)

	first := measured()
	require.InDelta(t, 2, first["holdpoint_unsettled kind=unknown,tenant=demo"], 0)
	require.InDelta(t, 48*3600, first["holdpoint_unsettled_oldest_seconds kind=unknown,tenant=demo"], 60)
	require.InDelta(t, 500, first["holdpoint_amount_at_risk currency=EUR,tenant=demo"], 0)
	measured() // within a quarter of an hour nobody is alerted again
	alerts := g.Logs.Errors()
	require.Len(t, alerts, 1)
	for _, says := range []string{"unknown for too long", "tenant=demo", "owner=support-lead", "unknown=2",
		"oldest=" + e.OperationID(), "age=48h0m",
		`at_risk="500 EUR"`} {
		require.Contains(t, alerts[0], says)
	}

	g.Exec(`update effects set state = 'held', hold_reason = 'disputed', unknown_since = null where run_id = any($1)`,
		[]uuid.UUID{e.RunID, other.RunID})
	after := measured()
	require.Zero(t, after["holdpoint_unsettled kind=unknown,tenant=demo"], "what is there no more is measured as none")
	require.InDelta(t, 2, after["holdpoint_unsettled kind=disputed,tenant=demo"], 0)
	g.deskAlerted = map[string]time.Time{}
	measured()
	require.Len(t, g.Logs.Errors(), 1, "what somebody holds is not unknown")
}
