package demoidp

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

func TestUserinfo(t *testing.T) {
	t.Parallel()

	t.Run("TellsThePresentGroups", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tokens := w.signIn(t, w.asNora())
		status, said := w.userinfo(t, tokens.AccessToken)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, map[string]any{"sub": "nora", "name": "Nora Lead", "preferred_username": "nora",
			"email": "nora@example.test", "email_verified": true, "groups": []any{"support-leads"}}, said)

		require.NoError(t, w.SetGroups("nora", "sales", "support-agents"))
		_, said = w.userinfo(t, tokens.AccessToken)
		require.Equal(t, []any{"sales", "support-agents"}, said["groups"])
		next := w.signIn(t, w.asNora())
		require.Equal(t, []any{"sales", "support-agents"}, w.claims(t, "holdpoint", next.IDToken)["groups"])

		require.NoError(t, w.SetGroups("nora"))
		_, said = w.userinfo(t, tokens.AccessToken)
		require.Equal(t, []any{}, said["groups"])
	})

	t.Run("RefusesADisabledPersonUntilEnabledAgain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tokens := w.signIn(t, w.asNora())
		require.NoError(t, w.Disable("nora", true))
		status, said := w.userinfo(t, tokens.AccessToken)
		require.Equal(t, http.StatusForbidden, status)
		require.NotContains(t, said, "groups")
		require.NoError(t, w.Disable("nora", false))
		status, _ = w.userinfo(t, tokens.AccessToken)
		require.Equal(t, http.StatusOK, status)
	})

	t.Run("RefusesWhatIsNoAccessTokenOfAPerson", func(t *testing.T) {
		t.Parallel()
		w, other := newWorld(t), newWorld(t)
		for name, refused := range map[string]struct {
			token  string
			status int
		}{
			"an ID token":                 {w.signIn(t, w.asNora()).IDToken, http.StatusForbidden},
			"an agent's token":            {agentToken(t, w).AccessToken, http.StatusForbidden},
			"a token of another provider": {other.signIn(t, other.asNora()).AccessToken, http.StatusUnauthorized},
			"no token":                    {"nonsense", http.StatusUnauthorized},
		} {
			status, said := w.userinfo(t, refused.token)
			require.Equal(t, refused.status, status, name)
			require.NotContains(t, said, "sub", name)
		}
	})
}

func TestDisabledPersonGetsNoToken(t *testing.T) {
	t.Parallel()

	t.Run("AtTheForm", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.Disable("nora", true))
		_, err := SignIn(t.Context(), w.asNora())
		require.ErrorIs(t, err, ErrRefused)
	})

	t.Run("ForACodeObtainedBefore", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		verifier := oauth2.GenerateVerifier()
		code := w.arrivesWith(t, oauth2.S256ChallengeOption(verifier)).Get("code")
		require.NoError(t, w.Disable("nora", true))
		_, err := w.app().Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		requireGrantError(t, err)
	})

	t.Run("NobodyElseIsTouched", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.Disable("sam", true))
		w.signIn(t, w.asNora())
	})

	t.Run("UnknownSubjectIsAnError", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.ErrorContains(t, w.Disable("nobody", true), "nobody")
		require.ErrorContains(t, w.SetGroups("nobody", "x"), "nobody")
	})
}

func agentToken(t *testing.T, w *world) *oauth2.Token {
	t.Helper()
	token, err := agent(w, "demo-agent", "demo-agent-secret").Token(t.Context())
	require.NoError(t, err)
	return token
}

func agent(w *world, id, secret string) *clientcredentials.Config {
	return &clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: w.Issuer() + "/oauth/token"}
}

func TestAgentToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	t.Run("SubjectIsTheClient", func(t *testing.T) {
		t.Parallel()
		said := w.claims(t, "holdpoint", agentToken(t, w).AccessToken)
		require.Equal(t, "demo-agent", said["sub"])
		require.Equal(t, "demo-agent", said["client_id"])
		require.NotEmpty(t, said["jti"])
		require.NotContains(t, said, "auth_time")
		require.NotContains(t, said, "groups")
	})

	t.Run("WrongSecretIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := agent(w, "demo-agent", "guess").Token(t.Context())
		var refused *oauth2.RetrieveError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "invalid_client", refused.ErrorCode)
		require.Equal(t, http.StatusUnauthorized, refused.Response.StatusCode)
	})

	t.Run("ClientsWithoutTheGrantAreRefused", func(t *testing.T) {
		t.Parallel()
		for _, other := range []struct{ id, secret, code string }{
			{"holdpoint", "holdpoint-secret", "unauthorized_client"},
			{"holdpoint-cli", "", "invalid_client"},
			{"nora", DemoPassword, "invalid_client"},
		} {
			_, err := agent(w, other.id, other.secret).Token(t.Context())
			var refused *oauth2.RetrieveError
			require.ErrorAs(t, err, &refused, other.id)
			require.Equal(t, other.code, refused.ErrorCode, other.id)
		}
	})

	t.Run("DelegatedTokenNamesTheActor", func(t *testing.T) {
		t.Parallel()
		token, err := w.MintDelegated("nora", "demo-agent")
		require.NoError(t, err)
		said := w.claims(t, "holdpoint", token)
		require.Equal(t, "nora", said["sub"])
		require.Equal(t, "demo-agent", said["client_id"])
		require.Equal(t, map[string]any{"sub": "demo-agent"}, said["act"])
		require.NotEmpty(t, said["auth_time"])
	})

	t.Run("DelegationIsFromAPersonToAClient", func(t *testing.T) {
		t.Parallel()
		_, err := w.MintDelegated("nobody", "demo-agent")
		require.ErrorContains(t, err, `"nobody"`)
		_, err = w.MintDelegated("nora", "no-agent")
		require.ErrorContains(t, err, `"no-agent"`)
	})
}
