package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// When an access token is got anew, as shares of its lifetime with a bound, and how often that is tried while it can still be used:
//
//	lifetime   1m    5m    15m   1h
//	renewed    12s   60s   60s   60s   before its end, while calls go on with it
//	unused     6s    10s   10s   10s   before its end: calls wait for another
const (
	renewBefore = time.Minute
	unusedAfter = 10 * time.Second
	renewPause  = 5 * time.Second
)

// oauth gets access tokens from a token server. They are kept in memory; one request for a token is under way at a time.
type oauth struct {
	k        *Connector
	declared *config.OAuth2
	client   *http.Client
	flight   singleflight.Group

	mu     sync.Mutex
	token  accessToken
	tried  time.Time // when the last renewal of a token that was still good began
	rotate rotation  // touched by the one request that is under way
}

// accessToken is a token with its times; zero times are those of a token that does not end by itself.
type accessToken struct {
	value          string
	renew, useless time.Time
}

func (t accessToken) usable(now time.Time) bool {
	return t.value != "" && (t.useless.IsZero() || now.Before(t.useless))
}

func (t accessToken) fresh(now time.Time) bool {
	return t.value != "" && (t.renew.IsZero() || now.Before(t.renew))
}

func newOAuth(k *Connector) (*oauth, error) {
	d := k.declared.OAuth2
	address, err := url.Parse(d.TokenURL)
	switch {
	case err != nil || address.Hostname() == "" || (address.Scheme != "http" && address.Scheme != "https"):
		return nil, errors.New("the token URL must be an absolute http or https URL")
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return nil, errors.New("the token URL must not hold credentials, a query or a fragment")
	case address.Scheme == "http" && !isLoopbackName(address.Hostname()):
		return nil, errors.New("a client's secret needs https:// unless the token server is on the loopback interface")
	case d.ClientID == "":
		return nil, errors.New("the client id is missing")
	case d.Grant == config.GrantRefresh && !d.RefreshToken.Set():
		return nil, errors.New("the grant refresh_token needs a refresh token")
	case d.Grant != config.GrantRefresh && !d.ClientSecret.Set():
		return nil, errors.New("the grant client_credentials needs a client secret")
	}
	client, err := NewClient(ClientConfig{BaseURL: d.TokenURL, AllowedHosts: d.AllowedHosts, Timeout: k.timeout, TLS: k.config.TLS})
	if err != nil {
		return nil, fmt.Errorf("token server: %w", err)
	}
	return &oauth{k: k, declared: d, client: client}, nil
}

// authorize waits for a token at most as long as a call may take.
func (o *oauth) authorize(ctx context.Context, r *http.Request, _ []byte) error {
	ctx, cancel := context.WithTimeout(ctx, o.k.timeout)
	defer cancel()
	token, err := o.current(ctx)
	if err != nil {
		return err
	}
	r.Header["Authorization"] = []string{"Bearer " + token.value}
	return nil
}

// rejected drops the token, unless another has taken its place already.
func (o *oauth) rejected(r *http.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Header.Get("Authorization") == "Bearer "+o.token.value {
		o.token = accessToken{}
	}
	return true
}

// current is the token to use now. One that ends soon is renewed beside the calls, which go on with it meanwhile.
func (o *oauth) current(ctx context.Context) (accessToken, error) {
	now := o.k.config.Clock()
	o.mu.Lock()
	token := o.token
	renew := token.usable(now) && !token.fresh(now) && now.Sub(o.tried) >= renewPause
	if renew {
		o.tried = now
	}
	o.mu.Unlock()
	if token.usable(now) {
		if renew {
			o.flight.DoChan("", o.fetch)
		}
		return token, nil
	}
	select {
	case got := <-o.flight.DoChan("", o.fetch):
		if got.Err != nil {
			return accessToken{}, got.Err
		}
		return got.Val.(accessToken), nil
	case <-ctx.Done():
		return accessToken{}, fmt.Errorf("%w: no access token within %s", ErrUnavailable, o.k.timeout)
	}
}

