package connector

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadTarget(t *testing.T) {
	t.Parallel()

	t.Run("GivesTheCurrentVersion", func(t *testing.T) {
		t.Parallel()
		seen := make(chan *http.Request, 1)
		k := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			seen <- r
			answering(200, `{"version":9007199254740993}`)(w, r)
		}), func(c *Config) {
			c.Connector.BearerEnv = "TOKEN"
			c.Env = func(string) string { return "t" }
		})
		version, found, err := k.ReadTarget(t.Context(), operationNamed(t, "update"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "9007199254740993", version)
		r := <-seen
		require.Equal(t, "GET /v1/contacts/c-1 Bearer t", r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization"))
	})

	t.Run("ToldApartFromATargetThatIsGone", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{404, 410} {
			_, found, err := connect(t, serve(t, answering(status, "")), nil).ReadTarget(t.Context(), operationNamed(t, "update"))
			require.NoError(t, err)
			require.False(t, found)
		}
	})

	t.Run("AnythingElseIsAnError", func(t *testing.T) {
		t.Parallel()
		for said, handler := range map[string]http.HandlerFunc{
			"HTTP 500":           answering(500, ""),
			"HTTP 302":           answering(302, "", "Location", "/elsewhere"),
			"no version at":      answering(200, `{}`),
			"JSON not":           answering(200, `{`),
			"over the limit of":  answering(200, strings.Repeat(" ", 5000)),
			"HTTP 204":           answering(204, ""),
			"unexpected EOF":     func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, truncated) },
			"from connector \"s": answering(500, ""),
		} {
			_, _, err := connect(t, serve(t, handler), nil).ReadTarget(t.Context(), operationNamed(t, "update"))
			require.ErrorContains(t, err, said)
		}
		k := connect(t, closedPort(t), nil)
		_, _, err := k.ReadTarget(t.Context(), operationNamed(t, "pay"))
		require.ErrorIs(t, err, ErrNotDeclared)
		_, _, err = k.ReadTarget(t.Context(), operationNamed(t, "gone"))
		require.ErrorContains(t, err, `no operation "gone"`)
		_, _, err = k.ReadTarget(t.Context(), operationNamed(t, "update"))
		require.ErrorContains(t, err, "refused")
		op := operationNamed(t, "update")
		op.Action = parse(t, `{}`)
		_, _, err = k.ReadTarget(t.Context(), op)
		require.ErrorContains(t, err, "${target.record_id} is missing")
	})
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, name string, handler http.HandlerFunc) LookupResult {
		t.Helper()
		result := connect(t, serve(t, handler), nil).Reconcile(t.Context(), operationNamed(t, name))
		require.NotEmpty(t, result.Evidence)
		require.NotContains(t, result.Evidence, "Ada", "evidence holds nothing of the body")
		require.NotZero(t, result.StartedAt)
		require.Greater(t, result.Duration, time.Duration(0))
		return result
	}

	t.Run("ExactlyOneIsFound", func(t *testing.T) {
		t.Parallel()
		seen := make(chan string, 1)
		result := run(t, "pay", func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Method + " " + r.RequestURI
			answering(200, `{"items":[{"reference":"op-0","id":"p-0"},{"reference":"op-1","id":"p-1","version":2,"name":"Ada"}]}`)(w, r)
		})
		require.Equal(t, "GET /v1/payments?reference=op-1", <-seen)
		require.Equal(t, Found, result.Verdict)
		require.Equal(t, "p-1", result.ExternalID)
		require.Equal(t, "2", result.RecordVersion)
		require.True(t, result.Conclusive)
		require.Regexp(t, `^1 of 2 match, HTTP 200, body sha256 [0-9a-f]{64}$`, result.Evidence)
	})

	t.Run("NoneIsAbsent", func(t *testing.T) {
		t.Parallel()
		for body, proof := range map[string]bool{
			`{"items":[]}`: true, // as the lookup is declared
			`{"items":[{"reference":"op-0","id":"p-0"},7]}`: false,
		} {
			result := run(t, "pay", answering(200, body))
			require.Equal(t, Absent, result.Verdict)
			require.Equal(t, proof, result.Conclusive, "a list of others was not filtered, and ours may be on its next page")
			require.Empty(t, result.ExternalID)
		}
	})

	t.Run("TwoAreAnIncident", func(t *testing.T) {
		t.Parallel()
		result := run(t, "pay", answering(200, `{"items":[{"reference":"op-1","id":"p-1"},{"reference":"op-1","id":"p-2"}]}`))
		require.Equal(t, Several, result.Verdict)
		require.Empty(t, result.ExternalID, "never the newest")
		require.False(t, result.Conclusive)
	})

	t.Run("ASingleRecordIsFoundOrAbsent", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, Found, run(t, "update", answering(200, `{"id":"c-1","op":"op-1"}`)).Verdict)
		absent := run(t, "update", answering(404, ""))
		require.Equal(t, Absent, absent.Verdict)
		require.False(t, absent.Conclusive, "as the lookup is declared")
		require.Equal(t, Unclear, run(t, "update", answering(200, `{"id":"c-1","op":"another"}`)).Verdict)
	})

	t.Run("AnythingElseIsUnclear", func(t *testing.T) {
		t.Parallel()
		for name, handler := range map[string]http.HandlerFunc{
			"Status500":     answering(500, ""),
			"Status401":     answering(401, ""),
			"ListMissing":   answering(404, ""),
			"Redirect":      answering(302, "", "Location", "/elsewhere"),
			"NotJSON":       answering(200, "<html>Ada"),
			"NoArray":       answering(200, `{"items":{}}`),
			"NoItems":       answering(200, `{}`),
			"MatchWithNoID": answering(200, `{"items":[{"reference":"op-1"}]}`),
			"TooLarge":      answering(200, `{"items":[],"x":"`+strings.Repeat("x", 5000)+`"}`),
			"Truncated":     func(w http.ResponseWriter, _ *http.Request) { hijackWrite(w, truncated) },
		} {
			result := run(t, "pay", handler)
			require.Equal(t, Unclear, result.Verdict, name)
			require.False(t, result.Conclusive, name)
		}
		k := connect(t, closedPort(t), nil)
		for name, said := range map[string]string{"pay": "refused", "delete": "not declared", "gone": "no operation"} {
			result := k.Reconcile(t.Context(), operationNamed(t, name))
			require.Equal(t, Unclear, result.Verdict)
			require.Contains(t, result.Evidence, said)
		}
	})

	t.Run("WithoutAMatchRuleTheQueryIsTrusted", func(t *testing.T) {
		t.Parallel()
		k := connect(t, serve(t, answering(200, `{"items":[{"id":"p-9"}]}`)), func(c *Config) {
			c.Connector.Operations[0].Lookup.Match = ""
		})
		require.Equal(t, "p-9", k.Reconcile(t.Context(), operationNamed(t, "pay")).ExternalID)
	})
}
