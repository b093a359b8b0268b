package approval

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")

	t.Run("AStrangerIsSentToTheProviderAndBack", func(t *testing.T) {
		nora := g.as("nora")
		moved := nora.raw(http.MethodGet, cardPath(asked))
		require.Equal(t, http.StatusSeeOther, moved.Status)
		require.Equal(t, signInPath(cardPath(asked), false), moved.Header.Get("Location"))
		page := nora.get(cardPath(asked))
		require.Equal(t, cardPath(asked), page.Path)
		require.Contains(t, page.Body, "Nora Lead")
		require.Equal(t, 1, nora.Forms)
	})
	t.Run("TheFlowHasStateNonceAndPKCE", func(t *testing.T) {
		answer := g.as("nora").raw(http.MethodGet, "/sign-in")
		to, err := url.Parse(answer.Header.Get("Location"))
		require.NoError(t, err)
		q := to.Query()
		require.Equal(t, "S256", q.Get("code_challenge_method"))
		require.Len(t, q.Get("code_challenge"), 43)
		require.Len(t, q.Get("state"), 43)
		require.Len(t, q.Get("nonce"), 43)
		require.Empty(t, q.Get("prompt"))
		stepUp, err := url.Parse(g.as("nora").raw(http.MethodGet, "/sign-in?again=1").Header.Get("Location"))
		require.NoError(t, err)
		require.Equal(t, "login", stepUp.Query().Get("prompt"))
		require.Equal(t, "0", stepUp.Query().Get("max_age"))
	})
	t.Run("ItLeadsBackToOurOwnPagesOnly", func(t *testing.T) {
		for _, back := range []string{"https://evil.example", "//evil.example", `/\evil.example`, `\\evil.example`,
			"/\t/evil.example", "javascript:alert(1)",
			"/%2F/evil.example", "/approvals/../../evil", "/\r\nX: y", "/sign-in", "/callback?code=x",
			"/approvals/" + strings.Repeat("a", 36) + "@evil.example",
			"/?next=//evil.example", ""} {
			require.Equal(t, "/", safeReturn(back), back)
			page := g.as("nora").get("/sign-in?" + url.Values{"return": {back}}.Encode())
			require.Equal(t, "/", page.Path, back)
			require.Equal(t, http.StatusOK, page.Status)
		}
		for _, back := range []string{"/", "/?state=pending&key=a%2Fb", cardPath(asked), cardPath(asked) + "?full=1",
			"/l/" + newToken()} {
			require.Equal(t, back, safeReturn(back))
		}
	})
	t.Run("ACallbackThatWasNotBegunHereStartsAgain", func(t *testing.T) {
		for _, path := range []string{"/callback", "/callback?state=x&code=y", "/callback?code=y&state=" + newToken()} {
			page := g.as("nora").get(path)
			require.Equal(t, http.StatusBadRequest, page.Status)
			require.Contains(t, page.Body, "Start again")
		}
	})
	t.Run("AFlowThatTookTooLongStartsAgain", func(t *testing.T) {
		b := g.as("nora")
		to, err := url.Parse(b.raw(http.MethodGet, "/sign-in").Header.Get("Location"))
		require.NoError(t, err)
		at, err := url.Parse(g.base)
		require.NoError(t, err)
		state := to.Query().Get("state")
		old, err := json.Marshal(flow{State: state, Return: "/", Begun: time.Now().Add(-flowAge)})
		require.NoError(t, err)
		b.Client.Jar.SetCookies(at, []*http.Cookie{{Name: g.web.flowCookie(state), Path: "/",
			Value: base64.RawURLEncoding.EncodeToString(old)}})
		page := b.get("/callback?code=x&state=" + state)
		require.Equal(t, http.StatusBadRequest, page.Status)
		require.Contains(t, page.Says(), "took too long")
	})
	t.Run("TheProvidersRefusalIsNotShownRaw", func(t *testing.T) {
		for code, status := range map[string]int{"access_denied": http.StatusForbidden,
			"server_error": http.StatusServiceUnavailable,
			"<b>evil</b>":  http.StatusBadRequest} {
			b := g.as("nora")
			to, err := url.Parse(b.raw(http.MethodGet, "/sign-in").Header.Get("Location"))
			require.NoError(t, err)
			page := b.get("/callback?" + url.Values{"state": {to.Query().Get("state")}, "error": {code},
				"error_description": {"<i>"}}.Encode())
			require.Equal(t, status, page.Status, code)
			require.Contains(t, page.Says(), "Nothing was decided")
			require.NotContains(t, page.Body, "evil")
			again := b.get("/callback?" + url.Values{"state": {to.Query().Get("state")}, "code": {"x"}}.Encode())
			require.Equal(t, http.StatusBadRequest, again.Status, "the flow is over")
		}
	})
	t.Run("AWrongCodeOrIssuerSignsNobodyIn", func(t *testing.T) {
		for _, extra := range []string{"&code=wrong", "&code=wrong&iss=https%3A%2F%2Fevil.example"} {
			b := g.as("nora")
			to, err := url.Parse(b.raw(http.MethodGet, "/sign-in").Header.Get("Location"))
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, b.get("/callback?state="+to.Query().Get("state")+extra).Status)
			require.Equal(t, http.StatusSeeOther, b.raw(http.MethodGet, "/").Status)
		}
	})
	t.Run("TheSessionsTokenIsRenewedAndNotInTheDatabase", func(t *testing.T) {
		nora := g.signedIn("nora")
		first := session(t, nora)
		require.Equal(t, http.StatusOK, nora.get("/sign-in?return=/").Status)
		second := session(t, nora)
		require.NotEqual(t, first, second)
		require.Equal(t, 0, g.Count(`select count(*) from sessions where token in ($1, $2) or position(convert_to($2, 'UTF8') in data) > 0`,
			first, second))
		stale := g.as("nora")
		at, err := url.Parse(g.base)
		require.NoError(t, err)
		stale.Client.Jar.SetCookies(at, []*http.Cookie{{Name: "holdpoint_session", Value: first, Path: "/"}})
		require.Equal(t, http.StatusSeeOther, stale.raw(http.MethodGet, "/").Status)
	})
	t.Run("AStrangerLeavesNoRow", func(t *testing.T) {
		before := g.Count(`select count(*) from sessions`)
		for _, path := range []string{"/", "/sign-in", cardPath(asked), "/l/" + newToken(), "/none"} {
			b := g.as("nora")
			b.raw(http.MethodGet, path)
		}
		require.Equal(t, before, g.Count(`select count(*) from sessions`))
	})
	t.Run("TheNextPersonFindsNothingOfTheOneBefore", func(t *testing.T) {
		b := g.signedIn("nora")
		b.get(cardPath(asked))
		form := b.filled(asked, ledger.Approve, "yes")
		b.Login = "sam"
		require.Contains(t, b.get("/sign-in?again=1&return=/").Body, "Sam Lead")
		require.Equal(t, http.StatusForbidden, b.post(cardPath(asked)+"/decision", form).Status)
		require.Equal(t, untouched, g.state(asked))
	})
	t.Run("SigningOutEndsTheSession", func(t *testing.T) {
		nora := g.signedIn("nora")
		form := nora.get("/").form(t, "/sign-out")
		token := session(t, nora)
		require.Equal(t, http.StatusForbidden, nora.post("/sign-out", url.Values{}).Status)
		page := nora.post("/sign-out", form)
		require.Contains(t, page.Says(), "You are signed out")
		require.Contains(t, page.Body, g.settings.Issuer+"/end_session?")
		require.Equal(t, http.StatusSeeOther, nora.raw(http.MethodGet, "/").Status)
		at, err := url.Parse(g.base)
		require.NoError(t, err)
		nora.Client.Jar.SetCookies(at, []*http.Cookie{{Name: "holdpoint_session", Value: token, Path: "/"}})
		require.Equal(t, http.StatusSeeOther, nora.raw(http.MethodGet, "/").Status, "the old token is worth nothing")
	})
}

