package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-smtp"
)

// Limits of the mail server.
const (
	mailBytes      = 1 << 20     // header and body of one message
	mailRecipients = 50          // of one message
	mailIdle       = time.Minute // from a command to the end of the next one, or of the message
)

// newMailServer makes a server that takes mail for everybody from everybody and hands it on to nobody.
func (s *Server) newMailServer() *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &delivery{server: s, conn: c.Conn()}, nil
	}))
	server.Domain = "sandbox.localhost"
	server.MaxMessageBytes, server.MaxRecipients = mailBytes, mailRecipients
	server.ReadTimeout, server.WriteTimeout = mailIdle, mailIdle
	server.EnableSMTPUTF8 = true // everything is kept as the bytes it came in
	server.ErrorLog = mailLog{s.cfg.Logger}
	return server
}

// mailLog writes what the mail server finds odd to our log. A client that hangs up is one such thing.
type mailLog struct{ log *slog.Logger }

func (l mailLog) Printf(format string, v ...any) {
	l.log.Warn("mail server", "error", fmt.Sprintf(format, v...))
}

func (l mailLog) Println(v ...any) {
	l.log.Warn("mail server", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

// stopMail ends the mail server at once. A client whose message is under way gets no answer, as from any mail server
// that is restarted; what was answered is on disk. The listener is closed by hand as well, because go-smtp does not know
// of one that it has not begun to serve.
func (s *Server) stopMail() error {
	err := s.smtp.Close()
	if closeErr := s.smtpListener.Close(); !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	if err != nil {
		return fmt.Errorf("stop the sandbox's mail server: %w", err)
	}
	return nil
}

// delivery is one connection to the mail server, and the message that is under way on it.
type delivery struct {
	server *Server
	conn   net.Conn

	from string
	to   []string
	plan plan // of all accepted recipients together
}

// errCut is returned where the connection is gone and nobody hears the answer.
var errCut = errors.New("the fault plan cut the connection")

// Mail begins a message.
func (d *delivery) Mail(from string, _ *smtp.MailOptions) error {
	d.Reset()
	d.from = from
	return nil
}

// Rcpt makes the fault plan of one recipient. Faults before acceptance act on this recipient alone.
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	p := d.server.rules.plan(call{system: Mailbox, operation: Deliver, reference: strings.ToLower(to)})
	if fault := p.before; fault != nil {
		return d.misbehave(fault)
	}
	d.to = append(d.to, to)
	d.plan.delay += p.delay
	d.plan.signals = append(d.plan.signals, p.signals...)
	if p.after != nil {
		d.plan.after = first(d.plan.after, p.after)
	}
	return nil
}

// Data stores the message and returns, which is the 250, once it is on disk.
func (d *delivery) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err // too large, or the client is gone
	}
	d.server.pause(d.plan.delay)
	stored := entry[letter]{Item: letter{
		ReceivedAt: d.server.cfg.Now().UTC(), From: d.from, To: d.to,
		MessageID: messageIDOf(raw), Size: len(raw), Raw: raw,
	}}
	if stored.ID, err = d.server.inbox.mail.put(stored.Item); err != nil {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: err.Error()}
	}
	d.server.signal(d.plan.signals, stored.Item.MessageID, showMail(stored))
	if d.plan.after != nil {
		return d.misbehave(d.plan.after)
	}
	return nil
}

// misbehave answers with the fault's error, or cuts the connection, at once or after hanging.
func (d *delivery) misbehave(fault *Fault) error {
	switch fault.Kind {
	case HangBeforeAccept, AcceptThenHang:
		// SMTP waits for its answer without reading, so that a client's hanging up goes unnoticed here.
		d.server.hang(context.Background(), fault)
	case ResetBeforeAccept, AcceptThenReset, TruncateBody:
	default:
		p := fault.problem(mailStatus(fault), "injected_error")
		return &smtp.SMTPError{Code: p.status, Message: oneLine(p.message)}
	}
	cut(d.conn)
	return errCut
}

// mailStatus is the reply code of a fault: its status where SMTP has such errors, else the temporary 451.
func mailStatus(fault *Fault) int {
	if fault.Status >= 400 && fault.Status < 600 {
		return fault.Status
	}
	return 451
}

// Reset forgets the message under way.
func (d *delivery) Reset() { d.from, d.to, d.plan = "", nil, plan{} }

// Logout has nothing to give back.
func (d *delivery) Logout() error { return nil }
