package connector

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector/tlstest"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// certified has an office speak TLS: after STARTTLS, or from the first byte.
func certified(cert tls.Certificate, mode string) opening {
	return func(o *office, s *smtp.Server) {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		o.implicit = mode == config.TLSImplicit
	}
}

func oldTLS(_ *office, s *smtp.Server) {
	s.TLSConfig.MinVersion, s.TLSConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS10
}

// securely has a mailer speak TLS and trust an authority.
func securely(mode string, a *tlstest.Authority) func(*Config) {
	return func(c *Config) {
		c.Connector.Mail.TLS = mode
		if a != nil {
			c.Connector.CAFile = a.File
		}
	}
}

func loggingIn(c *Config) {
	c.Connector.Mail.Username, c.Connector.Mail.Password = config.SecretRef{Env: "MAIL_USER"}, config.SecretRef{Env: "MAIL_PASSWORD"}
}

func TestMailTLS(t *testing.T) {
	t.Parallel()
	ours := tlstest.New(t)
	for _, mode := range []string{config.TLSStart, config.TLSImplicit} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for _, row := range []struct {
				name   string
				cert   tls.Certificate
				trust  *tlstest.Authority
				detail string // "" where the message is taken
				more   opening
			}{
				{"ACertificateOfOurAuthorityIsGood", ours.Loopback(), ours, "", nil},
				{"AnAuthorityThatNobodyKnowsIsNot", ours.Loopback(), nil, "unknown authority", nil},
				{"AnotherAuthorityIsNot", ours.Loopback(), tlstest.New(t), "unknown authority", nil},
				{"ACertificateThatVouchesForItselfIsNot", tlstest.SelfSigned(t), ours, "certificate", nil},
				{"ACertificateThatHasExpiredIsNot", ours.Loopback(tlstest.Expired), ours, "expired", nil},
				{"ACertificateOfAnotherHostIsNot", ours.Loopback(tlstest.Elsewhere), ours, "127.0.0.1", nil},
				{"TLSOfOldIsNot", ours.Loopback(), ours, "protocol version", oldTLS},
			} {
				t.Run(row.name, func(t *testing.T) {
					t.Parallel()
					settings := []opening{certified(row.cert, mode)}
					if row.more != nil {
						settings = append(settings, row.more)
					}
					o := openOffice(t, settings...)
					m := mailer(t, o, securely(mode, row.trust))
					result := m.Execute(t.Context(), m.letter(t, toRita), allow)
					if row.detail == "" {
						require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
						require.Len(t, o.taken(), 1)
						return
					}
					require.Equal(t, outcome.NotSent, result.Class, result.Detail)
					require.ErrorIs(t, result.Err, ErrUnavailable)
					require.Contains(t, result.Detail, row.detail)
					require.Empty(t, o.taken())
				})
			}
		})
	}

	t.Run("WhereSTARTTLSIsNotOfferedNothingIsSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o, securely(config.TLSStart, ours), loggingIn)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "does not offer it")
		require.NotContains(t, o.said(), "AUTH")
		require.NotContains(t, o.said(), "MAIL")
	})

	t.Run("WhereSTARTTLSIsRefusedNothingIsSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t, certified(ours.Loopback(), config.TLSStart), with(disturbance{"STARTTLS", "454 4.7.0 not now"}))
		m := mailer(t, o, securely(config.TLSStart, ours))
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "454")
		require.NotContains(t, o.said(), "MAIL")
	})

	t.Run("AnAuthorityThatCannotBeReadIsSaidAtTheStart", func(t *testing.T) {
		t.Parallel()
		for file, says := range map[string]string{"/no/such/file": "read the certificate authorities", "smtp_secure_test.go": "holds no certificate"} {
			declared := letters("127.0.0.1:25")
			declared.CAFile = file
			_, err := NewMailer(Config{Connector: declared})
			require.ErrorContains(t, err, says)
			declared = declaration("https://127.0.0.1:1")
			declared.CAFile = file
			_, err = New(Config{Connector: declared})
			require.ErrorContains(t, err, says)
		}
	})
}