func session(t *testing.T, b *browser) string {
	t.Helper()
	at, err := url.Parse(b.base)
	require.NoError(t, err)
	for _, c := range b.Client.Jar.Cookies(at) {
		if c.Name == "holdpoint_session" {
			return c.Value
		}
	}
	t.Fatal("there is no session")
	return ""
}

// TestStepUp is A6: the reason survives the way through the provider.
func TestStepUp(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	asked := g.waiting("k")
	g.ahead.Store(int64(-20 * time.Minute))
	nora := g.signedIn("nora") // 20 minutes ago, by the provider's auth_time
	g.ahead.Store(0)
	require.Contains(t, nora.get(cardPath(asked)).Says(), "Prove again who you are")

	page := nora.decide(asked, ledger.Approve, "The order was <double>.")
	require.Equal(t, http.StatusForbidden, page.Status)
	require.Contains(t, page.Body, `href="/sign-in?again=1&amp;return=%2Fapprovals%2F`)
	require.Equal(t, untouched, g.state(asked))

	back := nora.get(signInPath(cardPath(asked), true))
	require.Equal(t, cardPath(asked), back.Path)
	require.Equal(t, 2, nora.Forms, "the password was asked for again")
	require.Contains(t, back.Body, "The order was &lt;double&gt;.</textarea>")
	require.Contains(t, nora.decide(asked, ledger.Approve, "The order was <double>.").Says(), "Approved.")
	require.Equal(t, approved, g.state(asked))
}

func TestOldRolesAreNotDecidedBy(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) { c.settings = func(s *Settings) { s.RolesMaxAge = time.Microsecond } })
	asked := g.waiting("k")
	page := g.as("nora").decide(asked, ledger.Approve, "yes")
	require.Equal(t, http.StatusForbidden, page.Status)
	require.Contains(t, page.Says(), "Sign in again")
	require.Contains(t, page.Body, `href="/sign-in?return=%2Fapprovals%2F`, "no password is asked for")
	require.Equal(t, untouched, g.state(asked))
}

