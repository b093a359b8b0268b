package connector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// with has something happen to an office.
func with(f disturbance) opening { return func(o *office, _ *smtp.Server) { o.fault = f } }

func refusing(recipient string, code int) opening {
	return func(o *office, _ *smtp.Server) {
		o.rcpt[recipient] = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1},
			Message: "no mailbox " + recipient}
	}
}

func answeringTheEnd(code int) opening {
	return func(o *office, _ *smtp.Server) {
		o.data = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 7, 1}, Message: "not from rita@example.com"}
	}
}

// short is for servers that say nothing.
func short(c *Config) { c.Connector.Timeout = 100 * time.Millisecond }

// TestMailStages has one row for everything that can happen at a stage of the protocol. What was not maybe sent is in no mailbox.
func TestMailStages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		office opening
		class  outcome.Class
		sent   bool
		mails  int
		detail string
	}{
		{"GreetingIsCut", with(disturbance{"greeting", "cut"}), outcome.NotSent, false, 0, "reset"},
		{"GreetingHangs", with(disturbance{"greeting", "hang"}), outcome.NotSent, false, 0, "greeting"},
		{"GreetingRefuses", with(disturbance{"greeting", "554 no service here"}), outcome.NotSent, false, 0, "554"},
		{"GreetingIsBusy", with(disturbance{"greeting", "421 come back"}), outcome.NotSent, false, 0, "421"},
		{"GreetingIsNonsense", with(disturbance{"greeting", "HTTP/1.1 400 Bad Request"}), outcome.NotSent, false, 0, "greeting"},
		{"HelloIsCut", with(disturbance{"EHLO", "cut"}), outcome.NotSent, false, 0, "EHLO"},
		{"HelloHangs", with(disturbance{"EHLO", "hang"}), outcome.NotSent, false, 0, "EHLO"},
		{"HelloOfOldServersIsEnough", with(disturbance{"EHLO", "502 what"}), outcome.Succeeded, true, 1, "250"},
		{"SenderIsCut", with(disturbance{"MAIL", "cut"}), outcome.NotSent, false, 0, "MAIL"},
		{"SenderHangs", with(disturbance{"MAIL", "hang"}), outcome.NotSent, false, 0, "MAIL"},
		{"SenderIsRefused", with(disturbance{"MAIL", "550 5.7.1 not you"}), outcome.Refused, false, 0, "550 5.7.1 not you"},
		{"SenderIsBusy", with(disturbance{"MAIL", "452 4.3.1 full"}), outcome.RejectedBusy, false, 0, "452 4.3.1 full"},
		{"SenderNeedsALogin", with(disturbance{"MAIL", "530 5.7.0 who"}), outcome.Unauthorized, false, 0, "530"},
		{"SenderIsAnsweredNonsense", with(disturbance{"MAIL", "354 go on"}), outcome.NotSent, false, 0, "354"},
		{"RecipientIsCut", with(disturbance{"RCPT", "cut"}), outcome.NotSent, false, 0, "RCPT"},
		{"RecipientHangs", with(disturbance{"RCPT", "hang"}), outcome.NotSent, false, 0, "RCPT"},
		{"RecipientIsRefused", refusing("rita@example.com", 550), outcome.Refused, false, 0, "number 1: 550 5.1.1"},
		{"RecipientIsBusy", refusing("rita@example.com", 450), outcome.RejectedBusy, false, 0, "number 1: 450 4.1.1"},
		{"MessageIsRefused", with(disturbance{"DATA", "554 5.3.4 no"}), outcome.Refused, false, 0, "DATA was answered 554"},
		{"MessageIsBusy", with(disturbance{"DATA", "451 4.3.0 later"}), outcome.RejectedBusy, false, 0, "DATA was answered 451"},
		{"MessageIsCutBeforeItsFirstByte", with(disturbance{"DATA", "cut"}), outcome.NotSent, false, 0, "DATA"},
		{"MessageHangsBeforeItsFirstByte", with(disturbance{"DATA", "hang"}), outcome.NotSent, false, 0, "DATA"},
		{"EndIsCut", with(disturbance{"dot", "cut"}), outcome.Ambiguous, true, 1, "Message-ID <" + operationID},
		{"EndHangs", with(disturbance{"dot", "hang"}), outcome.Ambiguous, true, 1, "no answer within"},
		{"EndIsAnsweredNonsense", with(disturbance{"dot", "354 more"}), outcome.Ambiguous, true, 1, "nonsensical"},
		{"EndIsAnsweredGibberish", with(disturbance{"dot", "hello"}), outcome.Ambiguous, true, 1, "no answer"},
		{"EndIsBusy", answeringTheEnd(451), outcome.RejectedBusy, true, 0, "451 4.7.1 not from (address)"},
		{"EndIsRefused", answeringTheEnd(554), outcome.Refused, true, 0, "554 5.7.1 not from (address)"},
		{"EndIsBusyAndTheConnectionCloses", answeringTheEnd(421), outcome.RejectedBusy, true, 0, "421"},
		{"AllIsTaken", with(disturbance{}), outcome.Succeeded, true, 1, "250"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t, row.office)
			var changes []func(*Config)
			if strings.Contains(row.name, "Hang") {
				changes = append(changes, short)
			}
			m := mailer(t, o, changes...)
			gates := 0
			result := m.Execute(t.Context(), m.letter(t, toRita), func() error { gates++; return nil })
			require.Equal(t, row.class, result.Class, result.Detail)
			require.Equal(t, row.sent, result.Sent)
			require.Contains(t, result.Detail, row.detail)
			require.NotContains(t, strings.ReplaceAll(result.Detail, operationID+"@", ""), "@", "addresses are somebody's")
			require.Len(t, o.taken(), row.mails)
			require.Equal(t, row.sent, gates == 1, "the gate is asked where the message begins, and once")
			require.Equal(t, row.class == outcome.NotSent, errors.Is(result.Err, ErrUnavailable))
		})
	}
}

