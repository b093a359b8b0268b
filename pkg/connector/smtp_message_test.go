package connector

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// letterBytes is what is sent for toRita. If a library's update changes it, messages that wait for another attempt are held: say so in
// its release, and count rendering up (form.go).
const letterBytes = "Auto-Submitted: auto-generated\r\n" +
	"Date: Wed, 04 Mar 2026 04:06:07 +0000\r\n" +
	"MIME-Version: 1.0\r\n" +
	"Message-ID: <op1-0123456789abcdef@holdpoint.example>\r\n" +
	"Subject: About your order, Rita\r\n" +
	"From: <support@holdpoint.example>\r\n" +
	"To: <rita@example.com>\r\n" +
	"Content-Transfer-Encoding: quoted-printable\r\n" +
	"Content-Type: text/plain; charset=UTF-8\r\n" +
	"\r\n" +
	"Dear Rita,\r\n\r\nYour refund is on its way.\r\n.\r\nYours\r\n"

// offline is a mailer that has no server.
func offline(t *testing.T, changes ...func(*config.Mail)) *Mailer {
	t.Helper()
	return mailer(t, &office{addr: "127.0.0.1:25"}, func(c *Config) {
		for _, change := range changes {
			change(c.Connector.Operations[0].Mail)
		}
	})
}

func withHTML(m *config.Mail) {
	m.HTML = "<p>Dear ${proposed_change.name}, ${proposed_change.words}</p>"
}

// TestMailBytes: what was approved is what is sent, on each attempt (D2, DSP-04).
func TestMailBytes(t *testing.T) {
	t.Parallel()

	t.Run("TheyFollowFromTheIntentAlone", func(t *testing.T) {
		t.Parallel()
		r := offline(t).letter(t, toRita)
		require.Equal(t, letterBytes, string(r.Body))
		require.Equal(t, map[string]string{"From": "support@holdpoint.example", "To": "rita@example.com"}, r.Header)
		require.Equal(t, "smtp://127.0.0.1:25", r.URL)
		require.Equal(t, "<op1-0123456789abcdef@holdpoint.example>", messageIDOf(r))
	})

	t.Run("EachAttemptMakesTheSame", func(t *testing.T) {
		t.Parallel()
		first := offline(t, withHTML).letter(t, toRita)
		for range 20 {
			again := offline(t, withHTML).letter(t, toRita)
			require.Equal(t, string(first.Body), string(again.Body))
			require.Equal(t, first.Digest, again.Digest)
		}
	})

	t.Run("TheServerHasThemAsTheyWere", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.Succeeded, result.Class)
		require.Len(t, o.taken(), 1)
		require.Equal(t, letterBytes, o.taken()[0].raw, "a line that is a dot alone does not end the message")
	})

	t.Run("TheTextOfTheHTMLIsEscapedAndThePartsAreTwo", func(t *testing.T) {
		t.Parallel()
		r := offline(t, withHTML).letter(t, `{"to":"rita@example.com","name":"<b>Ri","words":"ü & \"ö\""}`)
		message, err := mail.ReadMessage(strings.NewReader(string(r.Body)))
		require.NoError(t, err)
		_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		require.NoError(t, err)
		parts := multipart.NewReader(message.Body, params["boundary"])
		var got []string
		for {
			part, err := parts.NextRawPart()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			text, err := io.ReadAll(quotedprintable.NewReader(part))
			require.NoError(t, err)
			got = append(got, part.Header.Get("Content-Type")+": "+string(text))
		}
		require.Equal(t, []string{"text/plain; charset=UTF-8: Dear <b>Ri,\r\n\r\nü & \"ö\"\r\n.\r\nYours\r\n",
			"text/html; charset=UTF-8: <p>Dear &lt;b&gt;Ri, ü &amp; &#34;ö&#34;</p>"}, got)
	})

	t.Run("NobodyWhoWritesATextKnowsTheBoundary", func(t *testing.T) {
		t.Parallel()
		first := offline(t, withHTML).letter(t, toRita)
		boundary := func(r *Request) string {
			_, after, _ := strings.Cut(string(r.Body), "boundary=")
			return after[:strings.Index(after, "\r\n")]
		}
		forged := offline(t, withHTML).letter(t, fmt.Sprintf(`{"to":"rita@example.com","name":"R","words":"--%s\n\nforged"}`, boundary(first)))
		require.NotEqual(t, boundary(first), boundary(forged))
	})

	t.Run("ADestinationThatChangedIsSeenInTheDigest", func(t *testing.T) {
		t.Parallel()
		here, there := offline(t).letter(t, toRita), mailer(t, &office{addr: "127.0.0.1:26"}).letter(t, toRita)
		require.NotEqual(t, here.Digest, there.Digest)
	})

	t.Run("CopiesAndRepliesAreInTheHeader", func(t *testing.T) {
		t.Parallel()
		r := offline(t, func(m *config.Mail) {
			m.Cc, m.ReplyTo = []string{"a@example.com", "${proposed_change.more}"}, "case-${proposed_change.name}@holdpoint.example"
		}).letter(t, `{"to":"rita@example.com","name":"7","words":"w","more":["b@example.com"]}`)
		require.Contains(t, string(r.Body), "\r\nCc: <a@example.com>, <b@example.com>\r\nReply-To: <case-7@holdpoint.example>\r\n")
		require.Equal(t, "rita@example.com a@example.com b@example.com", r.Header["To"])
	})
}

