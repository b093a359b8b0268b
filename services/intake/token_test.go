package intake_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// tokens is an issuer of access tokens.
type tokens struct {
	*httptest.Server
	key  *rsa.PrivateKey
	away atomic.Bool
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := &tokens{key: key}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any
		switch {
		case i.away.Load():
			http.Error(w, "away", http.StatusBadGateway)
			return
		case r.URL.Path == "/.well-known/openid-configuration":
			body = map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/a",
				"token_endpoint": i.URL + "/t", "id_token_signing_alg_values_supported": []string{"RS256"}}
		default:
			body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(i.Close)
	return i
}

// token is one that is good, but for the given claims; nil takes a claim out.
func (i *tokens) token(t *testing.T, key *rsa.PrivateKey, change map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": i.URL, "aud": "holdpoint", "sub": "n8n-prod", "client_id": "n8n", "jti": "1",
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	require.NoError(t, err)
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	i := newTokens(t)
	w := newWorld(t)
	for _, tenant := range w.config.Tenants {
		if tenant.ID == acme {
			tenant.TokenIssuers = []config.TokenIssuer{{Issuer: i.URL, Audience: "holdpoint",
				Claims: map[string][]string{"client_id": {"n8n"}}, Scopes: []string{config.ScopePublish}}}
		}
	}
	i.away.Store(true)
	shared := w.start()
	post := func(r *replica, key, token string) answer {
		return r.send(call{path: "/v1/sources/drafts/events", token: token, header: keyed(key), body: `{"task":"t"}`})
	}
	away := post(shared, "t0", i.token(t, i.key, nil))
	require.Equal(t, contracts.CodeUnavailable, away.result(), "an issuer that is away says nothing about the token")
	i.away.Store(false)

	t.Run("ATokenOfTheIssuerActsForItsTenantAlone", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		a := post(r, "t1", i.token(t, i.key, nil))
		require.Equal(t, contracts.ResultAccepted, a.result())
		require.Equal(t, "acme token n8n-prod", one[string](r.world, `select tenant_id || ' ' || sent_by from runs where run_id = $1`, a.RunID))
	})

	t.Run("ItHasTheDeclaredScopesAndNoOther", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		a := r.send(call{path: "/v1/sources/drafts/work", token: i.token(t, i.key, nil), body: `{}`})
		require.Equal(t, contracts.CodeForbidden, a.result())
	})

	t.Run("AnyOtherTokenIsNobodys", func(t *testing.T) {
		t.Parallel()
		r := shared.as(t)
		stranger, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		good := i.token(t, i.key, nil)
		for name, token := range map[string]string{
			"signed by another":       i.token(t, stranger, nil),
			"for another audience":    i.token(t, i.key, map[string]any{"aud": "elsewhere"}),
			"of another client":       i.token(t, i.key, map[string]any{"client_id": "other"}),
			"of no client":            i.token(t, i.key, map[string]any{"client_id": nil}),
			"expired":                 i.token(t, i.key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
			"an ID token":             i.token(t, i.key, map[string]any{"nonce": "n"}),
			"without an id":           i.token(t, i.key, map[string]any{"jti": nil}),
			"of another issuer":       i.token(t, i.key, map[string]any{"iss": "https://elsewhere.example"}),
			"changed after signing":   good[:len(good)-4] + "AAAA",
			"three parts of nonsense": "a.b.c",
		} {
			a := post(r, "t2", token)
			require.Equal(t, http.StatusUnauthorized, a.status, name)
			require.Equal(t, contracts.CodeUnauthenticated, a.result(), name)
		}
		require.Zero(t, r.count(`select count(*) from runs where idempotency_key = 't2'`))
	})
}