// fetch gets a token for all who wait. Who asks when it has just been got shares it.
func (o *oauth) fetch() (any, error) {
	now := o.k.config.Clock()
	o.mu.Lock()
	token := o.token
	o.mu.Unlock()
	if token.fresh(now) {
		return token, nil
	}
	ctx, cancel := context.WithTimeout(o.k.open, o.k.timeout)
	defer cancel()
	got, err := o.ask(context.WithValue(ctx, oauth2.HTTPClient, o.client))
	if err != nil {
		return nil, fmt.Errorf("get an access token: %w", err)
	}
	if !validHeaderValue(got.AccessToken) {
		return nil, fmt.Errorf("%w: the access token that the token server gave is not printable ASCII", ErrUnavailable)
	}
	token = accessToken{value: got.AccessToken}
	if !got.Expiry.IsZero() {
		lifetime := time.Until(got.Expiry)
		ends := o.k.config.Clock().Add(lifetime)
		token.renew, token.useless = ends.Add(-min(renewBefore, lifetime/5)), ends.Add(-min(unusedAfter, lifetime/10))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.token = token
	return token, nil
}

func (o *oauth) ask(ctx context.Context) (*oauth2.Token, error) {
	secret, err := o.clientSecret()
	switch {
	case err != nil:
		return nil, err
	case o.declared.Grant == config.GrantRefresh && o.declared.RefreshToken.File != "":
		return o.refreshByFile(ctx, secret)
	case o.declared.Grant == config.GrantRefresh:
		return o.refreshByEnv(ctx, secret)
	}
	client := clientcredentials.Config{ClientID: o.declared.ClientID, ClientSecret: secret, TokenURL: o.declared.TokenURL,
		Scopes: o.declared.Scopes, AuthStyle: o.style(secret)}
	token, err := client.Token(ctx)
	return token, tokenError(err)
}

func (o *oauth) clientSecret() (string, error) {
	ref := o.declared.ClientSecret
	if !ref.Set() {
		return "", nil
	}
	secret, err := o.k.secret("client secret", ref)
	if err == nil && secret == "" {
		err = fmt.Errorf("the client secret in %s is missing", place(ref))
	}
	return secret, err
}

// style: a client without a secret can only name itself in the body (RFC 6749, section 3.2.1). It is never tried out, because a
// second request with a refresh token that was used may end them all.
func (o *oauth) style(secret string) oauth2.AuthStyle {
	if secret == "" || o.declared.AuthStyle == config.AuthInParams {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// refresh gets an access token for a refresh token, and with some servers the refresh token that takes its place.
func (o *oauth) refresh(ctx context.Context, secret, refreshToken string) (*oauth2.Token, error) {
	client := oauth2.Config{ClientID: o.declared.ClientID, ClientSecret: secret,
		Endpoint: oauth2.Endpoint{TokenURL: o.declared.TokenURL, AuthStyle: o.style(secret)}}
	token, err := client.TokenSource(ctx, &oauth2.Token{RefreshToken: refreshToken}).Token()
	return token, tokenError(err)
}

func (o *oauth) refreshToken() (string, error) {
	ref := o.declared.RefreshToken
	held, err := o.k.secret("refresh token", ref)
	if err == nil && held == "" {
		err = fmt.Errorf("the refresh token in %s is missing", place(ref))
	}
	return held, err
}

func (o *oauth) refreshByEnv(ctx context.Context, secret string) (*oauth2.Token, error) {
	held, err := o.refreshToken()
	if err != nil {
		return nil, err
	}
	token, err := o.refresh(ctx, secret, held)
	if err == nil && token.RefreshToken != held {
		return nil, errors.New("the token server gave another refresh token in the place of the one in " + place(o.declared.RefreshToken) +
			"; one that changes must be in refresh_token_file")
	}
	return token, err
}

// tokenError says what came of asking, without the answer's body and the request's address.
func tokenError(err error) error {
	if err == nil {
		return nil
	}
	var refusal *oauth2.RetrieveError
	var call *url.Error
	switch {
	case errors.As(err, &refusal) && refusal.ErrorCode != "":
		return fmt.Errorf("%w: the token server answered HTTP %d with code %q", ErrUnavailable, refusal.Response.StatusCode,
			printable(refusal.ErrorCode, 64))
	case errors.As(err, &refusal):
		return fmt.Errorf("%w: the token server answered HTTP %d", ErrUnavailable, refusal.Response.StatusCode)
	case errors.As(err, &call):
		return fmt.Errorf("%w: the token server cannot be asked: %w", ErrUnavailable, call.Err)
	}
	return fmt.Errorf("%w: the token server's answer is no token", ErrUnavailable)
}
