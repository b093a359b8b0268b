package approval

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestAPIUnderBadInput: what is sent is never a reason to fail.
func TestAPIUnderBadInput(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora, rita := g.token("nora").AccessToken, g.token("rita").AccessToken

	t.Run("AFilterThatNoTextCanBeFindsNothing", func(t *testing.T) {
		g.waiting("filtered")
		for _, query := range []string{"key=%00", "key=%ff", "correlation_id=a%00b", "correlation_id=%c3%28", "state=%00", "state=none"} {
			answer := g.call(t, http.MethodGet, "/v1/approvals?"+query, nora, nil)
			require.Equal(t, http.StatusOK, answer.Status, "%s: %s", query, answer.Text)
			require.JSONEq(t, `{"approvals": []}`, answer.Text, query)
			require.NotEqual(t, http.StatusInternalServerError, g.signedIn("nora").get("/?"+query).Status, query)
		}
	})

	t.Run("AKeyThatWasUsedForAnotherDecisionIsAConflict", func(t *testing.T) {
		asked := g.waiting("reused")
		key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "chat-message-7") }
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve), key).Status)
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve), key).Status)
		other := g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Reject), key)
		require.Equal(t, http.StatusConflict, other.Status, "a rejection that did not count is not answered as if it had")
		require.Equal(t, approved, g.state(asked))
	})

	t.Run("AReasonOfTheLongestCharactersIsTaken", func(t *testing.T) {
		asked := g.waiting("wide")
		body := `{"decision":"reject","reason":"` + strings.Repeat(`\ud83d\ude00`, longestReason) + `","intent_hash":"` + asked.IntentHash.String() + `"}`
		require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, body).Status)
		require.Equal(t, longestReason, g.Count(`select char_length(reason) from reviews where approval_id = $1`, asked.ApprovalID))
	})

	t.Run("AWithdrawalHasNoEndlessReason", func(t *testing.T) {
		asked := g.waiting("endless")
		path := "/v1/approvals/" + asked.ApprovalID.String() + "/withdrawal"
		long := contracts.WithdrawalRequest{Reason: strings.Repeat("x", longestReason+1)}
		require.Equal(t, http.StatusUnprocessableEntity, g.call(t, http.MethodPost, path, rita, long).Status)
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("ARefusalKeepsNoTextOfTheCallers", func(t *testing.T) {
		asked := g.waiting("noise")
		require.Equal(t, http.StatusUnprocessableEntity,
			g.call(t, http.MethodPost, decisionPath(asked), rita, decision(asked, strings.Repeat("z", 9000))).Status)
		require.Equal(t, "", g.Text(`select detail->>'decision' from audit_events where run_id = $1 and move = 'refuse_vote'`, asked.Effect.RunID))
	})
}

// TestWhoIsDisabledSeesNothing: not the lists either.
func TestWhoIsDisabledSeesNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) { tenant.PersonBySubject("", "nora").Disabled = true }
	})
	asked := g.waiting("k")
	list := g.call(t, http.MethodGet, "/v1/approvals", g.token("nora").AccessToken, nil)
	require.JSONEq(t, `{"approvals": []}`, list.Text)
	require.NotContains(t, g.signedIn("nora").get("/").Body, asked.ApprovalID.String())
	require.Contains(t, g.signedIn("sam").get("/").Body, asked.ApprovalID.String())
}

// failing is a way to the provider that breaks for some addresses.
type failing struct{ at atomic.Pointer[string] }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if at := f.at.Load(); at != nil && strings.Contains(r.URL.Path, *at) {
		return nil, errors.New("the network is down")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestAProviderThatGoesDown: a good token is not called bad while nobody can be asked about it.
func TestAProviderThatGoesDown(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"keys", "userinfo"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			network := &failing{}
			g := newGate(t, func(c *gateConfig) {
				c.settings = func(s *Settings) { s.HTTPClient = &http.Client{Transport: network} }
			})
			asked := g.waiting("k")
			nora := g.token("nora").AccessToken
			network.at.Store(&path)
			answer := g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve))
			require.Equal(t, http.StatusServiceUnavailable, answer.Status, answer.Text)
			require.Equal(t, untouched, g.state(asked))
			network.at.Store(nil)
			require.Equal(t, http.StatusOK, g.call(t, http.MethodPost, decisionPath(asked), nora, decision(asked, ledger.Approve)).Status)
		})
	}
}

// TestASessionThatEndedStaysEnded: a request that was under way when its person signed out stores nothing.
func TestASessionThatEndedStaysEnded(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.signedIn("nora")
	sessions, token := g.web.sessions, session(t, nora)
	underWay, err := sessions.Load(t.Context(), token)
	require.NoError(t, err)
	require.NotNil(t, g.web.visitor(underWay))

	require.Contains(t, nora.post("/sign-out", nora.get("/").form(t, "/sign-out")).Says(), "You are signed out")
	g.web.putFlash(underWay, "plain", "late")
	_, _, err = sessions.Commit(underWay)
	require.NoError(t, err)
	after, err := sessions.Load(t.Context(), token)
	require.NoError(t, err)
	require.Nil(t, g.web.visitor(after))
}

// TestTokensOfAnotherAudience is A15: where an audience is set, what was issued for another API is no credential here.
func TestTokensOfAnotherAudience(t *testing.T) {
	t.Parallel()
	for audience, status := range map[string]int{"": http.StatusOK, "holdpoint-cli": http.StatusOK, "payroll": http.StatusUnauthorized} {
		g := newGate(t, func(c *gateConfig) { c.settings = func(s *Settings) { s.APIAudience = audience } })
		require.Equal(t, status, g.call(t, http.MethodGet, "/v1/approvals", g.token("nora").AccessToken, nil).Status, audience)
	}
}
