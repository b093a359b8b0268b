package demoidp

import (
	"context"
	"net/http"
	"net/url"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	httphelper "github.com/zitadel/oidc/v3/pkg/http"
)

const (
	loginPath     = "/login"
	stylePath     = "/style.css"
	signedOutPath = "/signed-out"
	mostBody      = 64 << 10
)

// handler offers the endpoints of this provider and no other of the library's: no introspection, revocation or device
// grant.
func (p *Provider) handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/authorize", "/authorize/callback", "/oauth/token", "/userinfo", "/keys"} {
		mux.Handle(path, p.op)
	}
	mux.HandleFunc("GET "+oidc.DiscoveryEndpoint, p.discovery)
	mux.HandleFunc("/end_session", p.endSession)
	mux.HandleFunc("GET "+loginPath, p.showLogin)
	mux.Handle("POST "+loginPath, http.NewCrossOriginProtection().Handler(http.HandlerFunc(p.login)))
	mux.HandleFunc("GET "+signedOutPath, p.signedOut)
	mux.HandleFunc("GET "+stylePath, serveStyle)
	return p.onlyOwnHost(http.MaxBytesHandler(mux, mostBody))
}

// onlyOwnHost refuses a Host that a page elsewhere has pointed at this machine (DNS rebinding).
func (p *Provider) onlyOwnHost(next http.Handler) http.Handler {
	own := p.host()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := url.URL{Host: r.Host}
		if host := u.Hostname(); !isLoopback(host) && host != own {
			http.Error(w, "This demo sign-in answers on this machine only.", http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// discovery says what is offered; the library's own answer names the implicit flow and endpoints that are not.
func (p *Provider) discovery(w http.ResponseWriter, r *http.Request) {
	ctx := op.ContextWithIssuer(r.Context(), p.issuer)
	c := op.CreateDiscoveryConfig(ctx, p.op, p.storage)
	c.ResponseTypesSupported = []string{string(oidc.ResponseTypeCode)}
	c.GrantTypesSupported = []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeClientCredentials}
	c.IntrospectionEndpoint, c.RevocationEndpoint, c.DeviceAuthorizationEndpoint = "", "", ""
	c.IntrospectionEndpointAuthMethodsSupported, c.RevocationEndpointAuthMethodsSupported = nil, nil
	c.IntrospectionEndpointAuthSigningAlgValuesSupported, c.RevocationEndpointAuthSigningAlgValuesSupported = nil, nil
	httphelper.MarshalJSON(w, c)
}

// endSession tells the storage which browser asks; the library passes on only whom an id_token_hint names.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		r = r.WithContext(context.WithValue(r.Context(), endingSession{}, cookie.Value))
	}
	p.op.ServeHTTP(w, r)
}
