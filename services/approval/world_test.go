package approval

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// gate is the running service with the demo's people, who sign in at a provider of the test's own.
type gate struct {
	*servicetest.World
	*Approval
	idp   *demoidp.Provider // nil where it is down
	ahead atomic.Int64      // the provider's clock, against the real one
	base  string
	stop  func() error
	t     testing.TB
}

// gateConfig is what a test wants different.
type gateConfig struct {
	settings func(*Settings)
	tenant   func(*config.Tenant)
	idpDown  bool
	desk     bool // it has the operator's login
}

// newGate starts the service on a listener of its own. No message is sent: links are minted by the test.
func newGate(t testing.TB, changes ...func(*gateConfig)) *gate {
	t.Helper()
	var c gateConfig
	for _, change := range changes {
		change(&c)
	}
	g := &gate{t: t}
	g.World = servicetest.New(t, servicetest.WithConfig(func(tenant *config.Tenant) {
		tenant.Channels = nil
		if c.tenant != nil {
			c.tenant(tenant)
		}
	}))
	_, err := g.Intake.ActivateRules(t.Context(), ledgertest.Tenant, refundSource, 1)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.base = "http://" + listener.Addr().String()
	issuer := nobody
	if !c.idpDown {
		g.provider()
		issuer = g.idp.Issuer()
	}
	settings := Settings{Listener: listener, Issuer: issuer, ClientID: "holdpoint", ClientSecret: "holdpoint-secret",
		Scopes: []string{"openid", "profile", "email", "groups"}, APIClients: []string{"holdpoint-cli"},
		RolesMaxAge: 10 * time.Minute, SessionLifetime: time.Hour, SessionIdle: time.Hour}
	if c.desk {
		settings.OperatorDatabaseURL = g.DB.URL
	}
	if c.settings != nil {
		c.settings(&settings)
	}
	g.Approval, err = New(t.Context(), g.Env(ledger.Approval), settings)
	require.NoError(t, err)
	g.stop = g.Start(g.Approval)
	return g
}

// nobody is an issuer that does not answer.
const nobody = "http://127.0.0.1:1"

// refundSource names whoever asked in its events.
const refundSource = "support-refunds"

// provider starts the demo's. It has an address of its own, because cookies are kept by address and not by port.
func (g *gate) provider() {
	p, err := demoidp.New(demoidp.Config{Addr: "127.0.0.2:0", People: demoidp.DemoPeople(),
		Clients: demoidp.DemoClients(g.base + "/callback"),
		Logger:  slog.New(slog.DiscardHandler), TokenLifetime: time.Hour,
		Now: func() time.Time { return time.Now().Add(time.Duration(g.ahead.Load())) }})
	require.NoError(g.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		require.NoError(g.t, <-ended)
	})
	g.idp = p
}

// waiting is a refund of 250 EUR that rita asked for and that waits for a support lead.
func (g *gate) waiting(key string, changes ...func(*ledger.Claim)) ledgertest.Asked {
	g.t.Helper()
	return g.waits(key, func(*servicetest.Proposal) {}, changes...)
}

func (g *gate) waits(key string, propose func(*servicetest.Proposal), changes ...func(*ledger.Claim)) ledgertest.Asked {
	g.t.Helper()
	claim := g.Refund(key, func(p *servicetest.Proposal) {
		p.ProposedChange = map[string]any{"payment_id": "p-" + key, "amount": json.Number("250"), "currency": "EUR"}
		propose(p)
	})
	claim.Source, claim.RequestedBy, claim.SentBy, claim.CorrelationID = refundSource, "rita.requester", "demo",
		"ticket-"+key
	for _, change := range changes {
		change(&claim)
	}
	g.decides(claim, config.RouteHumanReview, func(d *ledger.Decision) {
		d.Audience = []string{"support-lead"}
		d.Reasons = []byte(`[{"code":"rule_matched","rule_id":"refund-needs-lead","message":"The amount needs the lead."}]`)
	})
	return g.Pending(key)
}

// decides claims a run and takes the policy's decision on it, under the policy of the configuration.
func (g *gate) decides(claim ledger.Claim, route string, change func(*ledger.Decision)) {
	g.t.Helper()
	g.Claim(claim)
	undecided, err := g.Policy.Undecided(g.t.Context(), []ledger.IntentRef{ledgertest.Ref(claim)})
	require.NoError(g.t, err)
	require.Len(g.t, undecided, 1)
	s, err := intent.Read(undecided[0].Canonical, undecided[0].IntentHash)
	require.NoError(g.t, err)
	d := ledgertest.Decision(&undecided[0], uuid.Must(uuid.NewV7()), route)
	d.PolicyVersion = g.PolicyVersion
	d.Effects = []ledger.EffectRequest{{Connector: s.Connector, Operation: s.Operation, TargetSystem: s.TargetSystem,
		TargetRecord: s.TargetRecord}}
	change(&d)
	moved, err := g.Policy.Decide(g.t.Context(), []ledger.Decision{d}, func(_ *ledger.Decision, err error) { require.NoError(g.t, err) })
	require.NoError(g.t, err)
	require.Equal(g.t, 1, moved)
}

