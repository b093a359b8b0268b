package config

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"text/template"
	"unicode/utf8"
)

// messagesDir holds the texts of messages of a tenant's channels.
const messagesDir = "messages"

// Bounds of a rendered message, in characters. A chat program shows no more in one piece.
const (
	maxSubject = 200
	maxMessage = 2000
)

// MessageTemplate is what a channel says instead of the usual words: Go text/templates of which each takes nothing but the fields of
// MessageFields. "" leaves the usual ones.
type MessageTemplate struct {
	Subject string // of mail alone
	Text    string
}

// MessageFields are all that a template can take. There is no field with personal data, an amount or a word of the proposal, so no
// template can send them to a chat (A18).
type MessageFields struct {
	ActionType string
	Risk       string // a Risk… constant
	Tenant     string // as it is shown
	DecideBy   string // in words, in UTC
	TimeLeft   string // in words
	Kind       string // request, reminder or escalation
	Link       string
	// CorrelationID is for mail alone: it is the sender's own text, and a chat has more readers than a mailbox.
	CorrelationID string
}

var (
	chatFields = []string{"ActionType", "Risk", "Tenant", "DecideBy", "TimeLeft", "Kind", "Link"}
	mailFields = append(chatFields[:len(chatFields):len(chatFields)], "CorrelationID")
)

// example is what each template is rendered with when it is loaded.
var example = MessageFields{ActionType: "payment.refund", Risk: RiskHigh, Tenant: "Demo", DecideBy: "Mon, 30 Nov 2026 15:00:00 UTC",
	TimeLeft: "3 hours 20 minutes", Link: "https://approvals.example.com/l/example", CorrelationID: "t-1"}

// RenderMessage fills one text of a MessageTemplate in.
func RenderMessage(text string, fields *MessageFields) (string, error) {
	parsed, err := template.New("message").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = parsed.Execute(&b, fields)
	return strings.TrimSpace(b.String()), err
}

// readTemplate is nil where the channel has none.
func (d *declared) readTemplate(o *object, mail bool) *MessageTemplate {
	if o == nil {
		return nil
	}
	m, allowed := &MessageTemplate{}, chatFields
	if mail {
		allowed = mailFields
		m.Subject = d.inline(o, "subject", allowed)
		d.checkMessage(o.at("subject"), m.Subject, func(shown string) error {
			if strings.ContainsAny(shown, "\r\n") || utf8.RuneCountInString(shown) > maxSubject {
				return fmt.Errorf("gives a subject that is not one line of at most %d characters", maxSubject)
			}
			return nil
		})
	}
	m.Text = d.inline(o, "text", allowed)
	at := o.at("text")
	if name := o.optID("file", promptFile); promptFile.pattern.MatchString(name) {
		m.Text, at = d.messageFile(o, name, allowed)
	}
	d.checkMessage(at, m.Text, func(shown string) error {
		switch {
		case mail && !strings.Contains(shown, example.Link):
			return errors.New("must have {{.Link}}, without which nobody finds the request")
		case !mail && utf8.RuneCountInString(shown) > maxMessage:
			return fmt.Errorf("gives a message of more than %d characters, which chat programs do not show", maxMessage)
		}
		return nil
	})
	o.checkTemplateMembers(mail)
	o.close()
	return m
}

// checkTemplateMembers holds a template to one text, and that of a chat to at least one.
func (o *object) checkTemplateMembers(mail bool) {
	if !mail {
		o.oneOfSettings("template", "text", "file")
		return
	}
	text, file := o.take("text") != nil, o.take("file") != nil
	if text && file || !text && !file && o.take("subject") == nil {
		o.problems.add(o.pos, "template must have subject, or one of text and file, or both; found subject %t, text %t, file %t",
			o.take("subject") != nil, text, file)
	}
}

// inline reads a template that is written in the file itself.
func (d *declared) inline(o *object, name string, allowed []string) string {
	if o.take(name) == nil {
		return ""
	}
	text := o.text(name)
	places := o.placesOf(name, text, d.loader.files[o.pos.File])
	return d.vetted(text, allowed, func(offset int) Position {
		if runes := utf8.RuneCountInString(text[:offset]); runes < len(places) {
			return Position{o.pos.File, int(places[runes].line), int(places[runes].column)}
		}
		return o.at(name)
	})
}

func (d *declared) messageFile(o *object, name string, allowed []string) (text string, at Position) {
	file := path.Join(d.folder, messagesDir, name)
	data := d.loader.read(file, o.at("file"))
	if data != nil && len(bytes.TrimSpace(data)) == 0 {
		d.loader.add(Position{file, 1, 1}, "must not be empty")
	}
	return d.vetted(string(data), allowed, func(offset int) Position { return offsetPosition(file, data, offset) }), Position{file, 1, 1}
}

// vetted is the text, or "" and a problem where it is no template of ours.
func (d *declared) vetted(text string, allowed []string, at func(offset int) Position) string {
	if offset, err := vetMessage(text, allowed); err != nil {
		d.loader.add(at(offset), "the template %v", err)
		return ""
	}
	return text
}

// checkMessage renders the template for each kind of message and looks at what comes out.
func (d *declared) checkMessage(at Position, text string, check func(shown string) error) {
	if text == "" {
		return
	}
	for _, kind := range []string{"request", "reminder", "escalation"} {
		fields := example
		fields.Kind = kind
		shown, err := RenderMessage(text, &fields)
		if err == nil && shown == "" {
			err = fmt.Errorf("says nothing where .Kind is %s", kind)
		}
		if err == nil {
			err = check(shown)
		}
		if err != nil {
			d.loader.add(at, "the template %v", err)
			return
		}
	}
}
