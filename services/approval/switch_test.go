package approval

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

const crmSwitch = "demo/connector:sandbox-crm"

// pull fills in a form of a page of switches, and sends it.
func (b *browser) pull(page, to, reason string, more ...string) seen {
	b.t.Helper()
	form := b.get(page).form(b.t, "/switches/"+to)
	form.Set("reason", reason)
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return b.post("/switches/"+to, form)
}

// switched is a switch as the ledger has it: closed or not, and how often it was changed.
func (g *gate) switched(scope, key string) string {
	g.t.Helper()
	return g.Text(`select concat_ws(' ', (select case when closed then 'closed' when open_at > clock_timestamp() then 'opening' else 'open' end
  from kill_switches where scope = $1 and scope_key = $2),
  (select count(*) from kill_switch_changes where scope = $1 and scope_key = $2))`, scope, key)
}

func TestSwitches(t *testing.T) { // D9, D15, O8
	t.Parallel()
	g := deskGate(t)
	otto, nora, carl := g.signedIn("otto"), g.signedIn("nora"), g.signedIn("carl")

	t.Run("TheyAreShownWithWhoMayMoveThem", func(t *testing.T) {
		page := nora.get("/switches")
		for _, says := range []string{"Closed and opened by operator or support-lead", "everything of Demo", "connector sandbox-crm",
			"action type payment.refund", "never changed", "changed by the command line alone"} {
			require.Contains(t, page.Says(), says)
		}
		require.Contains(t, nora.get("/").Body, `href="/switches"`)
		require.Contains(t, nora.get("/switches/demo/tenant").Says(), "It was never changed.")
		require.NotContains(t, nora.get("/switches/demo/tenant").Body, `action="/switches/opening"`, "it is open")
	})

	t.Run("ToWhoeverMayMoveNoneThereAreNone", func(t *testing.T) {
		require.NotContains(t, carl.get("/").Body, `href="/switches"`)
		for _, path := range []string{"/switches", "/switches/demo/tenant"} {
			require.Equal(t, http.StatusNotFound, carl.get(path).Status, path)
		}
		form := nora.get("/switches").form(t, "/switches/closing")
		form.Set("csrf", carl.get("/").form(t, "/sign-out").Get("csrf"))
		form.Set("which", "demo/tenant")
		form.Set("reason", "x")
		require.Equal(t, http.StatusNotFound, carl.post("/switches/closing", form).Status)
		require.Equal(t, "0", g.switched(ledger.ScopeTenant, "demo"))
	})

	t.Run("NobodyMovesTheGlobalOneOrOneOfAnotherTenant", func(t *testing.T) {
		for _, which := range []string{"demo/global", "another/tenant", "demo/connector:none", "demo", ""} {
			page := otto.pull("/switches", "closing", "x", "which", which)
			require.Equal(t, http.StatusNotFound, page.Status, which)
		}
		require.Equal(t, http.StatusNotFound, otto.get("/switches/demo/global").Status)
		require.Equal(t, "0", g.Text(`select count(*)::text from kill_switch_changes`))
	})

	t.Run("AFormOfAnotherSiteOrSessionAndAGETChangeNothing", func(t *testing.T) { // A3
		form := otto.get("/switches").form(t, "/switches/closing")
		form.Set("which", "demo/tenant")
		form.Set("reason", "x")
		require.Equal(t, http.StatusForbidden, otto.post("/switches/closing", form, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}).Status)
		require.Equal(t, http.StatusMethodNotAllowed, otto.get("/switches/closing?"+form.Encode()).Status)
		require.Equal(t, http.StatusMethodNotAllowed, otto.get("/switches/opening?"+form.Encode()).Status)
		form.Set("csrf", "guessed")
		require.Equal(t, http.StatusForbidden, otto.post("/switches/closing", form).Status)
		require.Equal(t, "0", g.switched(ledger.ScopeTenant, "demo"))
	})

	t.Run("OneClickAndAReasonCloseAndThePageTellsWhatIsInFlight", func(t *testing.T) {
		lost := g.lost("unknown")
		require.Equal(t, http.StatusUnprocessableEntity, nora.pull("/switches", "closing", " ", "which", "demo/connector:sandbox-payments").Status)
		form := nora.get("/switches").form(t, "/switches/closing")
		form.Set("which", "demo/connector:sandbox-payments")
		form.Set("reason", "It pays \u202Etwice.")
		for range 2 { // a form that is sent twice is one change
			page := nora.post("/switches/closing", form)
			require.Equal(t, "/switches/demo/connector:sandbox-payments", page.Path)
			require.Contains(t, page.Says(), "nora : It pays ⟦U+202E⟧ twice.")
			require.Contains(t, page.Says(), "Unknown 1")
			require.Contains(t, page.Body, deskPath(lost))
		}
		require.Equal(t, "closed 1", g.switched(ledger.ScopeConnector, "demo/sandbox-payments"))
		require.Equal(t, "nora web true", g.Text(`select concat_ws(' ', changed_by, channel, (authority->'roles' @> '["support-lead"]')::text)
from kill_switch_changes where scope_key = 'demo/sandbox-payments'`))
		require.Contains(t, otto.get("/switches").Says(), "connector sandbox-payments closed")
	})

	t.Run("ToOpenTakesARecentSignIn", func(t *testing.T) {
		g.ahead.Store(int64(-16 * time.Minute))
		old := g.signedIn("nora")
		g.ahead.Store(0)
		require.Contains(t, old.pull("/switches", "closing", "It loses updates.", "which", crmSwitch).Says(), "Closed.", "closing does not")
		page := old.get("/switches/" + crmSwitch)
		require.Contains(t, page.Body, "again=1&amp;return=%2Fswitches%2Fdemo%2Fconnector%3Asandbox-crm")
		refused := old.pull("/switches/"+crmSwitch, "opening", "They have mended it.", "ramp", "0")
		require.Equal(t, http.StatusForbidden, refused.Status)
		require.Equal(t, "closed 1", g.switched(ledger.ScopeConnector, "demo/sandbox-crm"))
		require.Contains(t, old.get("/switches/"+crmSwitch).Body, "They have mended it.", "the reason is kept")
		require.Contains(t, nora.pull("/switches/"+crmSwitch, "opening", "They have mended it.", "ramp", "1h").Says(), "It opens over 1h0m0s.")
		require.Equal(t, "opening 2", g.switched(ledger.ScopeConnector, "demo/sandbox-crm"))
		require.Contains(t, nora.get("/switches/"+crmSwitch).Says(), "and all at")
	})

	t.Run("OpeningIsOfTheClosingThatWasShown", func(t *testing.T) {
		const of = "demo/action_type:crm.contact.update"
		otto.pull("/switches", "closing", "The first reason.", "which", of)
		form := nora.get("/switches/"+of).form(t, "/switches/opening")
		form.Set("reason", "That is over.")
		form.Set("ramp", "0")
		otto.pull("/switches", "closing", "Another reason.", "which", of)
		page := nora.post("/switches/opening", form)
		require.Equal(t, http.StatusConflict, page.Status)
		require.Contains(t, page.Says(), "has been changed since you were shown it")
		require.Contains(t, page.Says(), "Another reason.")
		require.Equal(t, "closed 2", g.switched(ledger.ScopeActionType, "demo/crm.contact.update"))
		for name, value := range map[string]string{"ramp": "25h", "seen": "x", "command_id": "x"} {
			bad := nora.get("/switches/"+of).form(t, "/switches/opening")
			bad.Set("reason", "That is over.")
			bad.Set("ramp", "0")
			bad.Set(name, value)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, nora.post("/switches/opening", bad).Status, name)
		}
		require.Equal(t, "closed 2", g.switched(ledger.ScopeActionType, "demo/crm.contact.update"))
		require.Contains(t, nora.pull("/switches/"+of, "opening", "Both are over.", "ramp", "0").Says(), "Open: all")
	})

	t.Run("WhatIsNotDeclaredAnyMoreCanStillBeOpened", func(t *testing.T) {
		g.Exec(`insert into kill_switches (scope, scope_key, closed, changed_by, reason, epoch) values
('connector', 'demo/gone', true, 'olga', 'It is gone.', 1), ('connector', 'another/theirs', true, 'olga', 'Not yours.', 1)`)
		list := nora.get("/switches").Says()
		require.NotContains(t, nora.get("/switches/demo/connector:gone").Says(), "whatever this one says")
		nora.pull("/switches", "closing", "All of it.", "which", "demo/tenant")
		require.Contains(t, nora.get("/switches/demo/connector:gone").Says(), "The wider switch tenant is closed: whatever this one says")
		require.Contains(t, list, "olga : It is gone.")
		require.NotContains(t, list, "Not yours.")
		require.Contains(t, nora.pull("/switches/demo/connector:gone", "opening", "It is gone.", "ramp", "0").Says(), "Open: all")
	})
}

