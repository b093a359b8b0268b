package intake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// callerOf is who a bearer credential admits: an API key, or an access token of an issuer that some tenant trusts. Without
// one, the problem says so.
func (in *Intake) callerOf(ctx context.Context, credential string) (*caller, *contracts.Problem) {
	if c := in.keys[sha256.Sum256([]byte(credential))]; c != nil {
		return c, nil
	}
	unknown := newProblem(contracts.CodeUnauthenticated, "Send an API key: Authorization: Bearer <key>.")
	if len(in.issuers) == 0 || strings.Count(credential, ".") != 2 {
		return nil, unknown
	}
	away := false
	issued := issuerOf(credential)
	for _, i := range in.issuers {
		if i.Issuer != issued {
			continue
		}
		c, err := i.admit(ctx, credential)
		if err == nil {
			return c, nil
		}
		away = away || errors.Is(err, errIssuerAway)
		in.env.Log.Debug("an access token was not taken", "tenant", i.tenant.ID, "issuer", i.Issuer, "error", err)
	}
	if away {
		return nil, newProblem(contracts.CodeUnavailable, "The issuer of the access token cannot be asked now. Send it again.")
	}
	return nil, unknown
}

// issuer admits programs by their access tokens (RFC 9068). Its metadata and keys are read when they are first needed, so
// that an issuer that is away does not keep intake from starting.
type issuer struct {
	config.TokenIssuer
	tenant *tenant
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
}

// issuerTimeout is how long an issuer may take to answer.
const issuerTimeout = 10 * time.Second

func newIssuer(t *tenant, declared config.TokenIssuer) *issuer {
	return &issuer{TokenIssuer: declared, tenant: t, client: &http.Client{Timeout: issuerTimeout}}
}

// errIssuerAway means that nobody can say whether the token is good.
var errIssuerAway = errors.New("the issuer cannot be reached")

// admit checks a token: its signature, issuer, audience and times, that it is an access token, and the declared claims.
func (i *issuer) admit(ctx context.Context, raw string) (*caller, error) {
	verifier, err := i.keys(ctx)
	if err != nil {
		return nil, errors.Join(errIssuerAway, err)
	}
	token, err := verifier.Verify(oidc.ClientContext(ctx, i.client), raw)
	if err != nil {
		var network *url.Error
		if errors.As(err, &network) || strings.Contains(err.Error(), "fetching keys") {
			return nil, errors.Join(errIssuerAway, err)
		}
		return nil, err
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, err
	}
	// RFC 9068 asks for jti, and only an ID token, which is no credential for an API, answers a nonce.
	if _, answers := claims["nonce"]; answers || claims["jti"] == nil {
		return nil, errors.New("it is an ID token")
	}
	for name, accepted := range i.Claims {
		if !slices.ContainsFunc(config.ClaimTexts(claims[name]), func(has string) bool { return slices.Contains(accepted, has) }) {
			return nil, errors.New("its claim " + name + " has none of the values that are accepted")
		}
	}
	c := &caller{tenant: i.tenant, name: clip("token " + token.Subject), scopes: map[string]bool{}}
	for _, s := range i.Scopes {
		c.scopes[s] = true
	}
	return c, nil
}

// keys finds the issuer's keys, which the returned verifier fetches again when they are rotated.
func (i *issuer) keys(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	if err := ctx.Err(); err != nil { // whoever waited behind an issuer that hangs and has left is not asked for
		return nil, err
	}
	known, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.client), i.Issuer)
	if err != nil {
		return nil, err
	}
	i.verifier = known.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), i.client), &oidc.Config{ClientID: i.Audience})
	return i.verifier, nil
}

// issuerOf is who a token says has issued it, before anything is checked: it only says whom to ask.
func issuerOf(raw string) string {
	_, rest, _ := strings.Cut(raw, ".")
	body, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(body)
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
