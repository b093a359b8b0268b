package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// newSender makes a channel ready.
func newSender(c *config.Channel) (sender, error) {
	if c.Kind == config.ChannelEmail {
		return newEmailSender(c)
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

// private: the configuration allows a connection without TLS to this machine alone.
func (s *emailSender) private() bool { return true }

func (s *emailSender) send(ctx context.Context, m *message) error {
	letter := mail.NewMsg()
	if err := letter.From(s.declared.From); err != nil {
		return fmt.Errorf("sender of the mail: %w", err)
	}
	if err := letter.To(m.Recipient); err != nil {
		return fmt.Errorf("recipient of the mail: %w", err)
	}
	letter.Subject(headings[m.Kind] + ": " + plainly(m.Asked.ActionType))
	letter.SetMessageIDWithValue(messageID(m, s.declared.From))
	letter.SetDate()
	letter.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic answers
	letter.SetBodyString(mail.TypeTextPlain, text(m))
	if err := s.client.DialAndSendWithContext(ctx, letter); err != nil {
		return fmt.Errorf("send mail by %s: %w", s.declared.Server, err)
	}
	return nil
}

// messageID is the same when a message is sent again, so that mailboxes can tell.
func messageID(m *message, from string) string {
	sum := sha256.Sum256([]byte(m.ID))
	_, domain, _ := strings.Cut(strings.TrimSuffix(from, ">"), "@")
	return "approval." + hex.EncodeToString(sum[:16]) + "@" + domain
}

// linking is what mail and chat programs make links of: a scheme, and a dot before a letter as in a domain.
var linking = regexp.MustCompile(`://|\.\pL`)

// unlinked breaks what would become a link: the only one in a message is ours, and who trusts the message trusts it.
func unlinked(text string) string {
	return linking.ReplaceAllStringFunc(text, func(found string) string {
		if found == "://" {
			return "⟦://⟧"
		}
		return "⟦.⟧" + found[1:]
	})
}

// headings say why a message comes.
var headings = map[string]string{
	ledger.NoticeRequest:    "A decision is waiting for you",
	ledger.NoticeReminder:   "A decision is still waiting for you",
	ledger.NoticeEscalation: "Nobody has decided yet, and you may",
}

// text is the same for every kind of message. What an event wrote is shown as the pages show it: nothing in it is invisible.
func text(m *message) string {
	return fmt.Sprintf(`%s at Holdpoint.

  What        %s
  For         %s
  Reference   %s
  Tenant      %s
  Decide by   %s

%s

The link shows the request after you have signed in. Opening it decides nothing. If somebody else has
decided in the meantime, it says so.
`, headings[m.Kind], plainly(m.Asked.ActionType), strings.Join(m.Asked.Audience, ", "), unlinked(plainly(m.Asked.CorrelationID)), m.Tenant,
		m.Asked.DecideBy.UTC().Format(time.RFC1123), m.Link)
}
