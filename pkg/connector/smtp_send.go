package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"strings"
	"time"
)

// endWithin is how long after leave was given the dot that ends a message is written at the latest. What a slow line has not taken by
// then is not sent: leave is about now (D15).
const endWithin = 5 * time.Second

var errUnasked = errors.New("the server spoke without being asked")

// Execute hands one message over, once. gate runs when the server waits for the message, immediately before its first byte is written;
// if it refuses, the connection is cut and the class is not_sent. Result.Sent says that the dot that ends the message may have left:
// until then the server must drop what it has (RFC 5321, 4.1.1.10). Execute never returns while the dot could still leave.
func (m *Mailer) Execute(ctx context.Context, r *Request, gate func() error) Result {
	started := m.config.Clock()
	result := m.execute(ctx, r, gate)
	result.StartedAt = started
	result.Duration = m.config.Clock().Sub(started)
	return result
}

func (m *Mailer) execute(ctx context.Context, r *Request, gate func() error) Result {
	if err := m.checkRequest(r, gate); err != nil {
		return notSent(err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	s, failed := m.open(ctx)
	if failed != nil {
		return *failed
	}
	defer s.close()
	if failed := s.envelope(r); failed != nil {
		s.leave("RSET\r\nQUIT")
		return *failed
	}
	if failed := s.data(); failed != nil {
		return *failed
	}
	sent, failed := s.message(ctx, r.Body, gate)
	if failed != nil {
		return *failed
	}
	result := s.answer(ctx, sent, messageIDOf(r))
	if result.Err == nil {
		s.leave("QUIT")
	}
	return result
}

func (m *Mailer) checkRequest(r *Request, gate func() error) error {
	if _, err := m.operation(r.Operation); err != nil {
		return err
	}
	switch {
	case gate == nil:
		return errors.New("no gate was given, and nothing is sent without one")
	case r.Sum() != r.Digest || r.Method != sendMethod:
		return errors.New("the stored message differs from its digest")
	case r.URL != m.url:
		return fmt.Errorf("the message was prepared for %s, the connector now points to %s; an operator must decide", r.URL, m.url)
	}
	return nil
}

// envelope names sender and recipients. All recipients are asked about, and one that is refused stops the message for all.
func (s *session) envelope(r *Request) *Result {
	if err := s.Mail("<" + r.Header[envelopeFrom] + ">"); err != nil {
		return stopped("MAIL", err)
	}
	recipients := strings.Fields(r.Header[envelopeTo])
	answers := make([]rcptAnswer, len(recipients))
	for i, recipient := range recipients {
		err := s.Rcpt("<" + recipient + ">")
		if err != nil && replyCode(err) == 0 {
			return stopped("RCPT", err)
		}
		answers[i] = rcptAnswer{err}
	}
	return refusedRecipients(answers)
}

// data asks leave of the server to write the message.
func (s *session) data() *Result {
	id, err := s.Text.Cmd("DATA")
	if err == nil {
		s.Text.StartResponse(id)
		_, _, err = s.Text.ReadResponse(354)
		s.Text.EndResponse(id)
	}
	if err != nil {
		return stopped("DATA", err)
	}
	return nil
}

// message asks the gate and writes the message, and after all of it the dot. The result is nil where the dot may have left; sent is
// when.
func (s *session) message(ctx context.Context, body []byte, gate func() error) (sent time.Time, failed *Result) {
	if s.Text.R.Buffered() > 0 {
		return sent, unavailable("DATA", errUnasked) // a later answer would be taken for another
	}
	err := gate()
	if err == nil {
		err = ctx.Err() // the gate may have taken longer than the call had
	}
	if err != nil {
		return sent, gaveUp(fmt.Errorf("stopped before the first byte of the message: %w", err))
	}
	deadline, _ := ctx.Deadline()
	_ = s.wire.SetWriteDeadline(earlier(deadline, time.Now().Add(endWithin)))
	if err := s.write(stuffed(body)); err != nil {
		return sent, unavailable("the message, before its end", err)
	}
	if failed := s.interrupted(deadline); failed != nil {
		return sent, failed
	}
	before := s.wire.taken.Load()
	if err := s.write([]byte(".\r\n")); err != nil && s.wire.taken.Load() == before {
		return sent, unavailable("the message, before its end", err)
	}
	return time.Now(), nil
}

// interrupted is what the server has said while it was given the message, nil where it was silent as it should be: its word would be
// taken for the answer to the dot. It may have had enough; either way the message has no end, and was not sent.
func (s *session) interrupted(deadline time.Time) *Result {
	_ = s.wire.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := s.Text.R.Peek(1)
	_ = s.wire.SetReadDeadline(deadline)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	const stage = "the message, before its end"
	if err != nil {
		return unavailable(stage, err)
	}
	code, text, err := s.Text.ReadResponse(0)
	if err != nil {
		return unavailable(stage, fmt.Errorf("%w: %w", errUnasked, err))
	}
	return refusal(stage, &textproto.Error{Code: code, Msg: text})
}

func (s *session) write(text []byte) error {
	if _, err := s.Text.W.Write(text); err != nil {
		return err
	}
	return s.Text.W.Flush()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stuffed doubles the dots at the beginnings of lines (RFC 5321, 4.5.2), so that only the end of the message is a dot alone, and ends
// the last line.
func stuffed(body []byte) []byte {
	out := bytes.ReplaceAll(body, []byte("\r\n."), []byte("\r\n.."))
	if bytes.HasPrefix(out, []byte(".")) {
		out = append([]byte("."), out...)
	}
	if !bytes.HasSuffix(out, []byte("\r\n")) {
		out = append(bytes.Clone(out), "\r\n"...)
	}
	return out
}

// answer waits for what the server says to the dot.
func (s *session) answer(ctx context.Context, sent time.Time, messageID string) Result {
	code, text, err := s.Text.ReadResponse(0)
	if err == nil {
		return taken(code, text, messageID)
	}
	why := fmt.Sprintf("no answer: %v", err)
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		why = fmt.Sprintf("no answer within %s", time.Since(sent).Round(time.Millisecond))
	}
	return handedOver(messageID, why, err)
}