func TestAProviderThatIsDown(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) { c.idpDown = true })
	for _, path := range []string{"/", "/sign-in"} {
		page := g.as("nora").get(path)
		require.Equal(t, http.StatusServiceUnavailable, page.Status)
		require.Contains(t, page.Says(), "Nothing was decided")
		require.NotContains(t, page.Body, "127.", "where the provider is, is nobody's business")
	}
}

// TestWhatTheProviderSendsBack stands between the service and the provider.
func TestWhatTheProviderSendsBack(t *testing.T) {
	t.Parallel()
	between := &between{}
	g := newGate(t, func(c *gateConfig) {
		c.settings = func(s *Settings) { s.HTTPClient = &http.Client{Transport: between} }
	})
	asked := g.waiting("k")
	for name, c := range map[string]struct {
		token  func(*http.Request) (*http.Response, error)
		status int
		says   string
	}{
		"ItDiesDuringTheSignIn": {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			http.StatusServiceUnavailable, "Nobody can sign in now"},
		"ItFailsDuringTheSignIn": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadGateway, Body: http.NoBody, Request: r,
				Header: http.Header{}}, nil
		}, http.StatusServiceUnavailable, "Nobody can sign in now"},
		"ADelegatedCredentialIsNoPersons": {between.forge(t, map[string]any{"act": map[string]any{"sub": "agent"}}),
			http.StatusForbidden, "Only people decide"},
		"AProgramIsNoPerson": {between.forge(t, map[string]any{"sub": "holdpoint"}), http.StatusForbidden,
			"Only people decide"},
		"AnotherNonceIsAnotherSignIn": {between.forge(t, map[string]any{"nonce": "replayed"}), http.StatusBadRequest,
			"Start again"},
		"ATokenForAnotherProgram": {between.forge(t, map[string]any{"aud": "holdpoint-cli"}), http.StatusBadRequest,
			"Start again"},
	} {
		t.Run(name, func(t *testing.T) {
			between.token.Store(&c.token)
			nora := g.as("nora")
			page := nora.get(cardPath(asked))
			require.Equal(t, c.status, page.Status)
			require.Contains(t, page.Says(), c.says)
			require.Contains(t, page.Says(), "Nothing was decided")
			require.Equal(t, http.StatusSeeOther, nora.raw(http.MethodGet, "/").Status, "nobody was signed in")
		})
	}
}

// between answers the token request instead of the provider, and gives out its own key beside.
type between struct {
	token atomic.Pointer[func(*http.Request) (*http.Response, error)]
	keys  atomic.Pointer[[]byte]
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := b.token.Load(); token != nil && strings.HasSuffix(r.URL.Path, "/token") {
		return (*token)(r)
	}
	if keys := b.keys.Load(); keys != nil && strings.HasSuffix(r.URL.Path, "/keys") {
		return answered(r, *keys), nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

func answered(r *http.Request, body []byte) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// forge takes the provider's own answer and signs its ID token anew, with other claims.
func (b *between) forge(t *testing.T, changes map[string]any) func(*http.Request) (*http.Response, error) {
	key := b.key(t)
	return func(r *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			return answer, err
		}
		defer answer.Body.Close()
		tokens, claims := map[string]any{}, map[string]any{}
		if err := json.NewDecoder(answer.Body).Decode(&tokens); err != nil {
			return nil, err
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(tokens["id_token"].(string), ".")[1])
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(payload, &claims); err != nil {
			return nil, err
		}
		maps.Copy(claims, changes)
		payload, _ = json.Marshal(claims)
		signed, err := key.Sign(payload)
		if err != nil {
			return nil, err
		}
		tokens["id_token"], _ = signed.CompactSerialize()
		body, err := json.Marshal(tokens)
		return answered(r, body), err
	}
}

var forged = sync.OnceValues(func() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(),
		rand.Reader)
})

func (b *between) key(t *testing.T) jose.Signer {
	t.Helper()
	private, err := forged()
	require.NoError(t, err)
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "forged",
		Algorithm: "ES256"}}})
	require.NoError(t, err)
	b.keys.Store(&public)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private,
		KeyID: "forged"}}, nil)
	require.NoError(t, err)
	return signer
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) { c.settings = func(s *Settings) { s.PublicURL = "https://approvals.example" } })
	answer := g.as("nora").raw(http.MethodGet, "/sign-in")
	require.Equal(t, "max-age=31536000", answer.Header.Get("Strict-Transport-Security"))
	cookie := answer.Header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(cookie, "__Host-holdpoint_flow_"), cookie)
	for _, part := range []string{"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
		require.Contains(t, cookie, part)
	}
	of := g.web.sessions.Cookie
	require.Equal(t, "__Host-holdpoint_session", of.Name)
	require.True(t, of.Secure && of.HttpOnly && of.SameSite == http.SameSiteLaxMode && of.Path == "/")
	to, err := url.Parse(answer.Header.Get("Location"))
	require.NoError(t, err)
	require.Equal(t, "https://approvals.example/callback", to.Query().Get("redirect_uri"))
}

func TestADatabaseThatIsDown(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	g.env.Pool.Close()
	page := nora.get("/")
	require.Equal(t, http.StatusServiceUnavailable, page.Status)
	require.Contains(t, page.Says(), "Nothing was decided")
}
