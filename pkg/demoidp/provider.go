package demoidp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Provider is a listening OpenID Connect provider. Its methods may be called at any time from any goroutine.
type Provider struct {
	issuer   string
	listener net.Listener
	storage  *storage
	op       *op.Provider
	log      *slog.Logger
	now      func() time.Time
}

// New checks the configuration, opens the key and listens, so that Issuer and Addr are known before Run serves.
// Whoever does not come to call Run calls Close.
func New(c Config) (*Provider, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("demo identity provider: %w", err)
	}
	key, err := openKey(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("demo identity provider: %w", err)
	}
	listener, err := listen(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("demo identity provider: %w", err)
	}
	p := &Provider{issuer: c.Issuer, listener: listener, storage: newStorage(c, key), log: c.Logger, now: c.Now}
	if p.issuer == "" {
		p.issuer = "http://" + p.Addr()
	}
	if p.op, err = newOP(p.issuer, p.storage); err != nil {
		return nil, fmt.Errorf("demo identity provider: issuer %s: %w", p.issuer, errors.Join(err, listener.Close()))
	}
	return p, nil
}

// listen looks again after the name was resolved: a hosts file can send localhost anywhere.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s is not a loopback address: use 127.0.0.1", l.Addr()), l.Close())
	}
	return l, nil
}

func newOP(issuer string, s *storage) (*op.Provider, error) {
	config := &op.Config{CodeMethodS256: true, AuthMethodPost: true, DefaultLogoutRedirectURI: signedOutPath,
		SupportedScopes: []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, scopeGroups},
		SupportedClaims: discoveryClaims}
	// The key seals authorization codes, which do not outlive the process.
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return nil, err
	}
	algorithm := string(s.key.algorithm)
	return op.NewProvider(config, s, op.StaticIssuer(issuer), op.WithAllowInsecure(),
		// No page of another origin has any business here; the library would allow all, with cookies.
		op.WithCORSOptions(nil),
		op.WithAccessTokenVerifierOpts(op.WithSupportedAccessTokenSigningAlgorithms(algorithm)),
		op.WithIDTokenHintVerifierOpts(op.WithSupportedIDTokenHintSigningAlgorithms(algorithm)))
}

// Run serves until ctx ends, then lets requests finish for up to five seconds.
func (p *Provider) Run(ctx context.Context) error {
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn)}
	newDrain(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(p.listener) }()
	p.log.InfoContext(ctx, "demo sign-in is open: never expose it", "issuer", p.issuer)
	select {
	case err := <-served:
		return fmt.Errorf("demo identity provider: serving on %s: %w", p.Addr(), err)
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(finish); err != nil {
		return fmt.Errorf("demo identity provider: requests were cut off: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// Close gives the address back when Run was never called.
func (p *Provider) Close() error { return p.listener.Close() }

// Issuer is the URL that tokens name as iss, and where discovery starts.
func (p *Provider) Issuer() string { return p.issuer }

// Addr is the host:port that the provider listens on.
func (p *Provider) Addr() string { return p.listener.Addr().String() }

// SetGroups replaces a person's groups, from the next ID token and at once at /userinfo. It fails when nobody has the
// subject.
func (p *Provider) SetGroups(subject string, groups ...string) error {
	return p.storage.people.change(subject, func(person *Person) { person.Groups = slices.Clone(groups) })
}

// Disable shuts a person out, or lets them in again. It fails when nobody has the subject.
func (p *Provider) Disable(subject string, disabled bool) error {
	return p.storage.people.change(subject, func(person *Person) { person.Disabled = disabled })
}

// MintDelegated signs an access token of which subject, a person, is the sub and actor, a client, is client_id and the
// act claim (RFC 8693, section 4.1): the token with which an agent acts in a person's name. Its aud is the actor's
// Audience. It says auth_time now, so that nothing but act tells it from a person's own.
func (p *Provider) MintDelegated(subject, actor string) (string, error) {
	client, ok := p.storage.clients[actor]
	if !ok {
		return "", fmt.Errorf("minting a delegated token: no client has the id %q", actor)
	}
	if _, ok := p.storage.people.active(subject); !ok {
		return "", fmt.Errorf("minting a delegated token: %q is not a person who can sign in", subject)
	}
	token, err := p.storage.mint(context.Background(), p.issuer, &grant{subject: subject, clientID: actor,
		audience: client.audience(), scopes: []string{oidc.ScopeOpenID}, authTime: p.now(),
		actor: &oidc.ActorClaims{Subject: actor}})
	if err != nil {
		return "", fmt.Errorf("minting a delegated token: %w", err)
	}
	return token, nil
}

// host is the issuer's name without its port.
func (p *Provider) host() string {
	u, err := url.Parse(p.issuer)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