// link mints a link for a recipient, as a message would have it.
func (g *gate) link(a ledgertest.Asked, recipient string) (path string) {
	g.t.Helper()
	token := newToken()
	minted, err := g.env.Ledger.MintTokens(g.t.Context(), []ledger.Token{{Hash: tokenHash(token),
		TenantID: a.Effect.TenantID,
		RunID:    a.Effect.RunID, ApprovalID: a.ApprovalID, Recipient: recipient, Decisions: []string{ledger.Approve,
			ledger.Reject}}})
	require.NoError(g.t, err)
	require.Equal(g.t, []bool{true}, minted)
	return linkPath + token
}

// state of an approval, and how many votes and effects it has.
func (g *gate) state(a ledgertest.Asked) string {
	g.t.Helper()
	return g.Text(`select state || ' ' || (select count(*) from reviews v where v.approval_id = a.approval_id) || ' ' ||
(select count(*) from effects e where e.run_id = a.run_id) from approvals a where approval_id = $1`, a.ApprovalID)
}

// What state says.
const (
	untouched = "pending 0 0"
	approved  = "approved 1 1"
	rejected  = "rejected 1 0"
)

// browser is a person's, or a stranger's until it opens a page that asks to sign in.
type browser struct {
	*demoidp.Browser
	base string
	t    testing.TB
}

// as is a fresh browser of a person who will sign in when asked to.
func (g *gate) as(person string) *browser {
	return &browser{Browser: demoidp.NewBrowser(person, demoidp.DemoPassword), base: g.base, t: g.t}
}

// signedIn is a browser of a person who has signed in.
func (g *gate) signedIn(person string) *browser {
	g.t.Helper()
	b := g.as(person)
	require.Equal(g.t, http.StatusOK, b.get("/").Status)
	return b
}

// seen is one page.
type seen struct {
	Status int
	Path   string // at the end of all redirects
	Body   string
	Header http.Header
}

// Says is the page's text without markup.
func (s seen) Says() string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(s.Body, " "))), " ")
}

var tags = regexp.MustCompile(`<[^>]*>`)

func (b *browser) get(path string) seen {
	b.t.Helper()
	answer, err := b.Open(b.t.Context(), b.base+path)
	require.NoError(b.t, err)
	return read(b.t, answer)
}

func read(t testing.TB, answer *http.Response) seen {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return seen{answer.StatusCode, answer.Request.URL.RequestURI(), string(body), answer.Header}
}

// post sends a form as a browser does from a page of the same site.
func (b *browser) post(path string, form url.Values, changes ...func(*http.Request)) seen {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+path,
		strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", "null") // as browsers do where the Referrer-Policy is no-referrer (Fetch, 3.2)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, change := range changes {
		change(request)
	}
	answer, err := b.Client.Do(request)
	require.NoError(b.t, err)
	return read(b.t, answer)
}

// raw asks without following redirects.
func (b *browser) raw(method, path string) seen {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, nil)
	require.NoError(b.t, err)
	client := *b.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(request)
	require.NoError(b.t, err)
	return read(b.t, answer)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// form reads the hidden fields of the form that posts to a path.
func (s seen) form(t testing.TB, action string) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(s.Body, `action="`+action+`"`)
	require.True(t, found, "the page has no form to %s:\n%s", action, s.Says())
	rest, _, _ = strings.Cut(rest, "</form>")
	fields := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(rest, -1) {
		fields.Set(field[1], html.UnescapeString(field[2]))
	}
	return fields
}

func cardPath(a ledgertest.Asked) string { return "/approvals/" + a.ApprovalID.String() }

// filled opens the card and fills in the decision.
func (b *browser) filled(a ledgertest.Asked, decision, reason string) url.Values {
	b.t.Helper()
	form := b.get(cardPath(a)).form(b.t, cardPath(a)+"/decision")
	form.Set("decision", decision)
	form.Set("reason", reason)
	return form
}

// decide opens the card and sends the decision.
func (b *browser) decide(a ledgertest.Asked, decision, reason string) seen {
	b.t.Helper()
	return b.post(cardPath(a)+"/decision", b.filled(a, decision, reason))
}
