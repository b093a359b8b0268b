package connector

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// issuer is a token server that speaks TLS, rotates refresh tokens where it should, and takes each of them once.
type issuer struct {
	*httptest.Server

	mu       sync.Mutex
	requests []http.Request // with their forms
	issued   int
	lifetime int
	rotates  bool
	current  string // refresh token
	before   http.HandlerFunc
}

const clientSecret, refreshToken = "s3cr3t-of-the-client", "s3cr3t-refresh-0"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{lifetime: 3600, current: refreshToken}
	i.Server = httptest.NewUnstartedServer(i)
	i.Config.ErrorLog = log.New(io.Discard, "", 0)
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.before != nil {
		i.before(w, r)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	_ = r.ParseForm()
	i.requests = append(i.requests, *r)
	answer := map[string]any{"token_type": "bearer", "expires_in": i.lifetime}
	if r.Form.Get("grant_type") == "refresh_token" {
		if r.Form.Get("refresh_token") != i.current {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"`+r.Form.Get("refresh_token")+`"}`)
			return
		}
		if i.rotates {
			i.current = fmt.Sprintf("s3cr3t-refresh-%d", len(i.requests))
			answer["refresh_token"] = i.current
		}
	}
	i.issued++
	answer["access_token"] = fmt.Sprintf("s3cr3t-access-%d", i.issued)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (i *issuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.requests)
}

// trust is a client's TLS settings for the issuer.
func (i *issuer) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(i.Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// guarded is a provider that takes the tokens for which accepts is true, and counts the writes that it took.
type guarded struct {
	url      string
	accepted atomic.Int32
	refused  atomic.Int32
	accepts  func(token string) bool
}

func newGuarded(t *testing.T, accepts func(string) bool) *guarded {
	t.Helper()
	g := &guarded{accepts: accepts}
	g.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !g.accepts(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			g.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.accepted.Add(1)
		_, _ = io.WriteString(w, `{"id":"p","version":"7","items":[]}`)
	})
	return g
}

func anyToken(token string) bool { return strings.HasPrefix(token, "s3cr3t-access-") }

// withOAuth connects by the issuer's tokens; clock is the connector's.
func withOAuth(t *testing.T, url string, i *issuer, change func(*config.OAuth2, *Config)) *Connector {
	t.Helper()
	return connect(t, url, func(c *Config) {
		c.Connector.OAuth2 = &config.OAuth2{TokenURL: i.URL + "/token", ClientID: "holdpoint",
			ClientSecret: config.SecretRef{Env: "CLIENT"}, Scopes: []string{"read", "write"}, Grant: config.GrantClient}
		c.TLS = i.trust()
		secrets(map[string]string{"CLIENT": clientSecret, "REFRESH": refreshToken})(c)
		if change != nil {
			change(c.Connector.OAuth2, c)
		}
	})
}

// byFile makes the grant that of a refresh token in a file.
func byFile(file string) func(*config.OAuth2, *Config) {
	return func(o *config.OAuth2, _ *Config) {
		o.Grant, o.Scopes, o.RefreshToken = config.GrantRefresh, nil, config.SecretRef{File: file}
	}
}

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "refresh")
	require.NoError(t, os.WriteFile(file, []byte(refreshToken+"\n"), 0o640))
	return file
}

func pay(t *testing.T, k *Connector) Result {
	t.Helper()
	return k.Execute(t.Context(), prepare(t, k, "pay"), allow)
}

func TestOAuth2(t *testing.T) {
	t.Parallel()

	t.Run("FiftyCallsShareOneToken", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		k := withOAuth(t, g.url, i, nil)
		r := prepare(t, k, "pay")
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				gated := false
				result := k.Execute(t.Context(), r, func() error { gated = true; return nil })
				require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
				require.True(t, gated)
				require.NotContains(t, fmt.Sprintf("%+v", result), "s3cr3t")
			})
		}
		calls.Wait()
		require.Equal(t, 1, i.asked())
		id, secret, _ := i.requests[0].BasicAuth()
		require.Equal(t, "holdpoint "+clientSecret, id+" "+secret)
		require.Equal(t, "read write", i.requests[0].Form.Get("scope"))
		require.Equal(t, Absent, k.Reconcile(t.Context(), operationNamed(t, "pay")).Verdict, "lookups use it too")
		require.Equal(t, 1, i.asked())
	})

	t.Run("TheClientCanSayWhoItIsInTheBody", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		k := withOAuth(t, g.url, i, func(o *config.OAuth2, _ *Config) { o.AuthStyle = config.AuthInParams })
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Empty(t, i.requests[0].Header.Get("Authorization"))
		require.Equal(t, clientSecret, i.requests[0].Form.Get("client_secret"))
	})

	t.Run("ATokenIsRenewedBeforeItEnds", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		var ahead atomic.Int64
		k := withOAuth(t, g.url, i, func(_ *config.OAuth2, c *Config) {
			c.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		ahead.Store(int64(58 * time.Minute))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Equal(t, 1, i.asked())

		i.before = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
		ahead.Store(int64(59*time.Minute + time.Second))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class, "a token server that fails harms nobody while the token is good")
		_, err, _ := k.credential.(*oauth).flight.Do("", k.credential.(*oauth).fetch) // waits for what is under way
		require.ErrorIs(t, err, ErrUnavailable)
		i.before = nil
		ahead.Store(int64(59*time.Minute + 10*time.Second))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Eventually(t, func() bool { return i.asked() == 2 }, 5*time.Second, time.Millisecond, "beside the call")
		ahead.Store(int64(59*time.Minute + 55*time.Second))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Equal(t, 2, i.asked())
	})

	t.Run("ARefusedTokenIsDroppedAndOneWriteIsMadePerExecute", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := newGuarded(t, func(token string) bool { return token == "s3cr3t-access-2" })
		k := withOAuth(t, g.url, i, nil)
		result := pay(t, k)
		require.Equal(t, outcome.Unauthorized, result.Class)
		require.True(t, result.CredentialDropped)
		require.EqualValues(t, 1, g.refused.Load(), "the call is not repeated here")
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Equal(t, 2, i.asked())
	})

	t.Run("ALateRefusalDoesNotDropTheNextToken", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		k := withOAuth(t, g.url, i, nil)
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		late := &http.Request{Header: http.Header{"Authorization": {"Bearer of-long-ago"}}}
		require.True(t, k.credential.rejected(late))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Equal(t, 1, i.asked())
	})

	t.Run("AReadIsRepeatedOnce", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := newGuarded(t, func(token string) bool { return token == "s3cr3t-access-2" })
		k := withOAuth(t, g.url, i, nil)
		version, found, err := k.ReadTarget(t.Context(), operationNamed(t, "update"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "7", version)
		g.accepts = func(string) bool { return false }
		_, _, err = k.ReadTarget(t.Context(), operationNamed(t, "update"))
		require.ErrorContains(t, err, "HTTP 401")
		require.EqualValues(t, 3, g.refused.Load())
	})

	t.Run("ATokenThatDoesNotEndIsUsedUntilItIsRefused", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		i.lifetime = 0
		k := withOAuth(t, g.url, i, nil)
		for range 3 {
			require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		}
		require.Equal(t, 1, i.asked())
	})
}

// TestTokenServerFails: nothing is sent, whatever the token server does, and nothing that it says is repeated.
func TestTokenServerFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before http.HandlerFunc
		change func(*config.OAuth2, *Config)
		says   string
	}{
		"Refuses": {answering(401, `{"error":"invalid_client","error_description":"`+clientSecret+`"}`, "Content-Type", "application/json"), nil,
			`answered HTTP 401 with code "invalid_client"`},
		"RefusesWithoutACode": {answering(403, clientSecret), nil, "answered HTTP 403"},
		"RedirectsElsewhere":  {answering(302, "", "Location", "https://elsewhere.example.com/"), nil, "answered HTTP 302"},
		"IsDown":              {answering(503, ""), nil, "answered HTTP 503"},
		"SaysNothingUseful":   {answering(200, clientSecret), nil, "answer is no token"},
		"NeverEnds": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"`+strings.Repeat("a", 2<<20)+`"}`)
		}, nil, "answer is no token"},
		"GivesControls": {answering(200, `{"access_token":"a\r\nX-Evil: 1"}`, "Content-Type", "application/json"), nil, "not printable"},
		"HasABadCertificate": {nil, func(_ *config.OAuth2, c *Config) { c.TLS = nil },
			"failed to verify certificate"},
		"IsSlow": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a server hears of a client's end only when it has read all
			<-r.Context().Done()
		}, func(_ *config.OAuth2, c *Config) { c.Connector.Timeout = 100 * time.Millisecond }, "not available"},
		"IsNotAllowedWhereItLeads": {nil, func(o *config.OAuth2, _ *Config) {
			o.TokenURL = strings.Replace(o.TokenURL, "127.0.0.1", "localhost.localdomain", 1)
		}, "cannot be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, g := newIssuer(t), newGuarded(t, anyToken)
			i.before = c.before
			k := withOAuth(t, g.url, i, c.change)
			result := k.Execute(t.Context(), prepare(t, k, "pay"), func() error { t.Error("the gate was asked"); return nil })
			require.Equal(t, outcome.NotSent, result.Class)
			require.False(t, result.Sent)
			require.ErrorIs(t, result.Err, ErrUnavailable)
			require.Contains(t, result.Detail, c.says)
			require.NotContains(t, result.Detail, "s3cr3t")
			found := k.Reconcile(t.Context(), operationNamed(t, "pay"))
			require.Equal(t, Unclear, found.Verdict)
			require.NotContains(t, found.Evidence, "s3cr3t")
			require.Zero(t, g.accepted.Load())
		})
	}
}

