package connector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// maxTalk bounds what a mail server says on one connection, certificates included, in bytes.
const maxTalk = 256 << 10

var errTalkative = fmt.Errorf("the server said more than %d bytes", maxTalk)

// session is a connection to a mail server that is ready for one message.
type session struct {
	*smtp.Client
	wire *meter
	stop func() bool // of what ends it with its context
}

// capped ends a connection that says too much.
type capped struct {
	net.Conn
	left int
}

func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTalkative
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// open connects, greets, turns to TLS and logs in. Whatever fails of it, no message was begun.
func (m *Mailer) open(ctx context.Context) (*session, *Result) {
	wire, err := m.dialer.dial(ctx, "tcp", m.declared.Mail.Server)
	if err != nil {
		return nil, unavailable("connect", err)
	}
	wire.Conn = &capped{wire.Conn, maxTalk}
	s := &session{wire: wire, stop: context.AfterFunc(ctx, func() { wire.Close() })}
	deadline, _ := ctx.Deadline()
	_ = wire.SetDeadline(deadline) // one that has ended already errs, and so does what follows
	failed := m.begin(ctx, s)
	if failed == nil {
		failed = m.login(s)
	}
	if failed != nil {
		s.close()
		return nil, failed
	}
	return s, nil
}

// begin takes the connection to where a message may be begun, in TLS but for a server on this machine.
func (m *Mailer) begin(ctx context.Context, s *session) *Result {
	var line net.Conn = s.wire
	settings := clientTLS(m.config.TLS, m.host)
	mode := m.declared.Mail.TLS
	if mode == config.TLSImplicit {
		secure := tls.Client(line, settings)
		if err := secure.HandshakeContext(ctx); err != nil {
			return unavailable("TLS handshake", err)
		}
		line = secure
	}
	var err error
	if s.Client, err = smtp.NewClient(line, m.host); err != nil {
		return unavailable("greeting", err)
	}
	s.SkipSMTPUTF8(true) // addresses are ASCII
	if err := s.Hello(domainOf(m.declared.Mail.From)); err != nil {
		return unavailable("EHLO", err)
	}
	if mode != config.TLSStart {
		return nil
	}
	if offered, _ := s.Extension("STARTTLS"); !offered {
		return unavailable("STARTTLS", errors.New("the server does not offer it, and nothing is sent without"))
	}
	if err := s.StartTLS(settings); err != nil {
		return unavailable("STARTTLS", err)
	}
	return nil
}

// login proves who we are. What the server says to it is not repeated: it may hold what it was sent.
func (m *Mailer) login(s *session) *Result {
	server := m.declared.Mail
	if !server.Username.Set() {
		return nil
	}
	username, err := m.config.secret("user name", server.Username)
	if err != nil {
		return gaveUp(err)
	}
	password, err := m.config.secret("password", server.Password)
	if err != nil {
		return gaveUp(err)
	}
	if username == "" || password == "" {
		return gaveUp(fmt.Errorf("the user name in %s or the password in %s is missing", place(server.Username), place(server.Password)))
	}
	_, offered := s.Extension("AUTH")
	way := m.mechanism(strings.Fields(offered), username, password)
	if way == nil {
		return unavailable("AUTH", errors.New("the server offers none of PLAIN, LOGIN and SCRAM-SHA-256"))
	}
	if err = s.Auth(way); err == nil {
		return nil
	}
	if code := replyCode(err); code > 0 {
		return refusal("AUTH", &textproto.Error{Code: code})
	}
	if transport := net.Error(nil); !errors.As(err, &transport) && !errors.Is(err, io.EOF) {
		err = errors.New("the server's answer makes no sense")
	}
	return unavailable("AUTH", err)
}

// mechanism is nil where the server offers none that is known.
func (m *Mailer) mechanism(offered []string, username, password string) smtp.Auth {
	plain := m.declared.Mail.TLS == config.TLSNone // on this machine
	switch {
	case slices.Contains(offered, "PLAIN"):
		return smtp.PlainAuth("", username, password, m.host, plain)
	case slices.Contains(offered, "LOGIN"):
		return smtp.LoginAuth(username, password, m.host, plain)
	case slices.Contains(offered, "SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(username, password)
	}
	return nil
}

// close ends the connection. A message that was not ended by its dot is dropped by the server.
func (s *session) close() {
	s.stop()
	_ = s.wire.Close()
}

// leave is polite where the message was taken or given up; nobody waits for the answer.
func (s *session) leave(word string) {
	_ = s.wire.SetDeadline(time.Now().Add(time.Second))
	_ = s.Text.Writer.PrintfLine("%s", word)
}