// TestUnsendableMail: what makes no honest message is refused before anything is sent, and the refusal quotes nothing of it.
func TestUnsendableMail(t *testing.T) {
	t.Parallel()
	many := make([]string, MaxRecipients+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"r%d@example.com"`, i)
	}
	for name, change := range map[string]string{
		"ASubjectOfTwoLines":            `{"to":"rita@example.com","name":"R\r\nBcc: eve@evil.example","words":"w"}`,
		"ASubjectWithALineFeed":         `{"to":"rita@example.com","name":"R\nBcc: eve@evil.example","words":"w"}`,
		"ASubjectWithAUnicodeLine":      `{"to":"rita@example.com","name":"R\u2028Bcc: eve@evil.example","words":"w"}`,
		"ALongSubject":                  fmt.Sprintf(`{"to":"rita@example.com","name":%q,"words":"w"}`, strings.Repeat("x", maxSubject)),
		"AnAddressOfTwoLines":           `{"to":"rita@example.com\r\nRCPT TO:<eve@evil.example>","name":"R","words":"w"}`,
		"AnAddressWithBrackets":         `{"to":"<rita@example.com>","name":"R","words":"w"}`,
		"AnAddressWithAName":            `{"to":"Rita <rita@example.com>","name":"R","words":"w"}`,
		"AnAddressWithAParameter":       `{"to":"rita@example.com> NOTIFY=NEVER","name":"R","words":"w"}`,
		"TwoAddressesInOne":             `{"to":"rita@example.com,eve@evil.example","name":"R","words":"w"}`,
		"AQuotedAddress":                `{"to":"\"rita eve\"@example.com","name":"R","words":"w"}`,
		"ARoutedAddress":                `{"to":"rita%evil@evil.example@example.com","name":"R","words":"w"}`,
		"AnAddressLiteral":              `{"to":"rita@[127.0.0.1]","name":"R","words":"w"}`,
		"AnAddressOutsideASCII":         `{"to":"rita@exämple.com","name":"R","words":"w"}`,
		"AnAddressThatLooksLikeAnother": `{"to":"ritа@example.com","name":"R","words":"w"}`,
		"AnAddressWithoutADomain":       `{"to":"rita","name":"R","words":"w"}`,
		"AnAddressThatIsTooLong":        fmt.Sprintf(`{"to":"rita@%s.example","name":"R","words":"w"}`, strings.Repeat("a.", 130)),
		"AnEmptyAddress":                `{"to":"","name":"R","words":"w"}`,
		"NoRecipients":                  `{"to":[],"name":"R","words":"w"}`,
		"NoRecipientField":              `{"name":"R","words":"w"}`,
		"ANumberForARecipient":          `{"to":[7],"name":"R","words":"w"}`,
		"AnObjectForARecipient":         `{"to":{"eve":"eve@evil.example"},"name":"R","words":"w"}`,
		"TooManyRecipients":             `{"to":[` + strings.Join(many, ",") + `],"name":"R","words":"w"}`,
		"NoText":                        `{"to":"rita@example.com","name":"R"}`,
		"ATextThatIsTooLong":            fmt.Sprintf(`{"to":"rita@example.com","name":"R","words":%q}`, strings.Repeat("x", maxMessage)),
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			_, err := offline(t).Prepare(t.Context(), mailing(t, change))
			require.Error(t, err)
			require.NotContains(t, strings.ReplaceAll(err.Error(), "nora@example.com", ""), "@")
			require.NotContains(t, err.Error(), "eve")
		})
	}

	t.Run("AnAnswerToManyIsRefused", func(t *testing.T) {
		t.Parallel()
		m := offline(t, func(m *config.Mail) { m.ReplyTo = "${proposed_change.to}" })
		_, err := m.Prepare(t.Context(), mailing(t, `{"to":["a@example.com","b@example.com"],"name":"R","words":"w"}`))
		require.ErrorContains(t, err, "reply_to must be one address")
	})

	t.Run("WithoutADateThereIsNoMessage", func(t *testing.T) {
		t.Parallel()
		op := mailing(t, toRita)
		op.FirstAttempt = time.Time{}
		_, err := offline(t).Prepare(t.Context(), op)
		require.ErrorContains(t, err, "no date")
	})

	t.Run("AnOperationIDThatIsNoneIsRefused", func(t *testing.T) {
		t.Parallel()
		op := mailing(t, toRita)
		op.OperationID = "op>\r\nBcc: x"
		_, err := offline(t).Prepare(t.Context(), op)
		require.ErrorContains(t, err, "Message-ID")
	})

	t.Run("HostileTextStaysInTheBody", func(t *testing.T) {
		t.Parallel()
		for _, words := range []string{`\r\n.\r\nMAIL FROM:<eve@evil.example>`, `\n.\nQUIT`, `\r.\r`} {
			r := offline(t).letter(t, `{"to":"rita@example.com","name":"R","words":"`+words+`"}`)
			require.NoError(t, checkMessage(r.Body))
			wire := string(stuffed(r.Body))
			require.NotContains(t, wire, "\r\n.\r\n", "only the end is a dot alone")
			require.True(t, strings.HasSuffix(wire, "\r\n"))
		}
	})

	t.Run("LinesThatServersReadDifferentlyAreRefused", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"a\n.\nb", "a\r.\rb", "a\x00", strings.Repeat("x", maxMailLine+1)} {
			require.Error(t, checkMessage([]byte(text)), "%.10q", text)
		}
	})
}