// TestMailEnd is about the bytes between leave and the dot.
func TestMailEnd(t *testing.T) {
	t.Parallel()

	t.Run("CutInTheMiddleOfTheMessageIsNotSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t, with(disturbance{"body", "cut"}))
		m := mailer(t, o)
		r := m.letter(t, fmt.Sprintf(`{"to":"rita@example.com","name":"R","words":%q}`, strings.Repeat("long words ", 80_000)))
		// The line takes the first bytes alone, so that the cut comes before the dot is written.
		m.dialer.open = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &narrow{Conn: c, left: 64 << 10}, err
		}
		result := m.Execute(t.Context(), r, allow)
		require.Equal(t, outcome.NotSent, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.ErrorIs(t, result.Err, ErrUnavailable)
		require.Empty(t, o.taken())
	})

	t.Run("WhatASlowLineHasNotTakenInTimeIsNotSent", func(t *testing.T) { // D15
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o, func(c *Config) { c.Connector.Timeout = time.Hour })
		r := m.letter(t, toRita)
		line := &stuck{after: "DATA\r\n"}
		m.dialer.open = func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			line.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return line, err
		}
		result := m.Execute(t.Context(), r, allow)
		require.Equal(t, outcome.NotSent, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.WithinDuration(t, time.Now(), line.deadline, endWithin, "however long the answer may take")
		require.Empty(t, o.taken())
	})

	t.Run("ADotOfWhichTheKernelTookNothingIsNotSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o)
		m.dialer.open = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &dotless{c}, err
		}
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class, result.Detail)
		require.False(t, result.Sent)
		require.Empty(t, o.taken())
	})

	t.Run("WithoutLeaveNoByteOfTheMessageLeaves", func(t *testing.T) {
		t.Parallel()
		stop := errors.New("the kill switch is closed")
		o := openOffice(t)
		m := mailer(t, o)
		result := m.Execute(t.Context(), m.letter(t, toRita), func() error {
			require.Contains(t, o.said(), "DATA", "leave is asked as late as can be")
			return stop
		})
		require.Equal(t, outcome.NotSent, result.Class)
		require.ErrorIs(t, result.Err, stop)
		require.NotErrorIs(t, result.Err, ErrUnavailable, "it says nothing about the server")
		require.Empty(t, o.taken())
		require.NotContains(t, o.said(), "Subject")
	})

	t.Run("LeaveThatComesTooLateIsNone", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		result := m.Execute(ctx, m.letter(t, toRita), func() error { cancel(); return nil })
		require.Equal(t, outcome.NotSent, result.Class)
		require.ErrorIs(t, result.Err, context.Canceled)
		require.Empty(t, o.taken())
	})

	t.Run("AServerThatSpeaksOutOfTurnIsNotSentTo", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t, with(disturbance{"DATA", "354 go on\r\n250 and taken already"}))
		m := mailer(t, o)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class, "its word would be taken for the answer to a message that it never had")
		require.ErrorIs(t, result.Err, errUnasked)
		require.Empty(t, o.taken())
	})

	for said, class := range map[string]outcome.Class{"250 taken already": outcome.NotSent, "552 too much": outcome.Refused,
		"421 going down": outcome.RejectedBusy, "nonsense": outcome.NotSent, "": outcome.NotSent} {
		t.Run("AServerThatSpeaksWhileItIsGivenTheMessageIsNotGivenItsEnd_"+said, func(t *testing.T) {
			t.Parallel()
			asking, spoken := make(chan struct{}), make(chan struct{})
			var after []byte
			w := listen(t, func(_ *wire, c net.Conn, in *bufio.Reader) {
				io.WriteString(c, "220 office.test\r\n")
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if !strings.HasPrefix(line, "DATA") {
						io.WriteString(c, "250 ok\r\n")
						continue
					}
					io.WriteString(c, "354 go on\r\n")
					<-asking
					if said == "" {
						c.(*net.TCPConn).CloseWrite()
					} else {
						io.WriteString(c, said+"\r\n")
					}
					close(spoken)
					after, _ = io.ReadAll(in)
					return
				}
			})
			m := mailer(t, &office{addr: strings.TrimPrefix(w.url, "http://")})
			result := m.Execute(t.Context(), m.letter(t, toRita), func() error { close(asking); <-spoken; return nil })
			require.Equal(t, class, result.Class, result.Detail)
			require.False(t, result.Sent)
			w.end()
			w.done()
			require.NotContains(t, string(after), "\r\n.\r\n")
		})
	}

	t.Run("WhatTheServerSaysIsBounded", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t, with(disturbance{"EHLO", "250-" + strings.Repeat("x", 2*maxTalk)}))
		m := mailer(t, o)
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.ErrorIs(t, result.Err, errTalkative)
	})

	t.Run("WithoutAGateNothingIsSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o)
		require.Equal(t, outcome.NotSent, m.Execute(t.Context(), m.letter(t, toRita), nil).Class)
		require.Empty(t, o.said())
	})

	t.Run("WhatWasChangedIsNotSent", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o)
		for name, change := range map[string]func(*Request){
			"recipients": func(r *Request) { r.Header[envelopeTo] += " eve@evil.example" },
			"message":    func(r *Request) { r.Body = append(r.Body, "P.S.\r\n"...) },
			"server":     func(r *Request) { r.URL = "smtp://elsewhere:25"; r.Digest = r.Sum() },
			"method":     func(r *Request) { r.Method = "POST"; r.Digest = r.Sum() },
		} {
			r := m.letter(t, toRita)
			change(r)
			require.Equal(t, outcome.NotSent, m.Execute(t.Context(), r, allow).Class, name)
		}
		require.Empty(t, o.said())
	})
}

