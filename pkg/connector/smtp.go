package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// Mailer is a connector of kind smtp: it hands messages to one mail server, each over a connection of its own. It is safe for
// concurrent use. It reads nothing: a mail server can be asked neither for a version nor for what it was handed.
//
// What is known of an attempt follows from the protocol's stage and not from an error's text (D6):
//
//	connecting, greeting, EHLO, TLS       no message was begun                                 not_sent
//	AUTH                                  5yz                                                  unauthorized
//	MAIL, RCPT, DATA                      5yz, 4yz; 530, 534, 535, 538                         refused, rejected_busy; unauthorized
//	the message, up to its last dot       cut: the server must drop it (RFC 5321, 4.1.1.10)    not_sent
//	                                      the server speaks: 5yz, 4yz; anything else           refused, rejected_busy; not_sent
//	the answer to the dot                 2yz, 4yz, 5yz                                        succeeded, rejected_busy, refused
//	                                      none, or nonsense                                    ambiguous
//
// Recipients are all or none: where one is refused, the message is given to nobody, so that no retry for the sake of one can reach
// another a second time.
type Mailer struct {
	declared   *config.Connector
	host       string // of the server
	url        string
	dialer     dialer
	operations map[string]*letter
	timeout    time.Duration
	config     Config
}

// NewMailer checks the declaration and compiles its templates. The error joins everything that is wrong.
func NewMailer(c Config) (*Mailer, error) {
	if c.Connector == nil || c.Connector.Mail == nil {
		return nil, errors.New("mailer: no declaration of a mail server given")
	}
	c.fill()
	m := &Mailer{declared: c.Connector, timeout: cmp.Or(c.Connector.Timeout, DefaultTimeout), config: c,
		operations: make(map[string]*letter, len(c.Connector.Operations))}
	if err := m.compile(); err != nil {
		return nil, fmt.Errorf("connector %q: %w", c.Connector.ID, err)
	}
	return m, nil
}

func (m *Mailer) compile() error {
	var c compiler
	server := m.declared.Mail
	host, port, err := net.SplitHostPort(server.Server)
	c.check(err == nil && host != "" && port != "", "the mail server %q is not host:port", server.Server)
	c.check(server.TLS == config.TLSStart || server.TLS == config.TLSImplicit || server.TLS == config.TLSNone, "tls %q is not known",
		server.TLS)
	c.check(server.TLS != config.TLSNone || isLoopbackName(host), "without TLS the server must be on the loopback interface")
	c.check(isMailbox(server.From), "the sender is not a bare mail address")
	c.check(server.Username.Set() == server.Password.Set(), "a login needs a user name and a password")
	c.check(m.timeout > 0 && m.declared.Concurrency >= 0, "timeout and concurrency must not be negative")
	m.host, m.url = host, server.Scheme()+"://"+server.Server
	allowed, err := newAllowList(m.declared.AllowedHosts, &url.URL{Scheme: server.Scheme(), Host: server.Server})
	if err != nil {
		c.errs = append(c.errs, err)
	}
	m.dialer = dialer{allowed: allowed, timeout: m.timeout, open: m.config.Dial}
	if m.config.TLS, err = withAuthorities(m.config.TLS, m.declared.CAFile, m.config.ReadFile); err != nil {
		c.errs = append(c.errs, err)
	}
	for _, op := range m.declared.Operations {
		c.check(m.operations[op.Name] == nil, "operation %q is declared twice", op.Name)
		compiled, err := compileLetter(op)
		if err != nil {
			c.errs = append(c.errs, fmt.Errorf("operation %q: %w", op.Name, err))
		}
		m.operations[op.Name] = compiled
	}
	return errors.Join(c.errs...)
}

// Declared is the declaration of an operation, as of a Connector.
func (m *Mailer) Declared(operation string) (*config.Operation, bool) {
	l, found := m.operations[operation]
	if !found {
		return nil, false
	}
	return l.declared, true
}

func (m *Mailer) operation(name string) (*letter, error) {
	l, found := m.operations[name]
	if !found {
		return nil, fmt.Errorf("connector %q declares no operation %q", m.declared.ID, name)
	}
	return l, nil
}

func (m *Mailer) unreadable(op Operation) error {
	return fmt.Errorf("read the target of %s from mail server %q: %w", op.Name, m.declared.ID, ErrNotDeclared)
}

// ReadTarget always errs with ErrNotDeclared.
func (m *Mailer) ReadTarget(_ context.Context, op Operation) (version string, found bool, err error) {
	return "", false, m.unreadable(op)
}

// ReadHeld always errs with ErrNotDeclared.
func (m *Mailer) ReadHeld(_ context.Context, op Operation) (Reading, error) {
	return Reading{}, m.unreadable(op)
}

// Reconcile is always unclear.
func (m *Mailer) Reconcile(context.Context, Operation) LookupResult {
	return unclear("lookup: %v", ErrNotDeclared)
}

// Verify is always unclear.
func (m *Mailer) Verify(_ context.Context, op Operation, _ string) LookupResult {
	return unclear("%v", m.unreadable(op))
}
