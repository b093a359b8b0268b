package demoidp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"time"
)

// Person is somebody who can sign in. Subject is the sub claim and what the sign-in form sends.
type Person struct {
	Subject       string
	Name          string
	Email         string
	EmailVerified bool
	Groups        []string
	Password      string
	Disabled      bool
}

// Client is an application that may ask for tokens.
type Client struct {
	// ID is the client_id, and the sub of a client-credentials token. It must differ from every person's subject.
	ID string
	// Secret authenticates a confidential client, by Basic authentication or in the form.
	Secret string
	// RedirectURIs are compared exactly, save that a public client's loopback URI matches at any port (RFC 8252, 7.3).
	RedirectURIs []string
	// PostLogoutRedirectURIs are where /end_session may send the browser.
	PostLogoutRedirectURIs []string
	// Public marks a client that has no secret and proves itself by PKCE alone.
	Public bool
	// ClientCredentials lets the client ask for a token of its own.
	ClientCredentials bool
	// Audience is the aud of client-credentials and delegated tokens. Default: the client itself.
	Audience string
}

// Config is what a Provider needs.
type Config struct {
	// Addr is host:port to listen on. The host must be a loopback address or "localhost"; port 0 picks one.
	Addr string
	// Issuer is the provider's URL, without a path. Default: http://ADDR with the port that was picked.
	Issuer  string
	People  []Person
	Clients []Client
	// KeyFile holds the signing key as PKCS#8 in PEM: EC on P-256, or RSA. It is made (mode 0600) when missing.
	// Empty: a key in memory, and every token ends with the process.
	KeyFile string
	// Logger gets one line for each sign-in and refusal. Default: slog.Default().
	Logger *slog.Logger
	// Now gives auth_time, the expiry of access tokens, and the age of requests, codes and sessions. The library stamps
	// iat and the ID token by the system's clock. Default: time.Now.
	Now func() time.Time
	// TokenLifetime is how long ID and access tokens are valid. Default: 10 minutes.
	TokenLifetime time.Duration
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.TokenLifetime = cmp.Or(c.TokenLifetime, 10*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	errs := []error{checkLoopback(c.Addr)}
	if c.Issuer != "" {
		errs = append(errs, checkIssuer(c.Issuer))
	}
	if c.TokenLifetime < time.Second {
		errs = append(errs, fmt.Errorf("TokenLifetime is %s: at least 1s", c.TokenLifetime))
	}
	taken := map[string]bool{}
	for _, p := range c.People {
		errs = append(errs, claim(taken, "person", p.Subject))
		if p.Password == "" {
			errs = append(errs, fmt.Errorf("person %q has no Password", p.Subject))
		}
	}
	for _, client := range c.Clients {
		errs = append(errs, claim(taken, "client", client.ID), client.validate())
	}
	return errors.Join(errs...)
}

// One space of names for both: a client-credentials token must not pass for a person's.
func claim(taken map[string]bool, kind, id string) error {
	if id == "" {
		return fmt.Errorf("a %s has no id", kind)
	}
	if taken[id] {
		return fmt.Errorf("%s %q: the id is taken already, by a person or a client", kind, id)
	}
	taken[id] = true
	return nil
}

func (c Client) validate() error {
	switch {
	case c.Public && c.Secret != "":
		return fmt.Errorf("client %q is Public and has a Secret: choose one", c.ID)
	case c.Public && c.ClientCredentials:
		return fmt.Errorf("client %q is Public: ClientCredentials needs a Secret", c.ID)
	case !c.Public && c.Secret == "":
		return fmt.Errorf("client %q has no Secret and is not Public", c.ID)
	case len(c.RedirectURIs) == 0 && !c.ClientCredentials:
		return fmt.Errorf("client %q has neither RedirectURIs nor ClientCredentials: it could do nothing", c.ID)
	}
	for _, uri := range slices.Concat(c.RedirectURIs, c.PostLogoutRedirectURIs) {
		if u, err := url.Parse(uri); err != nil || u.Scheme == "" || u.Host == "" || u.Fragment != "" {
			return fmt.Errorf("client %q: %q is not an absolute URI without a fragment", c.ID, uri)
		}
	}
	return nil
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("Addr %q is not host:port: %w", addr, err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("Addr %q is not a loopback address: everybody knows the demo passwords, use 127.0.0.1", addr)
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("Issuer %q is not http(s)://host[:port] without a path", issuer)
	}
	return nil
}
