package demoidp

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const scopeGroups = "groups"

var discoveryClaims = []string{"sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "amr", "azp", "client_id",
	"name", "preferred_username", "email", "email_verified", "groups"}

// CreateAccessToken gives a token its jti and expiry, unless the person has been disabled since the password was typed.
func (s *storage) CreateAccessToken(_ context.Context, r op.TokenRequest) (string, time.Time, error) {
	if _, isPerson := r.(*authRequest); isPerson {
		if _, ok := s.people.active(r.GetSubject()); !ok {
			return "", time.Time{}, oidc.ErrInvalidGrant().WithDescription("this person cannot sign in")
		}
	}
	return rand.Text(), s.now().Add(s.lifetime), nil
}

// GetPrivateClaimsFromRequest adds to an access token what the library leaves out: scope and auth_time (RFC 9068, 2.2).
func (s *storage) GetPrivateClaimsFromRequest(_ context.Context, r op.TokenRequest, _ []string,
) (map[string]any, error) {
	// A client may ask for a token without scopes; the claim is there all the same, since it tells from an ID token.
	claims := map[string]any{"scope": strings.Join(r.GetScopes(), " ")}
	if timed, ok := r.(interface{ GetAuthTime() time.Time }); ok && !timed.GetAuthTime().IsZero() {
		claims["auth_time"] = timed.GetAuthTime().Unix()
	}
	return claims, nil
}

// SetUserinfoFromRequest fills the ID token.
func (s *storage) SetUserinfoFromRequest(_ context.Context, u *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	return s.describe(u, r.GetSubject())
}

// SetUserinfoFromToken answers /userinfo with what is true now. The library has proved the token; one without a jti is
// an ID token, which opens nothing.
func (s *storage) SetUserinfoFromToken(_ context.Context, u *oidc.UserInfo, tokenID, subject, _ string) error {
	if tokenID == "" {
		return oidc.ErrAccessDenied().WithDescription("an ID token is not an access token")
	}
	return s.describe(u, subject)
}

func (s *storage) describe(u *oidc.UserInfo, subject string) error {
	person, ok := s.people.active(subject)
	if !ok {
		return oidc.ErrAccessDenied().WithDescription("the subject is not a person who can sign in")
	}
	u.Subject = person.Subject
	u.Name, u.PreferredUsername = person.Name, person.Subject
	u.Email, u.EmailVerified = person.Email, oidc.Bool(person.EmailVerified)
	u.AppendClaims("groups", append([]string{}, person.Groups...))
	return nil
}

// mint signs an access token outside any request over HTTP.
func (s *storage) mint(ctx context.Context, issuer string, g *grant) (string, error) {
	client, ok := s.clients[g.clientID]
	if !ok {
		return "", errUnknownClient
	}
	return op.CreateJWT(ctx, issuer, g, s.now().Add(s.lifetime), rand.Text(), client, s)
}

// What the library may ask of a storage, but only for endpoints and grants that this provider does not offer.

var errNotOffered = errors.New("not offered by the demo provider")

func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string,
) (string, string, time.Time, error) {
	return "", "", time.Time{}, errNotOffered
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, errNotOffered
}

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) RevokeToken(context.Context, string, string, string) *oidc.Error {
	return oidc.ErrServerError().WithParent(errNotOffered)
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string,
) error {
	return errNotOffered
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotOffered
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotOffered
}

// The two that the library has deprecated in favour of the …FromRequest forms; it still calls the first.

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}
