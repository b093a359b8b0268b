package demoidp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// SignInConfig says who signs in to what.
type SignInConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret string // of a confidential client
	RedirectURI  string // is never opened: the sign-in ends when the browser is sent there
	Login        string // a person's Subject
	Password     string
	Scopes       []string   // default: openid, profile, email
	Params       url.Values // further parameters of the authorization request, as prompt and max_age
	// Browser keeps its cookies from one sign-in to the next, so that the second needs no password. Default: a new one.
	Browser *Browser
}

// Tokens are what a sign-in yields. Expiry is the access token's.
type Tokens struct {
	AccessToken string
	IDToken     string
	Expiry      time.Time
}

// Error is a refusal that the provider sent to the redirect URI: Code is as OpenID Connect Core 3.1.2.6 and RFC 6749,
// section 4.1.2.1, list them.
type Error struct{ Code, Description string }

func (e *Error) Error() string { return fmt.Sprintf("sign-in refused: %s: %s", e.Code, e.Description) }

// SignIn goes through the real authorization code flow over HTTP, with PKCE (S256), state and nonce, and verifies the
// ID token. It returns an *Error when the provider refuses the request, and ErrRefused when name and password do not
// fit.
func SignIn(ctx context.Context, c SignInConfig) (Tokens, error) {
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	if err != nil {
		return Tokens{}, fmt.Errorf("sign-in: discovering %s: %w", c.Issuer, err)
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{oidc.ScopeOpenID, "profile", "email"}
	}
	app := oauth2.Config{ClientID: c.ClientID, ClientSecret: c.ClientSecret, RedirectURL: c.RedirectURI,
		Endpoint: provider.Endpoint(), Scopes: c.Scopes}
	// Said and not found out by trying: a code that came with the wrong kind of secret is burnt.
	app.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if c.ClientSecret == "" {
		app.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	pkce, nonce := oauth2.GenerateVerifier(), rand.Text()
	code, err := c.authorize(ctx, &app, oauth2.S256ChallengeOption(pkce), oidc.Nonce(nonce))
	if err != nil {
		return Tokens{}, err
	}
	token, err := app.Exchange(ctx, code, oauth2.VerifierOption(pkce))
	if err != nil {
		return Tokens{}, fmt.Errorf("sign-in: changing the code for tokens: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Tokens{}, errors.New("sign-in: the provider sent no ID token")
	}
	verified, err := provider.Verifier(&oidc.Config{ClientID: c.ClientID}).Verify(ctx, raw)
	if err != nil {
		return Tokens{}, fmt.Errorf("sign-in: verifying the ID token: %w", err)
	}
	if verified.Nonce != nonce {
		return Tokens{}, errors.New("sign-in: the ID token answers another request: its nonce differs")
	}
	return Tokens{AccessToken: token.AccessToken, IDToken: raw, Expiry: token.Expiry}, nil
}

// authorize walks the browser from the authorization endpoint to the redirect URI and returns the code that arrives
// there.
func (c SignInConfig) authorize(ctx context.Context, app *oauth2.Config, opts ...oauth2.AuthCodeOption,
) (string, error) {
	for name := range c.Params {
		opts = append(opts, oauth2.SetAuthURLParam(name, c.Params.Get(name)))
	}
	browser := c.Browser
	if browser == nil {
		browser = NewBrowser(c.Login, c.Password)
	}
	state := rand.Text()
	arrived, err := browser.arrive(ctx, app.AuthCodeURL(state, opts...), c.RedirectURI)
	if err != nil {
		return "", err
	}
	if arrived.Get("error") != "" {
		return "", &Error{Code: arrived.Get("error"), Description: arrived.Get("error_description")}
	}
	if arrived.Get("state") != state {
		return "", errors.New("sign-in: the provider answers another request: its state differs")
	}
	return arrived.Get("code"), nil
}

// arrive opens address and returns the query with which the browser is sent to redirect, where nobody need listen.
func (b *Browser) arrive(ctx context.Context, address, redirect string) (url.Values, error) {
	client := *b.Client
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), redirect+"?") {
			return http.ErrUseLastResponse
		}
		if len(via) >= 10 {
			return errors.New("more than 10 redirects")
		}
		return nil
	}
	answer, err := b.open(ctx, &client, address)
	if err != nil {
		return nil, fmt.Errorf("sign-in: %w", err)
	}
	if err := discard(answer); err != nil {
		return nil, fmt.Errorf("sign-in: %w", err)
	}
	at, err := answer.Location()
	if err != nil {
		return nil, fmt.Errorf("sign-in: %s answered %s and did not return to %s",
			answer.Request.URL.Redacted(), answer.Status, redirect)
	}
	return at.Query(), nil
}