// TestSwitchesThatAreClosedAreMeasured also when they are open again.
func TestSwitchesThatAreClosedAreMeasured(t *testing.T) { // D9
	t.Parallel()
	g := deskGate(t)
	require.NoError(t, g.stop()) // the test is the loop
	reader := metric.NewManualReader()
	var err error
	g.closed, err = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test").Int64Gauge("closed")
	require.NoError(t, err)
	measured := func() map[string]int64 {
		_, err := g.watchSwitches(t.Context())
		require.NoError(t, err)
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		values := map[string]int64{}
		for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints {
			values[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
		}
		return values
	}
	g.Exec(`insert into kill_switches (scope, scope_key, closed, changed_by, reason) values ('global', '', true, 'olga', 'x'),
('connector', 'demo/sandbox-crm', true, 'olga', 'x'), ('connector', 'demo/warehouse', true, 'olga', 'x'), ('tenant', 'another', true, 'olga', 'x')`)
	require.Equal(t, map[string]int64{"scope=global,tenant=": 1, "scope=tenant,tenant=demo": 0, "scope=action_type,tenant=demo": 0,
		"scope=connector,tenant=demo": 2}, measured())
	g.Exec(`update kill_switches set closed = false`)
	for of, n := range measured() {
		require.Zero(t, n, of)
	}
}

func TestSwitchesWithoutTheOperatorsLogin(t *testing.T) {
	t.Parallel()
	g := deskGate(t, func(c *gateConfig) { c.settings = func(s *Settings) { s.OperatorDatabaseURL = "" } })
	nora := g.signedIn("nora")
	require.Contains(t, nora.get("/switches").Says(), "by the command line alone: holdpoint kill-switch")
	require.NotContains(t, nora.get("/switches/demo/tenant").Body, "/switches/closing")
	form := url.Values{"csrf": {nora.get("/").form(t, "/sign-out").Get("csrf")}, "command_id": {uuid.NewString()}, "which": {"demo/tenant"},
		"reason": {"x"}}
	require.Equal(t, http.StatusForbidden, nora.post("/switches/closing", form).Status)
	require.Equal(t, "0", g.switched(ledger.ScopeTenant, "demo"))
}
