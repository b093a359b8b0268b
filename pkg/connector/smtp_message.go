package connector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Bounds of a message. More recipients than this are a mailing, which is not what one approval is for.
const (
	MaxRecipients = 50
	maxSubject    = 500     // bytes
	maxMessage    = 1 << 20 // bytes, header and encoding included
	maxMailLine   = 998     // bytes without CRLF (RFC 5321, 4.5.3.1.6)
	maxAddress    = 254     // RFC 5321, 4.5.3.1.3, without the angle brackets
)

// sendMethod stands in a Request in the place of an HTTP method, so that no HTTP request can have a message's digest.
const sendMethod = "MAIL"

// Headers of a message's Request: its envelope. Addresses hold no spaces.
const (
	envelopeFrom = "From"
	envelopeTo   = "To" // separated by spaces
)

// letter is a declared operation with its templates compiled.
type letter struct {
	declared                     *config.Operation
	to, cc                       []template
	replyTo, subject, text, html template
}

func compileLetter(declared *config.Operation) (*letter, error) {
	l := &letter{declared: declared}
	if declared.Mail == nil {
		return l, errors.New("it does not say what is sent")
	}
	var c compiler
	d := declared.Mail
	for i, text := range d.To {
		l.to = append(l.to, c.template(fmt.Sprintf("to %d", i+1), text))
	}
	for i, text := range d.Cc {
		l.cc = append(l.cc, c.template(fmt.Sprintf("cc %d", i+1), text))
	}
	l.replyTo, l.subject = c.template("reply_to", d.ReplyTo), c.template("subject", d.Subject)
	l.text, l.html = c.template("text", d.Text), c.template("html", d.HTML)
	c.check(len(d.To) > 0 && d.Subject != "" && d.Text != "", "a message needs to, subject and text")
	c.check(declared.Kind == config.OperationSend, "its kind is %q, and mail can only be sent", declared.Kind)
	c.check(declared.Lookup == nil && declared.Read == nil && declared.IdempotencyHeader == "" && !declared.Replays,
		"mail is neither found by reading nor known by a key")
	return l, errors.Join(c.errs...)
}

// Prepare makes the message of an approved action, its envelope and its bytes, out of nothing but the action, the operation id and the
// time of the first attempt: on each attempt they are the same. An error means that the intent makes no message that may be sent; it
// names no address, and no retry can help.
func (m *Mailer) Prepare(_ context.Context, op Operation) (*Request, error) {
	l, err := m.operation(op.Name)
	if err != nil {
		return nil, err
	}
	r, err := l.request(m.declared.Mail.From, &op)
	if err != nil {
		return nil, fmt.Errorf("prepare %s of connector %q: %w", op.Name, m.declared.ID, err)
	}
	r.URL = m.url
	r.Digest = r.Sum()
	return r, nil
}

func (l *letter) request(from string, op *Operation) (*Request, error) {
	to, err := addresses("to", l.to, op)
	if err != nil {
		return nil, err
	}
	cc, err := addresses("cc", l.cc, op)
	if err != nil {
		return nil, err
	}
	envelope := different(slices.Concat(to, cc))
	switch {
	case len(to) == 0:
		return nil, errors.New("the message has no recipient")
	case len(envelope) > MaxRecipients:
		return nil, fmt.Errorf("the message has %d recipients, and at most %d are sent to", len(envelope), MaxRecipients)
	}
	body, err := l.message(from, to, cc, op)
	if err != nil {
		return nil, err
	}
	return &Request{Operation: op.Name, Method: sendMethod, Body: body,
		Header: map[string]string{envelopeFrom: from, envelopeTo: strings.Join(envelope, " ")}}, nil
}

// message is the bytes of header and body.
func (l *letter) message(from string, to, cc []string, op *Operation) ([]byte, error) {
	if op.FirstAttempt.IsZero() {
		return nil, errors.New("the message has no date")
	}
	w := letterWriter{op: op, msg: mail.NewMsg(mail.WithNoDefaultUserAgent())}
	w.keep(w.msg.From(from))
	w.keep(w.msg.To(to...))
	if len(cc) > 0 {
		w.keep(w.msg.Cc(cc...))
	}
	if l.declared.Mail.ReplyTo != "" {
		replies, err := addresses("reply_to", []template{l.replyTo}, op)
		if err == nil && len(replies) != 1 {
			err = errors.New("reply_to must be one address")
		}
		if w.keep(err); err == nil {
			w.keep(w.msg.ReplyTo(replies[0]))
		}
	}
	w.subject(l.subject)
	w.msg.SetDateWithValue(op.FirstAttempt.UTC().Truncate(time.Second))
	w.messageID(from)
	w.msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic answers
	w.bodies(l)
	if w.err != nil {
		return nil, w.err
	}
	var out bytes.Buffer
	if _, err := w.msg.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return out.Bytes(), checkMessage(out.Bytes())
}