func TestMailLogin(t *testing.T) {
	t.Parallel()
	ours := tlstest.New(t)
	setup := func(t *testing.T, password string, changes ...func(*Config)) (*office, Result) {
		o := openOffice(t, certified(ours.Loopback(), config.TLSStart), func(o *office, _ *smtp.Server) {
			o.username, o.password = "holdpoint", password
		})
		m := mailer(t, o, append([]func(*Config){securely(config.TLSStart, ours), loggingIn}, changes...)...)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.NotContains(t, result.Detail, "s3cret-word", "whatever the server repeats")
		if result.Err != nil {
			require.NotContains(t, result.Err.Error(), "s3cret-word")
		}
		return o, result
	}

	t.Run("WhoLogsInIsServed", func(t *testing.T) {
		t.Parallel()
		o, result := setup(t, "s3cret-word")
		require.Equal(t, outcome.Succeeded, result.Class, result.Detail)
		require.Len(t, o.taken(), 1)
	})

	t.Run("AWrongPasswordIsUnauthorized", func(t *testing.T) {
		t.Parallel()
		o, result := setup(t, "another")
		require.Equal(t, outcome.Unauthorized, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.Empty(t, o.taken())
	})

	t.Run("ALoginThatIsNeededAndNotDeclaredIsUnauthorized", func(t *testing.T) {
		t.Parallel()
		o, result := setup(t, "s3cret-word", func(c *Config) {
			c.Connector.Mail.Username, c.Connector.Mail.Password = config.SecretRef{}, config.SecretRef{}
		})
		require.Equal(t, outcome.Unauthorized, result.Class, result.Detail)
		require.Empty(t, o.taken())
	})

	for name, change := range map[string]func(*Config){
		"APasswordThatIsMissing": func(c *Config) { c.Connector.Mail.Password.Env = "NO_SUCH" },
		"APasswordThatCannotBeRead": func(c *Config) {
			c.Connector.Mail.Password = config.SecretRef{File: "/run/secrets/mail"}
			read := c.ReadFile
			c.ReadFile = func(name string) ([]byte, error) {
				if name == "/run/secrets/mail" || read == nil {
					return nil, fs.ErrNotExist
				}
				return read(name)
			}
			c.Connector.CAFile = ""
		},
	} {
		t.Run(name+"IsNotSent", func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			m := mailer(t, o, loggingIn, change)
			result := m.Execute(t.Context(), m.letter(t, toRita), allow)
			require.Equal(t, outcome.NotSent, result.Class)
			require.False(t, errors.Is(result.Err, ErrUnavailable), "it says nothing about the server")
			require.NotContains(t, o.said(), "MAIL")
		})
	}

	for name, row := range map[string]struct {
		answer string
		class  outcome.Class
	}{
		"ABusyLogin":          {"454 4.7.0 later", outcome.RejectedBusy},
		"AnUnknownMechanism":  {"504 5.5.4 which", outcome.Unauthorized},
		"ALoginThatIsCut":     {"cut", outcome.NotSent},
		"ALoginWithNoEndOfIt": {"334 not base64!", outcome.NotSent},
	} {
		t.Run(name+"IsClassified", func(t *testing.T) {
			t.Parallel()
			o := openOffice(t, with(disturbance{"AUTH", row.answer}), func(o *office, _ *smtp.Server) {
				o.username, o.password = "holdpoint", "s3cret-word"
			})
			m := mailer(t, o, loggingIn)
			result := m.Execute(t.Context(), m.letter(t, toRita), allow)
			require.Equal(t, row.class, result.Class, result.Detail)
			require.Empty(t, o.taken())
			require.NotContains(t, result.Detail, "c3Nj", "nor the password in base64")
		})
	}

	t.Run("WhereNoLoginIsOfferedNothingIsSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o, loggingIn)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "offers none of")
		require.NotContains(t, o.said(), "MAIL")
	})
}

func TestMailDeclarations(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Connector){
		"NoServer":            func(c *config.Connector) { c.Mail = nil },
		"AServerWithoutAPort": func(c *config.Connector) { c.Mail.Server = "mail.example.com" },
		"ClearTextToAnother":  func(c *config.Connector) { c.Mail.Server = "mail.example.com:25" },
		"AnUnknownTLS":        func(c *config.Connector) { c.Mail.TLS = "maybe" },
		"AHostileSender":      func(c *config.Connector) { c.Mail.From = "Rita <rita@example.com>" },
		"HalfALogin":          func(c *config.Connector) { c.Mail.Username.Env = "X" },
		"AHostNotAllowed":     func(c *config.Connector) { c.AllowedHosts = []string{"elsewhere.example"} },
		"ALookup":             func(c *config.Connector) { c.Operations[0].Lookup = &config.Lookup{} },
		"AKey":                func(c *config.Connector) { c.Operations[0].IdempotencyHeader = "Message-ID" },
		"AnUpdate":            func(c *config.Connector) { c.Operations[0].Kind = config.OperationUpdate },
		"NoMessage":           func(c *config.Connector) { c.Operations[0].Mail = nil },
		"NoRecipients":        func(c *config.Connector) { c.Operations[0].Mail.To = nil },
		"AnUnknownRoot":       func(c *config.Connector) { c.Operations[0].Mail.Subject = "${secrets.all}" },
		"TwoOfOneName":        func(c *config.Connector) { c.Operations = append(c.Operations, c.Operations[0]) },
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			declared := letters("127.0.0.1:25")
			change(declared)
			_, err := NewMailer(Config{Connector: declared})
			require.Error(t, err)
		})
	}

	t.Run("NothingCanBeRead", func(t *testing.T) { // R1
		t.Parallel()
		m := offline(t)
		op := mailing(t, toRita)
		_, _, err := m.ReadTarget(t.Context(), op)
		require.ErrorIs(t, err, ErrNotDeclared)
		_, err = m.ReadHeld(t.Context(), op)
		require.ErrorIs(t, err, ErrNotDeclared)
		require.Equal(t, Unclear, m.Reconcile(t.Context(), op).Verdict)
		require.Equal(t, Unclear, m.Verify(t.Context(), op, "").Verdict)
	})

	t.Run("TheServersNameOfTheMessageIsKept", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"2.0.0 Ok: queued as 4BxYz1": "4BxYz1", "OK id=1abC-00-x": "1abC-00-x", "2.0.0 OK: queued": "<id>", "": "<id>",
		} {
			require.Equal(t, want, taken(250, text, "<id>").ExternalID, text)
		}
	})
}
