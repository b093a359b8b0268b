package demoidp

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

func TestSignIn(t *testing.T) {
	t.Parallel()

	t.Run("IDTokenSaysWhoAndWhen", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		before := time.Now().Unix()
		arrived := w.arrivesWith(t, oauth2.S256ChallengeOption("v-0123456789-0123456789-0123456789-0123456789"),
			oauth2.SetAuthURLParam("nonce", "n-1"))
		require.Equal(t, "the state", arrived.Get("state"))
		token, err := w.app().Exchange(t.Context(), arrived.Get("code"),
			oauth2.VerifierOption("v-0123456789-0123456789-0123456789-0123456789"))
		require.NoError(t, err)

		said := w.claims(t, "holdpoint", token.Extra("id_token").(string))
		require.Equal(t, w.Issuer(), said["iss"])
		require.Equal(t, "nora", said["sub"])
		require.Equal(t, []any{"holdpoint"}, said["aud"])
		require.Equal(t, "n-1", said["nonce"])
		require.Equal(t, "Nora Lead", said["name"])
		require.Equal(t, "nora@example.test", said["email"])
		require.Equal(t, true, said["email_verified"])
		require.Equal(t, []any{"support-leads"}, said["groups"])
		require.GreaterOrEqual(t, said["auth_time"], float64(before))
		require.NotContains(t, said, "jti")
		require.NotContains(t, said, "scope")
	})

	t.Run("AccessTokenIsAJWTWithTheClaimsOfRFC9068", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tokens := w.signIn(t, w.asNora())
		said := w.claims(t, "holdpoint", tokens.AccessToken)
		require.Equal(t, "nora", said["sub"])
		require.Equal(t, "holdpoint", said["client_id"])
		require.Equal(t, "openid profile email", said["scope"])
		require.NotEmpty(t, said["jti"])
		require.InDelta(t, said["auth_time"], said["iat"], 5)
		require.InDelta(t, 600, said["exp"].(float64)-said["iat"].(float64), 5)
		require.NotContains(t, said, "groups")
		require.NotContains(t, said, "act")
		require.WithinDuration(t, time.Now().Add(10*time.Minute), tokens.Expiry, 10*time.Second)
	})

	t.Run("PublicClientReturnsToAnyLoopbackPort", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, redirect := range []string{"http://127.0.0.1:50123/callback", "http://127.0.0.1:50124/callback"} {
			tokens := w.signIn(t, SignInConfig{Issuer: w.Issuer(), ClientID: "holdpoint-cli", RedirectURI: redirect,
				Login: "otto", Password: DemoPassword})
			require.Equal(t, []any{"operators"}, w.claims(t, "holdpoint-cli", tokens.IDToken)["groups"])
		}
	})

	t.Run("RedirectThatIsNotRegisteredIsRefusedOnThePage", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		app := w.app()
		app.RedirectURL = "http://127.0.0.1:9/elsewhere"
		answer := get(t, app.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
		body(t, answer)
		require.Equal(t, 400, answer.StatusCode)
		require.Equal(t, "/authorize", answer.Request.URL.Path)
	})

	t.Run("WrongClientSecretYieldsNoToken", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c := w.asNora()
		c.ClientSecret = "guess"
		_, err := SignIn(t.Context(), c)
		var refused *oauth2.RetrieveError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "invalid_client", refused.ErrorCode)
	})
}

func TestPKCE(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	param := oauth2.SetAuthURLParam
	verifier := oauth2.GenerateVerifier()
	challenge := oauth2.S256ChallengeFromVerifier(verifier)

	for name, opts := range map[string][]oauth2.AuthCodeOption{
		"AbsentIsRefused":             nil,
		"PlainIsRefused":              {param("code_challenge", verifier), param("code_challenge_method", "plain")},
		"UnnamedMethodIsRefused":      {param("code_challenge", challenge)},
		"UnknownMethodIsRefused":      {param("code_challenge", challenge), param("code_challenge_method", "S512")},
		"ChallengeOfNoHashIsRefused":  {param("code_challenge", "short"), param("code_challenge_method", "S256")},
		"MethodWithoutHashIsRefused":  {param("code_challenge_method", "S256")},
		"RequestObjectIsNotAWayRound": {oauth2.S256ChallengeOption(verifier), param("request", "e30.e30.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := w.arrivesWith(t, opts...)
			require.Contains(t, []string{"invalid_request", "request_not_supported"}, arrived.Get("error"))
			require.Equal(t, "the state", arrived.Get("state"))
			require.Empty(t, arrived.Get("code"))
		})
	}

	t.Run("WrongVerifierBurnsTheCode", func(t *testing.T) {
		t.Parallel()
		code := w.arrivesWith(t, oauth2.S256ChallengeOption(verifier)).Get("code")
		_, err := w.app().Exchange(t.Context(), code, oauth2.VerifierOption(oauth2.GenerateVerifier()))
		requireGrantError(t, err)
		_, err = w.app().Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		requireGrantError(t, err)
	})

	t.Run("CodeWorksOnce", func(t *testing.T) {
		t.Parallel()
		code := w.arrivesWith(t, oauth2.S256ChallengeOption(verifier)).Get("code")
		_, err := w.app().Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		require.NoError(t, err)
		_, err = w.app().Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		requireGrantError(t, err)
	})

	t.Run("SecondCodeOfOneSignInYieldsNothing", func(t *testing.T) {
		t.Parallel()
		form := get(t, w.app().AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)))
		body(t, form)
		signedIn := w.submit(t, form.Request.URL.String(), http.Header{}, "nora", DemoPassword)
		body(t, signedIn)
		code := func() string {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				w.Issuer()+signedIn.Header.Get("Location"), nil)
			require.NoError(t, err)
			answer, err := noRedirects.Do(r)
			require.NoError(t, err)
			body(t, answer)
			at, err := answer.Location()
			require.NoError(t, err)
			require.NotEmpty(t, at.Query().Get("code"))
			return at.Query().Get("code")
		}
		first, second := code(), code()
		require.NotEqual(t, first, second)
		_, err := w.app().Exchange(t.Context(), first, oauth2.VerifierOption(verifier))
		require.NoError(t, err)
		_, err = w.app().Exchange(t.Context(), second, oauth2.VerifierOption(verifier))
		requireGrantError(t, err)
	})

	t.Run("CodeExpires", func(t *testing.T) {
		t.Parallel()
		own := newWorld(t)
		code := own.arrivesWith(t, oauth2.S256ChallengeOption(verifier)).Get("code")
		own.advance(codeLifetime)
		_, err := own.app().Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
		requireGrantError(t, err)
	})
}

func requireGrantError(t *testing.T, err error) {
	t.Helper()
	var refused *oauth2.RetrieveError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "invalid_grant", refused.ErrorCode)
}

func TestScopeOpenIDIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.asNora()
	c.Scopes = []string{"email"}
	_, err := SignIn(t.Context(), c)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "invalid_scope", refused.Code)
}
