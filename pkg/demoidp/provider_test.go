package demoidp

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	said := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(body(t, get(t, w.Issuer()+"/.well-known/openid-configuration"))), &said))

	t.Run("NamesWhatIsOffered", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, w.Issuer(), said["issuer"])
		require.Equal(t, []any{"code"}, said["response_types_supported"])
		require.Equal(t, []any{"authorization_code", "client_credentials"}, said["grant_types_supported"])
		require.Equal(t, []any{"S256"}, said["code_challenge_methods_supported"])
		require.Equal(t, []any{"ES256"}, said["id_token_signing_alg_values_supported"])
		require.Contains(t, said["claims_supported"], "groups")
		require.Equal(t, w.Issuer()+"/end_session", said["end_session_endpoint"])
	})

	t.Run("WhatIsNotNamedIsNotThere", func(t *testing.T) {
		t.Parallel()
		for _, absent := range []string{"introspection", "revocation", "device_authorization"} {
			require.NotContains(t, said, absent+"_endpoint")
		}
		for _, path := range []string{"/oauth/introspect", "/revoke", "/device_authorization", "/"} {
			answer := get(t, w.Issuer()+path)
			body(t, answer)
			require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
		}
	})

	t.Run("KeysArePublic", func(t *testing.T) {
		t.Parallel()
		var set struct{ Keys []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(body(t, get(t, said["jwks_uri"].(string)))), &set))
		require.Len(t, set.Keys, 1)
		require.NotContains(t, set.Keys[0], "d")
		token := w.signIn(t, w.asNora()).AccessToken
		require.Equal(t, set.Keys[0]["kid"], header(t, token)["kid"])
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	with := func(people []Person, clients ...Client) Config {
		return Config{Addr: "127.0.0.1:0", People: people, Clients: clients}
	}
	redirects := []string{webRedirect}
	relative := Client{ID: "c", Secret: "s", RedirectURIs: []string{"/x"}}
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"AllAddresses":       {Config{Addr: ":0"}, "not a loopback address"},
		"UnspecifiedAddress": {Config{Addr: "0.0.0.0:0"}, "not a loopback address"},
		"UnspecifiedV6":      {Config{Addr: "[::]:0"}, "not a loopback address"},
		"ForeignAddress":     {Config{Addr: "192.0.2.1:80"}, "not a loopback address"},
		"ForeignName":        {Config{Addr: "example.test:80"}, "not a loopback address"},
		"NoPort":             {Config{Addr: "127.0.0.1"}, "not host:port"},
		"IssuerWithAPath":    {Config{Addr: "127.0.0.1:0", Issuer: "http://localhost:1/x"}, "Issuer"},
		"ShortLifetime":      {Config{Addr: "127.0.0.1:0", TokenLifetime: time.Millisecond}, "TokenLifetime"},
		"PersonNoSubject":    {with([]Person{{Password: "x"}}), "a person has no id"},
		"PersonNoPassword":   {with([]Person{{Subject: "p"}}), "no Password"},
		"PersonNamedAsClient": {with([]Person{{Subject: "c", Password: "x"}},
			Client{ID: "c", Public: true, RedirectURIs: redirects}), "taken"},
		"ClientNoSecret":   {with(nil, Client{ID: "c", RedirectURIs: redirects}), "no Secret"},
		"PublicWithSecret": {with(nil, Client{ID: "c", Public: true, Secret: "s"}), "choose one"},
		"PublicAgent":      {with(nil, Client{ID: "c", Public: true, ClientCredentials: true}), "needs a Secret"},
		"IdleClient":       {with(nil, Client{ID: "c", Secret: "s"}), "could do nothing"},
		"RelativeRedirect": {with(nil, relative), "not an absolute URI"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(c.config)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()

	t.Run("AddressIsKnownBeforeRunAndFreeAfterIt", func(t *testing.T) {
		t.Parallel()
		p, err := New(Config{Addr: "127.0.0.1:0"})
		require.NoError(t, err)
		require.Equal(t, "http://"+p.Addr(), p.Issuer())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		body(t, get(t, p.Issuer()+stylePath))
		cancel()
		require.NoError(t, <-done)
		l, err := net.Listen("tcp", p.Addr())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})

	t.Run("ConnectionThatNeverSpokeDoesNotDelayTheStop", func(t *testing.T) {
		t.Parallel()
		p, err := New(Config{Addr: "127.0.0.1:0"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		silent, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		defer silent.Close()
		body(t, get(t, p.Issuer()+stylePath)) // the server accepts in order, so it has the first one too
		begun := time.Now()
		cancel()
		require.NoError(t, <-done)
		require.Less(t, time.Since(begun), 4*time.Second)
	})

	t.Run("CloseGivesTheAddressBack", func(t *testing.T) {
		t.Parallel()
		p, err := New(Config{Addr: "localhost:0"})
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.ErrorContains(t, p.Run(t.Context()), p.Addr())
	})

	t.Run("HostOfAnotherSiteIsRefused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for host, status := range map[string]int{"evil.example": http.StatusMisdirectedRequest,
			"evil.example:80": http.StatusMisdirectedRequest, "localhost:1": http.StatusOK, "[::1]:1": http.StatusOK} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Issuer()+stylePath, nil)
			require.NoError(t, err)
			r.Host = host
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			body(t, answer)
			require.Equal(t, status, answer.StatusCode, host)
		}
	})
}

func TestKeyFile(t *testing.T) {
	t.Parallel()

	t.Run("KeyOutlivesARestart", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "key.pem")
		first, err := openKey(path)
		require.NoError(t, err)
		second, err := openKey(path)
		require.NoError(t, err)
		require.Equal(t, first, second)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		others, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		require.NoError(t, err)
		require.Empty(t, others)
	})

	t.Run("TokenIsGoodAfterARestart", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "key.pem")
		start := func(issuer string) *world {
			p, err := New(Config{Addr: "127.0.0.1:0", Issuer: issuer, People: DemoPeople(),
				Clients: DemoClients(webRedirect), KeyFile: path})
			require.NoError(t, err)
			run(t, p)
			return &world{Provider: p}
		}
		before := start("")
		token := before.signIn(t, before.asNora()).AccessToken
		after := start(before.Issuer())
		require.NotEqual(t, before.Addr(), after.Addr())
		status, _ := after.userinfo(t, token)
		require.Equal(t, http.StatusOK, status)
	})

	t.Run("RSAKeySignsToo", func(t *testing.T) {
		t.Parallel()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		p, err := New(Config{Addr: "127.0.0.1:0", People: DemoPeople(), Clients: DemoClients(webRedirect),
			KeyFile: writeKey(t, key)})
		require.NoError(t, err)
		run(t, p)
		w := &world{Provider: p}
		token := w.signIn(t, w.asNora()).AccessToken
		require.Equal(t, "RS256", header(t, token)["alg"])
		status, _ := w.userinfo(t, token)
		require.Equal(t, http.StatusOK, status)
	})

	t.Run("WhatIsNoKeyIsNamed", func(t *testing.T) {
		t.Parallel()
		_, ed, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		_, err = openKey(writeKey(t, ed))
		require.ErrorContains(t, err, "not supported")

		path := filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(path, []byte("nonsense"), 0o600))
		_, err = openKey(path)
		require.ErrorContains(t, err, path)
		_, err = openKey(filepath.Join(t.TempDir(), "missing", "key.pem"))
		require.ErrorContains(t, err, "making the signing key")
	})
}

func writeKey(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return path
}