// narrow fails, as a line does that was cut, when so many bytes were written.
type narrow struct {
	net.Conn
	left int
}

func (n *narrow) Write(b []byte) (int, error) {
	if n.left -= len(b); n.left < 0 {
		return 0, net.ErrClosed
	}
	return n.Conn.Write(b)
}

// stuck takes nothing more after a command, and keeps the deadline that it was given then.
type stuck struct {
	net.Conn
	after    string
	seen     bool
	deadline time.Time
}

func (s *stuck) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return s.Conn.SetWriteDeadline(at)
}

func (s *stuck) Write(b []byte) (int, error) {
	if s.seen {
		return 0, os.ErrDeadlineExceeded
	}
	s.seen = string(b) == s.after
	return s.Conn.Write(b)
}

// dotless fails for the dot alone.
type dotless struct{ net.Conn }

func (d *dotless) Write(b []byte) (int, error) {
	if string(b) == ".\r\n" {
		return 0, net.ErrClosed
	}
	return d.Conn.Write(b)
}

// TestMailRecipients: all or none.
func TestMailRecipients(t *testing.T) {
	t.Parallel()
	const three = `{"to":["rita@example.com","udo@example.com","mia@example.com"],"name":"R","words":"w"}`
	for _, row := range []struct {
		name    string
		refused map[string]int
		class   outcome.Class
		detail  string
	}{
		{"OneRefusedStopsAll", map[string]int{"udo@example.com": 550}, outcome.Refused,
			"1 of 3 recipients were refused, so nothing was sent to anybody: number 2: 550 5.1.1"},
		{"OneBusyStopsAllForNow", map[string]int{"mia@example.com": 450}, outcome.RejectedBusy, "number 3: 450 4.1.1"},
		{"FinalForOneIsFinalForAll", map[string]int{"rita@example.com": 450, "mia@example.com": 553}, outcome.Refused,
			"2 of 3 recipients were refused, so nothing was sent to anybody: number 1: 450 4.1.1, number 3: 553 5.1.1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var settings []opening
			for recipient, code := range row.refused {
				settings = append(settings, refusing(recipient, code))
			}
			o := openOffice(t, settings...)
			m := mailer(t, o)
			result := m.Execute(t.Context(), m.letter(t, three), func() error { t.Error("leave was asked"); return nil })
			require.Equal(t, row.class, result.Class)
			require.False(t, result.Sent)
			require.Contains(t, result.Detail, row.detail)
			require.Empty(t, o.taken())
			require.NotContains(t, o.said(), "DATA")
		})
	}

	t.Run("EachIsAskedOnceAndGetsOneMessage", func(t *testing.T) {
		t.Parallel()
		o := openOffice(t)
		m := mailer(t, o, func(c *Config) {
			c.Connector.Operations[0].Mail.Cc = []string{"archive@holdpoint.example", "RITA@example.com"}
		})
		require.Equal(t, outcome.Succeeded, m.Execute(t.Context(), m.letter(t, three), allow).Class)
		require.Len(t, o.taken(), 1)
		require.Equal(t, []string{"rita@example.com", "udo@example.com", "mia@example.com", "archive@holdpoint.example"}, o.taken()[0].to)
		require.Equal(t, "support@holdpoint.example", o.taken()[0].from)
	})
}

func TestMailServerAddress(t *testing.T) {
	t.Parallel()

	t.Run("NobodyThereIsNotSent", func(t *testing.T) {
		t.Parallel()
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, free.Close())
		m := mailer(t, &office{addr: free.Addr().String()})
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.ErrorIs(t, result.Err, ErrUnavailable)
		require.Contains(t, result.Detail, "refused")
	})

	t.Run("ANameThatLeadsInsideIsNotConnectedTo", func(t *testing.T) { // D12
		t.Parallel()
		o := openOffice(t)
		_, port, err := net.SplitHostPort(o.addr)
		require.NoError(t, err)
		m := mailer(t, o, func(c *Config) {
			c.Connector.Mail.Server, c.Connector.Mail.TLS = "mail.example.com:"+port, config.TLSStart
			c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, o.addr)
			}
		})
		result := m.Execute(t.Context(), m.letter(t, toRita), allow)
		require.Equal(t, outcome.NotSent, result.Class)
		require.Contains(t, result.Detail, "not public")
		require.Empty(t, o.said())
	})
}
