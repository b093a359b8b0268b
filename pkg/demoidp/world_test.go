package demoidp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

const webRedirect = "http://127.0.0.1:9/auth/callback" // nobody listens there, and nobody needs to

// world is one running provider with the demo's people and clients, on a clock that a test can move.
type world struct {
	*Provider
	ahead atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	p, err := New(Config{Addr: "127.0.0.1:0", People: DemoPeople(), Clients: DemoClients(webRedirect),
		Logger: slog.New(slog.DiscardHandler), Now: w.clock})
	require.NoError(t, err)
	w.Provider = p
	run(t, p)
	return w
}

func (w *world) clock() time.Time        { return time.Now().Add(time.Duration(w.ahead.Load())) }
func (w *world) advance(d time.Duration) { w.ahead.Add(int64(d)) }

// run serves until the test ends, and then demands a clean stop.
func run(t *testing.T, p *Provider) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

func (w *world) asNora() SignInConfig {
	return SignInConfig{Issuer: w.Issuer(), ClientID: "holdpoint", ClientSecret: "holdpoint-secret",
		RedirectURI: webRedirect, Login: "nora", Password: DemoPassword}
}

func (w *world) signIn(t *testing.T, c SignInConfig) Tokens {
	t.Helper()
	tokens, err := SignIn(t.Context(), c)
	require.NoError(t, err)
	return tokens
}

// claims verifies a token as a relying party does, by discovery and JWKS, and returns all that it says.
func (w *world) claims(t *testing.T, audience, token string) map[string]any {
	t.Helper()
	provider, err := oidc.NewProvider(t.Context(), w.Issuer())
	require.NoError(t, err)
	verified, err := provider.Verifier(&oidc.Config{ClientID: audience}).Verify(t.Context(), token)
	require.NoError(t, err)
	all := map[string]any{}
	require.NoError(t, verified.Claims(&all))
	return all
}

func (w *world) userinfo(t *testing.T, token string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Addr()+"/userinfo", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text := body(t, answer)
	said := map[string]any{}
	if json.Unmarshal([]byte(text), &said) != nil {
		said["text"] = text
	}
	return answer.StatusCode, said
}

func (w *world) app() *oauth2.Config {
	return &oauth2.Config{ClientID: "holdpoint", ClientSecret: "holdpoint-secret", RedirectURL: webRedirect,
		Scopes: []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: w.Issuer() + "/authorize", TokenURL: w.Issuer() + "/oauth/token",
			AuthStyle: oauth2.AuthStyleInHeader}}
}

// arrivesWith walks nora to the redirect with a request of the test's own and returns what arrives there.
func (w *world) arrivesWith(t *testing.T, opts ...oauth2.AuthCodeOption) url.Values {
	t.Helper()
	address := w.app().AuthCodeURL("the state", opts...)
	arrived, err := NewBrowser("nora", DemoPassword).arrive(t.Context(), address, webRedirect)
	require.NoError(t, err)
	return arrived
}

// formURL is the address of the sign-in form of a new request.
func (w *world) formURL(t *testing.T, opts ...oauth2.AuthCodeOption) string {
	t.Helper()
	opts = append(opts, oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	answer := get(t, w.app().AuthCodeURL("s", opts...))
	body(t, answer)
	require.Equal(t, loginPath, answer.Request.URL.Path)
	return answer.Request.URL.String()
}

func (w *world) submit(t *testing.T, form string, header http.Header, login, password string) *http.Response {
	t.Helper()
	at, err := url.Parse(form)
	require.NoError(t, err)
	values := url.Values{"id": {at.Query().Get("id")}, "login": {login}, "password": {password}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Issuer()+loginPath, strings.NewReader(values))
	require.NoError(t, err)
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := noRedirects.Do(r)
	require.NoError(t, err)
	return answer
}

var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func get(t *testing.T, address string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	return answer
}

func body(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	return string(text)
}

// header decodes the first part of a JWT.
func header(t *testing.T, token string) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	require.NoError(t, err)
	h := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &h))
	return h
}
