package approval

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// provider is the OpenID Connect provider that says who people are. Its metadata is read when it is first needed and kept;
// keys are fetched again when it rotates them.
type provider struct {
	settings Settings
	secret   string
	client   *http.Client

	mu    sync.Mutex
	known *oidc.Provider
}

func newProvider(s Settings) (*provider, error) {
	p := &provider{settings: s, secret: s.ClientSecret, client: s.httpClient()}
	if s.ClientSecretFile != "" {
		text, err := os.ReadFile(s.ClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("read HOLDPOINT_APPROVAL_CLIENT_SECRET_FILE: %w", err)
		}
		p.secret = strings.TrimSpace(string(text))
	}
	return p, nil
}

// errProvider means that the provider could not be asked: nobody is known, and nothing is decided.
var errProvider = errors.New("the identity provider cannot be reached now")

// discover reads the provider's metadata. Keys are fetched by the returned provider on a context that outlives this request.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	if err := ctx.Err(); err != nil { // whoever waited behind a provider that hangs and has left is not asked for
		return nil, fmt.Errorf("%w: %w", errProvider, err)
	}
	known, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.settings.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProvider, err)
	}
	p.known = known
	return known, nil
}

// flow is the authorization code flow back to our callback.
func (p *provider) flow(known *oidc.Provider, redirect string) *oauth2.Config {
	endpoint := known.Endpoint()
	endpoint.AuthStyle = p.authStyle(known)
	return &oauth2.Config{ClientID: p.settings.ClientID, ClientSecret: p.secret, Endpoint: endpoint, RedirectURL: redirect,
		Scopes: p.settings.Scopes}
}

// authStyle is said and not found out by trying: a code that came with the secret in the wrong place is burnt. Providers that do
// not say take it in the header (RFC 6749, section 2.3.1; OpenID Connect Discovery 1.0, section 3).
func (p *provider) authStyle(known *oidc.Provider) oauth2.AuthStyle {
	var says struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = known.Claims(&says) // metadata that was read once can be read again
	basic := len(says.Methods) == 0 || slices.Contains(says.Methods, "client_secret_basic")
	if p.secret == "" || !basic {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// unreachable reports whether the provider gave no answer, rather than a bad one: whoever asked may try again with the same
// credential. The library keeps what happened to its own fetches in the text alone.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	var network *url.Error
	return errors.As(err, &network) || strings.Contains(err.Error(), "fetching keys") || strings.HasPrefix(err.Error(), "5")
}

// exchange turns the code of a callback into a person. The ID token must carry the nonce of our request.
func (p *provider) exchange(ctx context.Context, redirect, code, verifier, nonce string) (*identity, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.flow(known, redirect).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := known.VerifierContext(ctx, &oidc.Config{ClientID: p.settings.ClientID}).Verify(ctx, raw)
	if unreachable(err) {
		return nil, fmt.Errorf("%w: %w", errProvider, err)
	}
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	if token.Nonce != nonce {
		return nil, errors.New("the ID token was not made for this sign-in")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read the ID token: %w", err)
	}
	if _, groups := claims["groups"]; !groups { // many providers put groups into the userinfo alone
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errProvider, err)
		}
		more, err := claimsAbout(token.Subject, info)
		if err != nil {
			return nil, err
		}
		for name, value := range more {
			if _, has := claims[name]; !has {
				claims[name] = value
			}
		}
	}
	who := person(token.Issuer, token.Subject, claims, "web")
	return who, who.human(p.settings.ClientID)
}

// claimsAbout are those of a userinfo, which must be about the person whom the token names (OpenID Connect Core 5.3.2).
func claimsAbout(subject string, info *oidc.UserInfo) (claims map[string]any, err error) {
	if info.Subject != subject {
		return nil, errors.New("the provider's userinfo is about somebody else")
	}
	if err := info.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read the userinfo: %w", err)
	}
	return claims, nil
}

func person(issuer, subject string, claims map[string]any, channel string) *identity {
	who := &identity{Issuer: issuer, Subject: subject, Claims: claims, ClaimsAt: time.Now(), Channel: channel,
		Name: claimText(claims, "name"), Email: claimText(claims, "email")}
	if who.Name == "" {
		who.Name = subject
	}
	if at, ok := claims["auth_time"].(float64); ok {
		who.SignedInAt = believed(time.Unix(int64(at), 0), who.ClaimsAt)
	}
	return who
}

