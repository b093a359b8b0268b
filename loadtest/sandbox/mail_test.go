package sandbox_test

import (
	"context"
	"net"
	"net/smtp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gomail "github.com/wneessen/go-mail"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// letter is a raw message without anything odd.
const letter = "Subject: Hello\r\nMessage-ID: <1@example.com>\r\n\r\nGood day.\r\n"

// post sends a raw message in one connection, as any mail program does.
func (w world) post(raw string, to ...string) error {
	w.t.Helper()
	addr, err := w.SMTPAddr(w.t.Context())
	require.NoError(w.t, err)
	return smtp.SendMail(addr, nil, "holdpoint@example.com", to, []byte(raw))
}

// smtp opens a connection that a test goes through by hand.
func (w world) smtp() *smtp.Client {
	w.t.Helper()
	addr, err := w.SMTPAddr(w.t.Context())
	require.NoError(w.t, err)
	client, err := smtp.Dial(addr)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { client.Close() })
	return client
}

// mailed requires that exactly n messages to the address are there.
func (w world) mailed(to string, n int) []sandbox.Mail {
	w.t.Helper()
	found, err := w.Mail(w.t.Context(), to)
	require.NoError(w.t, err)
	require.Len(w.t, found, n)
	return found
}

func TestMail(t *testing.T) {
	t.Parallel()

	t.Run("MailProgramIsUnderstood", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, (&clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}).use)
		msg := gomail.NewMsg()
		require.NoError(t, msg.From("holdpoint@example.com"))
		require.NoError(t, msg.To("rita@example.com", "udo@example.com"))
		require.NoError(t, msg.Bcc("hidden@example.com"))
		msg.Subject("Prüfen: Erstattung über 1.200 €")
		msg.SetMessageIDWithValue("op-1@holdpoint")
		msg.SetBodyString(gomail.TypeTextPlain, "Grüße\nhttps://example.com/approvals/1\n")
		msg.AddAlternativeString(gomail.TypeTextHTML, "<p>Grüße")
		addr, err := w.SMTPAddr(t.Context())
		require.NoError(t, err)
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		client, err := gomail.NewClient(host, gomail.WithPort(number), gomail.WithTLSPolicy(gomail.NoTLS))
		require.NoError(t, err)
		require.NoError(t, client.DialAndSendWithContext(t.Context(), msg))

		require.Equal(t, []sandbox.Mail{{
			ID: 1, From: "holdpoint@example.com", To: []string{"rita@example.com", "udo@example.com", "hidden@example.com"},
			Subject: "Prüfen: Erstattung über 1.200 €", MessageID: "<op-1@holdpoint>",
			Text:       "Grüße\nhttps://example.com/approvals/1\n",
			ReceivedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		}}, w.mailed("", 1))
		w.written(0)
	})

	t.Run("MailIsFoundByRecipientWhateverTheCase", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.post(letter, "Rita@Example.com", "udo@example.com"))
		require.NoError(t, w.post(letter, "udo@example.com"))
		w.mailed("rita@example.com", 1)
		w.mailed("udo@example.com", 2)
		w.mailed("rita", 0)
		later := w.get("/_sandbox/mail?to=udo@example.com&after=1")
		require.Contains(t, later, `"id":2`)
		require.NotContains(t, later, `"id":1`)
	})

	t.Run("WaitingEndsWithTheMessage", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.post(letter, "udo@example.com"))
		sent := make(chan error, 1)
		go func() { sent <- w.post(letter, "rita@example.com") }()
		found, err := w.AwaitMail(t.Context(), "rita@example.com", 1)
		require.NoError(t, err)
		require.Equal(t, "Good day.\n", found[0].Text)
		require.NoError(t, <-sent)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = w.AwaitMail(ended, "rita@example.com", 2)
		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("LimitsAreKept", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		line := strings.Repeat("x", 998) + "\r\n"
		require.NoError(t, w.post(letter+strings.Repeat(line, 1000), "rita@example.com"))
		require.ErrorContains(t, w.post(letter+strings.Repeat(line, 1100), "rita@example.com"), "552")
		crowd := make([]string, 51)
		for i := range crowd {
			crowd[i] = strconv.Itoa(i) + "@example.com"
		}
		require.ErrorContains(t, w.post(letter, crowd...), "452")
		require.NoError(t, w.post(letter, crowd[:50]...))
		w.mailed("", 2)
	})

	t.Run("NothingIsAskedForAuthentication", func(t *testing.T) {
		t.Parallel()
		client := newWorld(t).smtp()
		offered, _ := client.Extension("AUTH")
		require.False(t, offered)
		offered, size := client.Extension("SIZE")
		require.True(t, offered)
		require.Equal(t, strconv.Itoa(1<<20), size)
	})

	t.Run("AbandonedMessageIsNotStored", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		client := w.smtp()
		require.NoError(t, client.Mail("holdpoint@example.com"))
		require.NoError(t, client.Rcpt("rita@example.com"))
		require.NoError(t, client.Reset())
		require.NoError(t, client.Mail(""))
		require.NoError(t, client.Rcpt("udo@example.com"))
		body, err := client.Data()
		require.NoError(t, err)
		_, err = body.Write([]byte(letter))
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, []string{"udo@example.com"}, w.mailed("", 1)[0].To)
		require.Empty(t, w.mailed("", 1)[0].From)
	})

	t.Run("PortIsTakenOnceOnly", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		addr, err := w.SMTPAddr(t.Context())
		require.NoError(t, err)
		cfg := sandbox.Config{DataDir: t.TempDir(), SMTPAddr: addr}
		_, err = sandbox.New(cfg)
		require.ErrorContains(t, err, "cannot listen for mail")
		cfg.SMTPAddr = ""
		server, err := sandbox.New(cfg)
		require.NoError(t, err, "the failed one has let go of the directory")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, server.Run(ended))
	})
}
