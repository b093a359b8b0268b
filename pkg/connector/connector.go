package connector

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// Defaults for what a declaration leaves open.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxResponse = 1 << 20
	DefaultConcurrency = 16
	// idleTimeout is below the keep-alive time of most servers, so that we, not they, end an idle connection.
	idleTimeout = 30 * time.Second
	maxHeader   = 64 << 10 // of an answer, in bytes
)

// ErrUnavailable is in the errors of calls that ended before anything was sent because the system, or its token server, could not be
// reached or did not do its part. Of what ended for a reason on our side, it is not (D11).
var ErrUnavailable = errors.New("the system is not available")

// Config is what a Connector needs.
type Config struct {
	Connector *config.Connector
	// Env reads an environment variable, ReadFile a file, at each call; nil is the process's own.
	Env      func(name string) string
	ReadFile func(name string) ([]byte, error)
	// Dial opens TCP connections in place of a net.Dialer. The allow-list is checked before and after it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the base of the TLS settings; nil trusts the system's certificate authorities. The connector's ca_file adds to them.
	TLS   *tls.Config
	Clock func() time.Time
}

// fill takes the process's own for what is left out.
func (c *Config) fill() {
	if c.Env == nil {
		c.Env = os.Getenv
	}
	if c.ReadFile == nil {
		c.ReadFile = os.ReadFile
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
}

// Connector calls one external system. It is safe for concurrent use and keeps connections open between calls.
type Connector struct {
	declared    *config.Connector
	base        *url.URL
	allowed     *allowList
	operations  map[string]*operation
	transport   *http.Transport
	credential  credential
	open        context.Context // until Close
	cancel      context.CancelFunc
	timeout     time.Duration
	maxResponse int64
	config      Config
}

// New checks the declaration and compiles its templates. The error joins everything that is wrong.
func New(c Config) (*Connector, error) {
	if c.Connector == nil {
		return nil, errors.New("connector: no declaration given")
	}
	c.fill()
	declared := c.Connector
	k := &Connector{
		declared:    declared,
		timeout:     cmp.Or(declared.Timeout, DefaultTimeout),
		maxResponse: cmp.Or(declared.MaxResponse, DefaultMaxResponse),
		config:      c,
	}
	k.open, k.cancel = context.WithCancel(context.Background())
	if err := k.compile(); err != nil {
		k.cancel()
		return nil, fmt.Errorf("connector %q: %w", declared.ID, err)
	}
	k.transport = k.newTransport()
	return k, nil
}

func (k *Connector) compile() error {
	var errs []error
	var err error
	if k.base, err = baseURL(k.declared); err != nil {
		return err
	}
	if k.allowed, err = newAllowList(k.declared.AllowedHosts, k.base); err != nil {
		errs = append(errs, err)
	}
	if k.config.TLS, err = withAuthorities(k.config.TLS, k.declared.CAFile, k.config.ReadFile); err != nil {
		errs = append(errs, err)
	}
	if k.credential, err = k.newCredential(); err != nil {
		errs = append(errs, err)
	}
	if k.timeout < 0 || k.maxResponse < 0 || k.declared.Concurrency < 0 {
		errs = append(errs, errors.New("timeout, largest response and concurrency must not be negative"))
	}
	k.operations = make(map[string]*operation, len(k.declared.Operations))
	for _, declared := range k.declared.Operations {
		compiled, err := compileOperation(declared)
		if err != nil {
			errs = append(errs, fmt.Errorf("operation %q: %w", declared.Name, err))
		}
		if k.operations[declared.Name] != nil {
			errs = append(errs, fmt.Errorf("operation %q is declared twice", declared.Name))
		}
		k.operations[declared.Name] = compiled
	}
	return errors.Join(errs...)
}

// baseURL reads the base URL and refuses one that would carry a credential in clear text over a network.
func baseURL(declared *config.Connector) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(declared.BaseURL, "/"))
	if err != nil {
		return nil, errors.New("the base URL cannot be read") // url.Error would repeat a password in it
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the base URL must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("the base URL names no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the base URL must not hold credentials, a query or a fragment")
	case u.Scheme == "http" && declared.Credential() != "" && !isLoopbackName(u.Hostname()):
		return nil, errors.New("a credential needs https:// unless the host is the loopback interface")
	}
	return u, nil
}

// Close drops idle connections and ends what goes on beside calls.
func (k *Connector) Close() {
	k.cancel()
	k.transport.CloseIdleConnections()
}

// Declared is the declaration of an operation, for what callers decide by it: key window, replay, index lag (D13).
func (k *Connector) Declared(operation string) (*config.Operation, bool) {
	op, found := k.operations[operation]
	if !found {
		return nil, false
	}
	return op.declared, true
}

func (k *Connector) operation(name string) (*operation, error) {
	op, found := k.operations[name]
	if !found {
		return nil, fmt.Errorf("connector %q declares no operation %q", k.declared.ID, name)
	}
	return op, nil
}
