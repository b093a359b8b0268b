package demoidp

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net/url"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// registered is a Client as the library sees it (op.Client).
type registered struct {
	Client
	lifetime time.Duration
}

func (c *registered) GetID() string                       { return c.ID }
func (c *registered) RedirectURIs() []string              { return c.Client.RedirectURIs }
func (c *registered) PostLogoutRedirectURIs() []string    { return c.Client.PostLogoutRedirectURIs }
func (c *registered) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (c *registered) IDTokenLifetime() time.Duration      { return c.lifetime }
func (c *registered) DevMode() bool                       { return false }
func (c *registered) ClockSkew() time.Duration            { return 0 }
func (c *registered) LoginURL(id string) string           { return loginPath + "?id=" + url.QueryEscape(id) }
func (c *registered) IsScopeAllowed(scope string) bool    { return scope == scopeGroups }

// IDTokenUserinfoClaimsAssertion puts name and email into the ID token itself.
func (c *registered) IDTokenUserinfoClaimsAssertion() bool { return true }

// ApplicationType native is what makes the library ignore the port of a loopback redirect (RFC 8252, section 7.3).
func (c *registered) ApplicationType() op.ApplicationType {
	if c.Public {
		return op.ApplicationTypeNative
	}
	return op.ApplicationTypeWeb
}

func (c *registered) AuthMethod() oidc.AuthMethod {
	if c.Public {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (c *registered) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (c *registered) GrantTypes() []oidc.GrantType {
	var grants []oidc.GrantType
	if len(c.Client.RedirectURIs) > 0 {
		grants = append(grants, oidc.GrantTypeCode)
	}
	if c.ClientCredentials {
		grants = append(grants, oidc.GrantTypeClientCredentials)
	}
	return grants
}

func (c *registered) RestrictAdditionalIdTokenScopes() func([]string) []string     { return sameScopes }
func (c *registered) RestrictAdditionalAccessTokenScopes() func([]string) []string { return sameScopes }

func sameScopes(scopes []string) []string { return scopes }

func (c *registered) audience() []string { return []string{cmp.Or(c.Audience, c.ID)} }

// secretIs compares in constant time. A public client has no secret, and so none that fits.
func (c *registered) secretIs(secret string) bool {
	got, want := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(c.Secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && !c.Public
}
