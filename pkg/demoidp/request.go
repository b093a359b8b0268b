package demoidp

import (
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// authRequest is one sign-in on its way (op.AuthRequest): what the application asked for and, once done, who answered.
type authRequest struct {
	oidc.AuthRequest
	id       string
	hint     string // the subject of a valid id_token_hint
	subject  string
	authTime time.Time
	done     bool
}

func (r *authRequest) GetID() string                         { return r.id }
func (r *authRequest) GetACR() string                        { return "" }
func (r *authRequest) GetAudience() []string                 { return []string{r.ClientID} }
func (r *authRequest) GetAuthTime() time.Time                { return r.authTime }
func (r *authRequest) GetClientID() string                   { return r.ClientID }
func (r *authRequest) GetNonce() string                      { return r.Nonce }
func (r *authRequest) GetRedirectURI() string                { return r.RedirectURI }
func (r *authRequest) GetResponseType() oidc.ResponseType    { return r.ResponseType }
func (r *authRequest) GetResponseMode() oidc.ResponseMode    { return r.ResponseMode }
func (r *authRequest) GetScopes() []string                   { return r.Scopes }
func (r *authRequest) GetState() string                      { return r.State }
func (r *authRequest) GetSubject() string                    { return r.subject }
func (r *authRequest) Done() bool                            { return r.done }
func (r *authRequest) GetCodeChallenge() *oidc.CodeChallenge { return challengeOf(&r.AuthRequest) }

// GetAMR says how the person proved themselves, by RFC 8176.
func (r *authRequest) GetAMR() []string { return []string{"pwd"} }

func challengeOf(r *oidc.AuthRequest) *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

// checkAuthRequest refuses what the library would let pass: a request without PKCE or with the plain method, and one
// that is not of OpenID Connect.
func checkAuthRequest(r *oidc.AuthRequest) error {
	if !slices.Contains(r.Scopes, oidc.ScopeOpenID) {
		return oidc.ErrInvalidScope().WithDescription("the scope openid is required")
	}
	// A SHA-256 in base64url without padding has 43 characters (RFC 7636, section 4.2).
	if r.CodeChallengeMethod != oidc.CodeChallengeMethodS256 || len(r.CodeChallenge) != 43 {
		return oidc.ErrInvalidRequest().WithDescription("PKCE with code_challenge_method S256 is required")
	}
	return nil
}

// answeredBy tells whether a live session of the provider answers the request without the password being typed again
// (OpenID Connect Core 3.1.2.1). The library turns prompt=login into max_age=0.
func (r *authRequest) answeredBy(s session, now time.Time) bool {
	if slices.Contains(r.Prompt, oidc.PromptLogin) || slices.Contains(r.Prompt, oidc.PromptSelectAccount) {
		return false
	}
	if r.hint != "" && r.hint != s.subject {
		return false
	}
	return r.MaxAge == nil || now.Sub(s.authTime) < time.Duration(*r.MaxAge)*time.Second
}

func (r *authRequest) silent() bool { return slices.Contains(r.Prompt, oidc.PromptNone) }

// grant is a token request without a browser: an agent's own, or one in a person's name (op.TokenRequest,
// TokenActorRequest).
type grant struct {
	subject  string
	clientID string
	audience []string
	scopes   []string
	actor    *oidc.ActorClaims
	authTime time.Time
}

func (g *grant) GetSubject() string          { return g.subject }
func (g *grant) GetAudience() []string       { return g.audience }
func (g *grant) GetScopes() []string         { return g.scopes }
func (g *grant) GetActor() *oidc.ActorClaims { return g.actor }
func (g *grant) GetAuthTime() time.Time      { return g.authTime }

var (
	_ op.AuthRequest       = (*authRequest)(nil)
	_ op.TokenActorRequest = (*grant)(nil)
)
