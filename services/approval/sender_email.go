package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// newSender makes a channel ready.
func newSender(c *config.Channel) (sender, error) {
	switch c.Kind {
	case config.ChannelEmail:
		return newEmailSender(c)
	case config.ChannelSlack:
		return newChatSender(c, slackMessage, slackTook)
	case config.ChannelTeams:
		return newChatSender(c, teamsMessage, nil)
	}
	return newWebhookSender(c)
}

// emailSender sends plain text to each address by itself: each has a token of its own.
type emailSender struct {
	declared *config.Email
	client   *mail.Client
}

func newEmailSender(c *config.Channel) (*emailSender, error) {
	host, port, err := net.SplitHostPort(c.Email.Server)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: %w", c.Email.Server, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: its port is no number", c.Email.Server)
	}
	options := []mail.Option{mail.WithPort(number), mail.WithTimeout(c.Timeout), mail.WithTLSPolicy(mail.TLSMandatory)}
	switch c.Email.TLS {
	case config.TLSNone:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case config.TLSImplicit:
		options = append(options, mail.WithSSL())
	}
	if c.Email.UsernameEnv != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(os.Getenv(c.Email.UsernameEnv)),
			mail.WithPassword(os.Getenv(c.Email.PasswordEnv)))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("mail client: %w", err)
	}
	return &emailSender{declared: c.Email, client: client}, nil
}

func (s *emailSender) recipients() []string { return s.declared.To }

// private: a mailbox is a person's, and the configuration allows a connection without TLS to this machine alone.
func (s *emailSender) private() bool { return true }

func (s *emailSender) send(ctx context.Context, m *message) error {
	letter := mail.NewMsg()
	if err := letter.From(s.declared.From); err != nil {
		return fmt.Errorf("sender of the mail: %w", err)
	}
	if err := letter.To(m.Recipient); err != nil {
		return fmt.Errorf("recipient of the mail: %w", err)
	}
	letter.Subject(s.subject(m))
	letter.SetMessageIDWithValue(messageID(m, s.declared.From))
	letter.SetDate()
	letter.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic answers
	letter.SetBodyString(mail.TypeTextPlain, s.body(m))
	if err := s.client.DialAndSendWithContext(ctx, letter); err != nil {
		return fmt.Errorf("send mail by %s: %w", s.declared.Server, err)
	}
	return nil
}

func (s *emailSender) subject(m *message) string {
	if s.declared.Template != nil && m.ownWords() && s.declared.Template.Subject != "" {
		if line, err := config.RenderMessage(s.declared.Template.Subject, mailFields(m)); err == nil {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return headings[m.Kind] + ": " + plainly(m.Asked.ActionType)
}

func mailFields(m *message) *config.MessageFields {
	fields := m.fields()
	fields.CorrelationID = aloud(m.Asked.CorrelationID)
	return fields
}

// body falls back on the usual words: somebody who is not told at all is worse off.
func (s *emailSender) body(m *message) string {
	if s.declared.Template != nil && m.ownWords() && s.declared.Template.Text != "" {
		if body, err := config.RenderMessage(s.declared.Template.Text, mailFields(m)); err == nil {
			return body + "\n"
		}
	}
	return text(m)
}

// messageID is the same when a message is sent again, so that mailboxes can tell.
func messageID(m *message, from string) string {
	sum := sha256.Sum256([]byte(m.ID))
	_, domain, _ := strings.Cut(strings.TrimSuffix(from, ">"), "@")
	return "approval." + hex.EncodeToString(sum[:16]) + "@" + domain
}
