package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func TestMailInOwnWords(t *testing.T) {
	t.Parallel()
	w := servicetest.New(t)
	smtp, err := w.Sandbox.SMTPAddr(t.Context())
	require.NoError(t, err)
	// mail sends by a channel with such words, and gives the subject and the text that came.
	mail := func(t *testing.T, to string, words *config.MessageTemplate, change func(*message)) (subject, text string) {
		t.Helper()
		s, err := newSender(&config.Channel{Kind: config.ChannelEmail, Timeout: 5 * time.Second, Email: &config.Email{Server: smtp,
			From: "holdpoint@example.test", To: []string{to}, TLS: config.TLSNone, Template: words}})
		require.NoError(t, err)
		m := chatMessage()
		m.Recipient = to
		change(m)
		require.NoError(t, s.send(t.Context(), m))
		letters, err := w.Sandbox.AwaitMail(t.Context(), to, 1)
		require.NoError(t, err)
		return letters[0].Subject, strings.ReplaceAll(letters[0].Text, "\r\n", "\n")
	}
	same := func(*message) {}

	t.Run("SubjectAndTextAreFilledIn", func(t *testing.T) {
		t.Parallel()
		subject, text := mail(t, "a@example.test", &config.MessageTemplate{Subject: "{{.Kind}} of {{.Tenant}}: {{.ActionType}}",
			Text: "{{.Risk}}, {{.TimeLeft}}, {{.CorrelationID}}\n{{.Link}}\n"}, same)
		require.Equal(t, "request of Demo: payment.refund", subject)
		require.Equal(t, "high, 3 hours 20 minutes, nora⟦.⟧customer@example⟦.⟧com\n"+chatMessage().Link, strings.TrimSpace(text))
	})

	t.Run("WhatIsLeftOutIsAsUsual", func(t *testing.T) {
		t.Parallel()
		subject, text := mail(t, "b@example.test", &config.MessageTemplate{Text: "Look: {{.Link}}"}, same)
		require.Equal(t, "A decision is waiting for you: payment.refund", subject)
		require.Contains(t, text, "Look: https://")
		subject, text = mail(t, "c@example.test", &config.MessageTemplate{Subject: "Look"}, func(m *message) { m.Kind = ledger.NoticeReminder })
		require.Equal(t, "Look", subject)
		require.Contains(t, text, "A decision is still waiting for you at Holdpoint.")
	})

	t.Run("WordsThatCannotBeFilledInAreReplacedByTheUsual", func(t *testing.T) {
		t.Parallel()
		subject, text := mail(t, "d@example.test", &config.MessageTemplate{Subject: "{{.Amount}}", Text: "{{.Amount}}"}, same)
		require.Equal(t, "A decision is waiting for you: payment.refund", subject)
		require.Contains(t, text, chatMessage().Link)
	})

	t.Run("HostileTextMakesNoHeaderAndNoLink", func(t *testing.T) {
		t.Parallel()
		subject, text := mail(t, "e@example.test", &config.MessageTemplate{Subject: "{{.CorrelationID}}", Text: "{{.CorrelationID}} {{.Link}}"},
			func(m *message) { m.Asked.CorrelationID = "x\r\nBcc: eve@evil.example https://evil.example" })
		require.Equal(t, "x⟦U+000D⟧⟦U+000A⟧Bcc: eve@evil⟦.⟧example https⟦://⟧evil⟦.⟧example", subject)
		require.NotContains(t, text, "evil.example")
	})
}
