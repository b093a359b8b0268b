package connector

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

func TestCredential(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"

	t.Run("IsReadAtEachCallAndNeverStored", func(t *testing.T) {
		t.Parallel()
		tokens := make(chan string, 2)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			tokens <- r.Header.Get("Authorization")
			w.WriteHeader(500)
		})
		current := secret + "-1\n"
		k := connect(t, url, func(c *Config) {
			c.Connector.BearerFile = "/run/secrets/token"
			c.ReadFile = func(string) ([]byte, error) { return []byte(current), nil }
		})
		r := prepare(t, k, "pay")
		result := k.Execute(t.Context(), r, allow)
		require.Equal(t, "Bearer "+secret+"-1", <-tokens)
		current = secret + "-2"
		k.Execute(t.Context(), r, allow)
		require.Equal(t, "Bearer "+secret+"-2", <-tokens)
		require.NotContains(t, fmt.Sprintf("%+v %+v", r, result), secret)
	})

	t.Run("AbsentOrBrokenMeansNotSentAndIsNeverPrinted", func(t *testing.T) {
		t.Parallel()
		for _, token := range []string{"", " ", secret + "\r\nX-Evil: 1", secret + "é"} {
			k := connect(t, serve(t, answering(200, `{"id":"p"}`)), func(c *Config) {
				c.Connector.BearerEnv = "TOKEN"
				c.Env = func(string) string { return token }
			})
			result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
			require.Equal(t, outcome.NotSent, result.Class)
			require.Contains(t, result.Detail, "environment variable TOKEN")
			require.NotContains(t, result.Detail, secret)
			found := k.Reconcile(t.Context(), operationNamed(t, "pay"))
			require.Equal(t, Unclear, found.Verdict)
			require.NotContains(t, found.Evidence, secret)
		}
	})

	t.Run("UnreadableFileMeansNotSent", func(t *testing.T) {
		t.Parallel()
		k := connect(t, closedPort(t), func(c *Config) { c.Connector.BearerFile = t.TempDir() + "/missing" })
		result := k.Execute(t.Context(), prepare(t, k, "pay"), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "missing")
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for said, change := range map[string]func(*config.Connector){
		"must begin with https":         func(c *config.Connector) { c.BaseURL = "ftp://x" },
		"names no host":                 func(c *config.Connector) { c.BaseURL = "https://" },
		"must not hold credentials":     func(c *config.Connector) { c.BaseURL = "https://u:s3cr3t@x" },
		"cannot be read":                func(c *config.Connector) { c.BaseURL = "https://u:s3cr3t@x:port" },
		"needs https://":                func(c *config.Connector) { c.BaseURL, c.BearerEnv = "http://api.example.com", "T" },
		"not both":                      func(c *config.Connector) { c.BearerEnv, c.BearerFile = "T", "f" },
		"must not be negative":          func(c *config.Connector) { c.Timeout = -1 },
		"not among the connector's":     func(c *config.Connector) { c.AllowedHosts = []string{"other.example.com"} },
		`allowed host "x/y"`:            func(c *config.Connector) { c.AllowedHosts = []string{"x/y"} },
		"its port is not a number":      func(c *config.Connector) { c.AllowedHosts = []string{"https://x/y"} },
		"declared twice":                func(c *config.Connector) { c.Operations[1].Name = "pay" },
		`method "GET"`:                  func(c *config.Connector) { c.Operations[0].Method = "GET" },
		"must begin with /":             func(c *config.Connector) { c.Operations[0].Path = "payments" },
		"must be escaped":               func(c *config.Connector) { c.Operations[0].Path = "/a b" },
		"${secret}: unknown name":       func(c *config.Connector) { c.Operations[0].Path = "/${secret}" },
		"tenant_id is text":             func(c *config.Connector) { c.Operations[0].Path = "/${tenant_id.x}" },
		"${ without }":                  func(c *config.Connector) { c.Operations[0].Body = map[string]any{"a": []any{"${target"}} },
		"body.a.0":                      func(c *config.Connector) { c.Operations[0].Body = map[string]any{"a": []any{make(chan int)}} },
		"pointer to the error code":     func(c *config.Connector) { c.Operations[0].ErrorCode = "" },
		`"Authorization" is not`:        func(c *config.Connector) { c.Operations[1].Conditional.Header = "Authorization" },
		`"X Y" is not a header name`:    func(c *config.Connector) { c.Operations[0].IdempotencyHeader = "X Y" },
		`pointer "id" must begin`:       func(c *config.Connector) { c.Operations[0].Success.ExternalID = "id" },
		`pointer "items" must begin`:    func(c *config.Connector) { c.Operations[0].Lookup.Items = "items" },
		`pointer "version" must begin`:  func(c *config.Connector) { c.Operations[1].Read.Version = "version" },
		`operation "pay": lookup path:`: func(c *config.Connector) { c.Operations[0].Lookup.Path = "x" },
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			declared := declaration("https://api.example.com/base/")
			change(declared)
			_, err := New(Config{Connector: declared})
			require.ErrorContains(t, err, said)
			require.NotContains(t, err.Error(), "s3cr3t")
		})
	}

	t.Run("AllComplaintsAreJoined", func(t *testing.T) {
		t.Parallel()
		declared := declaration("https://api.example.com")
		declared.Operations[0].Method, declared.Operations[1].Path = "GET", "x"
		_, err := New(Config{Connector: declared})
		require.ErrorContains(t, err, `connector "sandbox"`)
		require.ErrorContains(t, err, `operation "pay": method`)
		require.ErrorContains(t, err, `operation "update": path`)
		_, err = New(Config{})
		require.Error(t, err)
	})
}