// letterWriter fills a message in and keeps the first complaint.
type letterWriter struct {
	op  *Operation
	msg *mail.Msg
	err error
}

func (w *letterWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *letterWriter) subject(t template) {
	subject, err := t.render(w.op, asItIs)
	w.keep(err)
	if len(subject) > maxSubject || strings.ContainsFunc(subject, breaksLine) {
		w.keep(fmt.Errorf("the subject must be one line of at most %d bytes without control characters", maxSubject))
	}
	w.msg.Subject(subject)
}

// messageID is the same on every attempt, so that people and mailboxes can find the message and tell a repeat.
func (w *letterWriter) messageID(from string) {
	if !localPart.MatchString(w.op.OperationID) {
		w.keep(errors.New("the operation id cannot stand in a Message-ID"))
	}
	w.msg.SetMessageIDWithValue(messageID(w.op.OperationID, from))
}

func messageID(operationID, from string) string { return operationID + "@" + domainOf(from) }

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// bodies adds the text, and beside it the HTML. The boundary derives from both besides the operation id: nobody who writes one of them
// can know it, and so nobody can write a part of their own that reviewers would not have seen.
func (w *letterWriter) bodies(l *letter) {
	text, err := l.text.render(w.op, asItIs)
	w.keep(err)
	w.msg.SetBodyString(mail.TypeTextPlain, text)
	if l.declared.Mail.HTML == "" {
		return
	}
	markup, err := l.html.render(w.op, html.EscapeString)
	w.keep(err)
	w.msg.SetBoundary(fmt.Sprintf("holdpoint-%.16x", sha256.Sum256([]byte(w.op.OperationID+"\x00"+text+"\x00"+markup))))
	w.msg.AddAlternativeString(mail.TypeTextHTML, markup)
}

func asItIs(text string) string { return text }

func breaksLine(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
}

// checkMessage holds the bytes to what every server reads alike. A lone CR or LF is what one of two servers may take for the end of a
// line, and so for the end of the message.
func checkMessage(message []byte) error {
	if len(message) > maxMessage {
		return fmt.Errorf("the message is over the limit of %d bytes", maxMessage)
	}
	for line := range bytes.SplitSeq(message, []byte("\r\n")) {
		if bytes.ContainsAny(line, "\r\n\x00") || len(line) > maxMailLine {
			return fmt.Errorf("the message has a line that ends in other than CR LF, or is over %d bytes", maxMailLine)
		}
	}
	return nil
}

// addresses renders templates of which each yields an address or a list of them.
func addresses(where string, templates []template, op *Operation) ([]string, error) {
	var list []string
	for _, t := range templates {
		value, err := t.value(op)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		values := []canonical.Value{value}
		if value.Kind() == canonical.Array {
			values = slices.Collect(value.Items())
		}
		for _, v := range values {
			if v.Kind() != canonical.String || !isMailbox(v.Text()) {
				return nil, fmt.Errorf("%s: number %d is not a bare mail address such as nora@example.com", where, len(list)+1)
			}
			if list = append(list, v.Text()); len(list) > MaxRecipients {
				return nil, fmt.Errorf("%s: at most %d addresses are sent to", where, MaxRecipients)
			}
		}
	}
	return list, nil
}

// different leaves out repeats, whatever their case: nobody gets a message twice.
func different(list []string) []string {
	var kept []string
	for _, address := range list {
		if !slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, address) }) {
			kept = append(kept, address)
		}
	}
	return kept
}

// An address is what RFC 5321, section 4.1.2 calls a Dot-string and a Domain. Quoted parts, comments, routes and address literals are
// left out: they are rare, and what is hostile comes in them.
var (
	localPart = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	domain    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
)

func isMailbox(text string) bool {
	local, host, found := strings.Cut(text, "@")
	return found && len(text) <= maxAddress && len(local) <= 64 && localPart.MatchString(local) && domain.MatchString(host)
}