func TestRefreshTokens(t *testing.T) {
	t.Parallel()

	t.Run("OneThatStaysMayBeInTheEnvironment", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		k := withOAuth(t, g.url, i, func(o *config.OAuth2, _ *Config) {
			o.Grant, o.RefreshToken, o.ClientSecret = config.GrantRefresh, config.SecretRef{Env: "REFRESH"}, config.SecretRef{}
		})
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		require.Equal(t, "holdpoint", i.requests[0].Form.Get("client_id"), "a client without a secret names itself in the body")
	})

	t.Run("OneThatChangesMayNot", func(t *testing.T) {
		t.Parallel()
		i, g := newIssuer(t), newGuarded(t, anyToken)
		i.rotates = true
		k := withOAuth(t, g.url, i, func(o *config.OAuth2, _ *Config) {
			o.Grant, o.RefreshToken = config.GrantRefresh, config.SecretRef{Env: "REFRESH"}
		})
		result := pay(t, k)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "must be in refresh_token_file")
	})

	t.Run("WhoShareAFileUseWhatTheLastOneGot", func(t *testing.T) {
		t.Parallel()
		i, g, file := newIssuer(t), newGuarded(t, anyToken), tokenFile(t)
		i.rotates = true
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(file, link))
		replicas := []*Connector{withOAuth(t, g.url, i, byFile(file)), withOAuth(t, g.url, i, byFile(link))}
		for range 5 {
			var both sync.WaitGroup
			for _, k := range replicas {
				both.Go(func() {
					result := pay(t, k)
					require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
					k.credential.rejected(&http.Request{Header: http.Header{"Authorization": {"Bearer " + k.credential.(*oauth).token.value}}})
				})
			}
			both.Wait()
		}
		require.Equal(t, 10, i.asked())
		require.Equal(t, 10, i.issued, "no refresh token was used twice")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, i.current+"\n", string(text))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
		left, err := os.ReadDir(filepath.Dir(file))
		require.NoError(t, err)
		require.Len(t, left, 2, "the file and its lock")
	})

	t.Run("WhatCannotBeWrittenIsKeptAndWrittenFirst", func(t *testing.T) {
		t.Parallel()
		i, g, file := newIssuer(t), newGuarded(t, anyToken), tokenFile(t)
		i.rotates = true
		k := withOAuth(t, g.url, i, byFile(file))
		i.before = func(w http.ResponseWriter, r *http.Request) {
			i.before = nil
			require.NoError(t, os.Rename(filepath.Dir(file), filepath.Dir(file)+"-away"))
			i.ServeHTTP(w, r)
		}
		result := pay(t, k)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "cannot be written back and is kept in memory")
		require.NotContains(t, result.Detail, "s3cr3t")
		require.NoError(t, os.Rename(filepath.Dir(file)+"-away", filepath.Dir(file)))
		result = pay(t, k)
		require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, i.current+"\n", string(text))
	})

	t.Run("ALockThatAnotherHoldsIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		i, g, file := newIssuer(t), newGuarded(t, anyToken), tokenFile(t)
		k := withOAuth(t, g.url, i, func(o *config.OAuth2, c *Config) {
			byFile(file)(o, c)
			c.Connector.Timeout = time.Second
		})
		unlock, err := lockBeside(t.Context(), file)
		require.NoError(t, err)
		result := pay(t, k)
		require.Equal(t, outcome.NotSent, result.Class)
		require.ErrorIs(t, result.Err, ErrUnavailable)
		require.Zero(t, i.asked())
		unlock()
		require.Eventually(t, func() bool { return pay(t, k).Class == outcome.Succeeded }, 5*time.Second, 10*time.Millisecond,
			"who comes when a request is just failing fails with it")
	})

	// The server has replaced the refresh token and its answer is lost, on a connection that was used before, where net/http would repeat
	// what it takes for repeatable. Nobody has the new one: it takes a person, and until then nothing is sent.
	t.Run("ALostAnswerIsAskedForOnceAndSendsNothing", func(t *testing.T) { // DSP-11
		t.Parallel()
		i, g, file := newIssuer(t), newGuarded(t, anyToken), tokenFile(t)
		i.rotates = true
		k := withOAuth(t, g.url, i, byFile(file))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class)
		k.credential.rejected(&http.Request{Header: http.Header{"Authorization": {"Bearer " + k.credential.(*oauth).token.value}}})
		i.before = func(_ http.ResponseWriter, r *http.Request) {
			i.before = nil
			i.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		denied := func() {
			result := k.Execute(t.Context(), prepare(t, k, "pay"), func() error { t.Error("the gate was asked"); return nil })
			require.Equal(t, outcome.NotSent, result.Class)
			require.ErrorIs(t, result.Err, ErrUnavailable)
			require.NotContains(t, result.Detail, "s3cr3t")
		}
		denied()
		require.Equal(t, 2, i.asked())
		denied() // with the one that was used
		require.Equal(t, 3, i.asked())
		require.NoError(t, os.WriteFile(file, []byte(i.current), 0o600))
		require.Equal(t, outcome.Succeeded, pay(t, k).Class, "without a restart")
	})

	t.Run("AnEmptyFileIsNoToken", func(t *testing.T) {
		t.Parallel()
		i, g, file := newIssuer(t), newGuarded(t, anyToken), tokenFile(t)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		result := pay(t, withOAuth(t, g.url, i, byFile(file)))
		require.Contains(t, result.Detail, "the refresh token in file "+file+" is missing")
	})
}
