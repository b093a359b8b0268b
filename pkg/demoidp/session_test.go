package demoidp

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// Each case starts with a browser in which nora has signed in once, and moves a clock.
func TestProviderSession(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*world, SignInConfig, Tokens) {
		w := newWorld(t)
		c := w.asNora()
		c.Browser = NewBrowser(c.Login, c.Password)
		return w, c, w.signIn(t, c)
	}

	t.Run("SecondSignInNeedsNoPasswordAndKeepsAuthTime", func(t *testing.T) {
		t.Parallel()
		w, c, first := setup(t)
		w.advance(time.Hour)
		second := w.signIn(t, c)
		require.Equal(t, 1, c.Browser.Forms)
		require.Equal(t, w.claims(t, "holdpoint", first.IDToken)["auth_time"],
			w.claims(t, "holdpoint", second.IDToken)["auth_time"])
	})

	for name, params := range map[string]url.Values{
		"PromptLoginAsksAgain":         {"prompt": {"login"}},
		"PromptSelectAccountAsksAgain": {"prompt": {"select_account"}},
		"MaxAgeZeroAsksAgain":          {"max_age": {"0"}},
		"MaxAgeThatIsOverAsksAgain":    {"max_age": {"3600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c, first := setup(t)
			w.advance(time.Hour)
			c.Params = params
			second := w.signIn(t, c)
			require.Equal(t, 2, c.Browser.Forms)
			before := w.claims(t, "holdpoint", first.IDToken)["auth_time"].(float64)
			for _, token := range []string{second.IDToken, second.AccessToken} {
				require.InDelta(t, before+3600, w.claims(t, "holdpoint", token)["auth_time"], 5)
			}
		})
	}

	t.Run("ReauthenticationIsNotSatisfiedByAWrongPassword", func(t *testing.T) {
		t.Parallel()
		_, c, _ := setup(t)
		c.Browser.Password = "guess"
		c.Params = url.Values{"prompt": {"login"}}
		_, err := SignIn(t.Context(), c)
		require.ErrorIs(t, err, ErrRefused)
	})

	t.Run("MaxAgeThatIsNotOverAsksNothing", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		w.advance(time.Minute)
		c.Params = url.Values{"max_age": {"3600"}}
		w.signIn(t, c)
		require.Equal(t, 1, c.Browser.Forms)
	})

	t.Run("PromptNoneSucceedsWithASession", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		c.Params = url.Values{"prompt": {"none"}}
		w.signIn(t, c)
		require.Equal(t, 1, c.Browser.Forms)
	})

	t.Run("PromptNoneWithoutSessionIsLoginRequired", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c := w.asNora()
		c.Params = url.Values{"prompt": {"none"}}
		requireLoginRequired(t, c)
	})

	t.Run("PromptNoneForAnotherPersonIsLoginRequired", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		sam := w.asNora()
		sam.Login = "sam"
		c.Params = url.Values{"prompt": {"none"}, "id_token_hint": {w.signIn(t, sam).IDToken}}
		requireLoginRequired(t, c)
	})

	t.Run("SessionEnds", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		w.advance(sessionLifetime)
		c.Params = url.Values{"prompt": {"none"}}
		requireLoginRequired(t, c)
	})

	t.Run("SessionOfADisabledPersonAnswersNothing", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		require.NoError(t, w.Disable("nora", true))
		c.Params = url.Values{"prompt": {"none"}}
		requireLoginRequired(t, c)
	})

	t.Run("SignOutEndsTheSessionAndReturnsToARegisteredPage", func(t *testing.T) {
		t.Parallel()
		w, c, first := setup(t)
		c.Browser.Client.CheckRedirect = noRedirects.CheckRedirect
		answer, err := c.Browser.Open(t.Context(), w.Issuer()+"/end_session?"+url.Values{
			"id_token_hint": {first.IDToken}, "state": {"bye"},
			"post_logout_redirect_uri": {"http://127.0.0.1:9/"}}.Encode())
		require.NoError(t, err)
		body(t, answer)
		require.Equal(t, "http://127.0.0.1:9/?state=bye", answer.Header.Get("Location"))
		c.Params = url.Values{"prompt": {"none"}}
		requireLoginRequired(t, c)
	})

	t.Run("SignOutWithoutAHintEndsTheSessionOfThisBrowser", func(t *testing.T) {
		t.Parallel()
		w, c, _ := setup(t)
		elsewhere := w.asNora()
		elsewhere.Browser = NewBrowser("nora", DemoPassword)
		w.signIn(t, elsewhere)

		answer, err := c.Browser.Open(t.Context(), w.Issuer()+"/end_session")
		require.NoError(t, err)
		require.Contains(t, body(t, answer), "You are signed out")
		w.signIn(t, elsewhere)
		require.Equal(t, 1, elsewhere.Browser.Forms)
		c.Params = url.Values{"prompt": {"none"}}
		requireLoginRequired(t, c)
	})

	t.Run("SignOutToAPageThatIsNotRegisteredIsRefused", func(t *testing.T) {
		t.Parallel()
		w, c, first := setup(t)
		answer, err := c.Browser.Open(t.Context(), w.Issuer()+"/end_session?"+url.Values{
			"id_token_hint": {first.IDToken}, "post_logout_redirect_uri": {"http://evil.example/"}}.Encode())
		require.NoError(t, err)
		body(t, answer)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	})
}

// With a clock that stands still: no age is young enough for max_age=0.
func TestSessionAge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		maxAge   uint
		age      time.Duration
		answered bool
	}{
		{0, 0, false}, {0, time.Second, false},
		{60, 0, true}, {60, 59 * time.Second, true}, {60, 60 * time.Second, false},
	} {
		r := authRequest{AuthRequest: oidc.AuthRequest{MaxAge: &c.maxAge}}
		require.Equal(t, c.answered, r.answeredBy(session{authTime: now.Add(-c.age)}, now), "%+v", c)
	}
}

func requireLoginRequired(t *testing.T, c SignInConfig) {
	t.Helper()
	_, err := SignIn(t.Context(), c)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "login_required", refused.Code)
}
