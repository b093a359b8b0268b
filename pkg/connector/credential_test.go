package connector

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// seen is a request as a provider got it.
type seen struct {
	header http.Header
	body   []byte
}

// recording answers everything with the status and keeps what it got.
func recording(t *testing.T, status int) (url string, got chan seen) {
	t.Helper()
	got = make(chan seen, 16)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, body}
		w.WriteHeader(status)
		io.WriteString(w, `{"id":"p","version":"1","items":[]}`)
	}), got
}

// secrets is an environment.
func secrets(values map[string]string) func(*Config) {
	return func(c *Config) { c.Env = func(name string) string { return values[name] } }
}

func TestBasicAndKeys(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t:with colon"
	for name, c := range map[string]struct {
		declare func(*config.Connector)
		header  string
		want    string
	}{
		"Basic": {func(c *config.Connector) {
			c.Basic = &config.Basic{Username: "nora", Password: config.SecretRef{Env: "SECRET"}}
		}, "Authorization", "Basic bm9yYTpzM2NyM3Q6d2l0aCBjb2xvbg=="},
		"Key": {func(c *config.Connector) {
			c.HeaderKey = &config.HeaderKey{Header: "x-api-key", Value: config.SecretRef{Env: "SECRET"}}
		}, "X-Api-Key", secret},
		"KeyInAuthorization": {func(c *config.Connector) {
			c.HeaderKey = &config.HeaderKey{Header: "Authorization", Value: config.SecretRef{Env: "SECRET"}}
		}, "Authorization", secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, got := recording(t, 401)
			k := connect(t, url, func(cfg *Config) {
				c.declare(cfg.Connector)
				secrets(map[string]string{"SECRET": " " + secret + "\n"})(cfg)
			})
			r := prepare(t, k, "pay")
			result := k.Execute(t.Context(), r, allow)
			require.Equal(t, c.want, (<-got).header.Get(c.header))
			require.Equal(t, outcome.Unauthorized, result.Class)
			require.False(t, result.CredentialDropped, "the next call has the same")
			require.NotContains(t, fmt.Sprintf("%+v %+v", r, result), secret)

			found := k.Reconcile(t.Context(), operationNamed(t, "pay"))
			require.Equal(t, c.want, (<-got).header.Get(c.header))
			require.NotContains(t, found.Evidence, secret)
			require.Empty(t, got, "a credential that stays is not tried twice")

			absent := connect(t, url, func(cfg *Config) {
				c.declare(cfg.Connector)
				secrets(nil)(cfg)
			})
			result = absent.Execute(t.Context(), prepare(t, absent, "pay"), allow)
			require.Equal(t, outcome.NotSent, result.Class)
			require.Contains(t, result.Detail, "environment variable SECRET")
			require.NotErrorIs(t, result.Err, ErrUnavailable)
			require.Empty(t, got)
		})
	}
}

// TestSigning: a receiver that knows Standard Webhooks verifies what was sent, and knows a repeat by the id.
func TestSigning(t *testing.T) {
	t.Parallel()
	const secret = "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk="
	url, got := recording(t, 500)
	current := secret
	k := connect(t, url, func(c *Config) {
		c.Connector.Signing = config.SecretRef{File: "/run/secrets/hook"}
		c.ReadFile = func(string) ([]byte, error) { return []byte(current + "\n"), nil }
	})
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	r := prepare(t, k, "pay")
	for range 2 {
		k.Execute(t.Context(), r, allow)
		request := <-got
		require.NoError(t, verifier.Verify(request.body, request.header))
		require.Equal(t, "op-1", request.header.Get("webhook-id"))
	}
	_, _, err = k.ReadTarget(t.Context(), operationNamed(t, "update"))
	require.ErrorIs(t, err, ErrUnavailable, "HTTP 500")
	request := <-got
	require.NoError(t, verifier.Verify(nil, request.header))
	require.Equal(t, "op-1", request.header.Get("webhook-id"))

	current = "whsec_c2hvcnQ="
	result := k.Execute(t.Context(), r, allow)
	require.Equal(t, outcome.NotSent, result.Class)
	require.Contains(t, result.Detail, "file /run/secrets/hook must be whsec_")
	require.NotContains(t, result.Detail, current)

	r.Header["Webhook-Id"] = "op-2"
	require.Equal(t, outcome.NotSent, k.Execute(t.Context(), r, allow).Class, "the id is under the digest")
}

func TestNewRefusesCredentials(t *testing.T) {
	t.Parallel()
	key := config.SecretRef{Env: "SECRET"}
	oauth := func(change func(*config.OAuth2)) func(*config.Connector) {
		return func(c *config.Connector) {
			c.OAuth2 = &config.OAuth2{TokenURL: "https://login.example.com/token", ClientID: "c", ClientSecret: key}
			change(c.OAuth2)
		}
	}
	for said, change := range map[string]func(*config.Connector){
		"one credential, and 2 are": func(c *config.Connector) { c.BearerEnv, c.Signing = "T", key },
		"a credential needs https":  func(c *config.Connector) { c.BaseURL, c.Signing = "http://api.example.com", key },
		"neither a colon":           func(c *config.Connector) { c.Basic = &config.Basic{Username: "a:b", Password: key} },
		`"Host" is not`:             func(c *config.Connector) { c.HeaderKey = &config.HeaderKey{Header: "Host", Value: key} },
		"Idempotency-Key is the": func(c *config.Connector) {
			c.HeaderKey = &config.HeaderKey{Header: "idempotency-key", Value: key}
		},
		"webhook-signature is the": func(c *config.Connector) {
			c.Signing, c.Operations[0].IdempotencyHeader = key, "Webhook-Signature"
		},
		"secret needs https":          oauth(func(o *config.OAuth2) { o.TokenURL = "http://login.example.com/token" }),
		"absolute http or https":      oauth(func(o *config.OAuth2) { o.TokenURL = "/token" }),
		"the token URL must not hold": oauth(func(o *config.OAuth2) { o.TokenURL = "https://u:s3cr3t@login.example.com" }),
		"token server: login.example": oauth(func(o *config.OAuth2) { o.AllowedHosts = []string{"other.example.com"} }),
		"client id is missing":        oauth(func(o *config.OAuth2) { o.ClientID = "" }),
		"needs a client secret":       oauth(func(o *config.OAuth2) { o.ClientSecret = config.SecretRef{} }),
		"needs a refresh token":       oauth(func(o *config.OAuth2) { o.Grant = config.GrantRefresh }),
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			declared := declaration("https://api.example.com")
			change(declared)
			_, err := New(Config{Connector: declared})
			require.ErrorContains(t, err, said)
			require.NotContains(t, err.Error(), "s3cr3t")
		})
	}
}

// TestLongest: who waits for a call has to wait for the token before it.
func TestLongest(t *testing.T) {
	t.Parallel()
	c := config.Connector{Timeout: time.Second}
	require.Equal(t, time.Second, c.Longest())
	c.OAuth2 = &config.OAuth2{}
	require.Equal(t, 2*time.Second, c.Longest())
}