// clockSkew is how far ahead the provider's clock may be.
const clockSkew = 5 * time.Minute

// believed is the time of a sign-in as far as it can be true: nobody signs in after the provider has said so. One that lies
// further ahead than clocks do, as in milliseconds, is not said at all: it would count as recent for ever (A6).
func believed(at, said time.Time) time.Time {
	switch {
	case at.After(said.Add(clockSkew)):
		return time.Time{}
	case at.After(said):
		return said
	}
	return at
}

// errNotAPerson refuses the credentials of programs, and of programs that act for a person (A15).
var errNotAPerson = errors.New("only people decide: this credential belongs to a program, or was delegated to one")

// human refuses tokens that a program got for itself, or by which somebody acts for the person (RFC 8693 act). Where a program has
// a subject like anybody's, providers tell in ways of their own: Auth0 by gty, Entra ID by idtyp, Keycloak by the user name.
func (who *identity) human(clients ...string) error {
	_, acts := who.Claims["act"]
	client := claimText(who.Claims, "client_id")
	switch {
	case who.Subject == "" || acts,
		client != "" && client == who.Subject,
		slices.Contains(clients, who.Subject),
		claimText(who.Claims, "gty") == "client-credentials",
		claimText(who.Claims, "idtyp") == "app",
		strings.HasPrefix(claimText(who.Claims, "preferred_username"), "service-account-"),
		claimText(who.Claims, "azp") == who.Subject:
		return errNotAPerson
	}
	return nil
}

// errCredential is a bearer token that is missing, expired or not for us.
var errCredential = errors.New("sign in and send your own access token: Authorization: Bearer <token>")

// bearer turns a person's own access token into the person (A13). The token must be a JWT of our issuer (RFC 9068), issued to a
// client that we list; who they are by now is asked at the userinfo endpoint, so that a revoked right is gone at once.
func (p *provider) bearer(ctx context.Context, raw string) (*identity, error) {
	if strings.Count(raw, ".") != 2 {
		return nil, errCredential
	}
	known, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := known.VerifierContext(ctx, &oidc.Config{ClientID: p.settings.APIAudience,
		SkipClientIDCheck: p.settings.APIAudience == ""}).Verify(ctx, raw)
	if unreachable(err) {
		return nil, fmt.Errorf("%w: %w", errProvider, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errCredential, err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w (%w)", errCredential, err)
	}
	if !accessToken(claims) {
		return nil, fmt.Errorf("%w (this is an ID token)", errCredential)
	}
	who := person(token.Issuer, token.Subject, claims, "api")
	if err := who.human(p.settings.APIClients...); err != nil {
		return nil, err
	}
	client := claimText(claims, "client_id")
	if client == "" {
		client = claimText(claims, "azp")
	}
	if !slices.Contains(p.settings.APIClients, client) {
		return nil, fmt.Errorf("%w: tokens of the client %q are not taken here", errNotAPerson, client)
	}
	if err := p.refresh(ctx, known, who, raw); err != nil {
		return nil, err
	}
	return who, who.human(p.settings.APIClients...)
}

// accessToken tells one from an ID token, which is no credential for an API: RFC 9068 asks for jti, and only an ID token answers
// a nonce.
func accessToken(claims map[string]any) bool {
	_, answers := claims["nonce"]
	return claims["jti"] != nil && !answers
}

// refresh asks the provider who the person is by now. When they signed in, the token alone says.
func (p *provider) refresh(ctx context.Context, known *oidc.Provider, who *identity, raw string) error {
	info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: raw, TokenType: "Bearer"}))
	if unreachable(err) {
		return fmt.Errorf("%w: %w", errProvider, err)
	}
	if err != nil {
		return fmt.Errorf("%w (the provider does not vouch for the token: %w)", errCredential, err)
	}
	now, err := claimsAbout(who.Subject, info)
	if err != nil {
		return fmt.Errorf("%w (%w)", errCredential, err)
	}
	if _, has := now["auth_time"]; !has {
		now["auth_time"] = who.Claims["auth_time"]
	}
	*who = *person(who.Issuer, who.Subject, now, who.Channel)
	return nil
}
