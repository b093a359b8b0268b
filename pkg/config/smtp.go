package config

import (
	"net/url"
	"strings"
	"time"
)

// defaultMail is how long one message may take, from connecting to the answer to its end. RFC 5321, section 4.5.3.2.6 lets servers
// take ten minutes for that answer alone: the longer this is, the fewer messages are left to an operator.
const defaultMail = time.Minute

// MailServer is the SMTP server that a connector of kind smtp hands messages to.
type MailServer struct {
	Server   string // host:port
	TLS      string // TLSStart or TLSImplicit; TLSNone to this machine alone
	From     string // bare address, of the envelope and of the message
	Username SecretRef
	Password SecretRef // of the login; both are unset where the server asks for none
}

// Mail is what an operation of a connector of kind smtp sends. All texts are templates over the approved intent.
type Mail struct {
	To      []string // each yields a bare address, or a list of them
	Cc      []string // likewise
	ReplyTo string   // a bare address, "" for none
	Subject string
	Text    string
	HTML    string // the same as Text for readers of HTML; values are escaped; "" for none
}

// What belongs to connectors of kind smtp alone, and what they do not have: mail is neither found by reading nor sent twice under one
// key, so nothing can be declared that relies on either (P6, D13).
var (
	ofMailAlone = []string{"server", "tls", "from", "username_env", "username_file", "password_env", "password_file"}
	ofSendAlone = []string{"to", "cc", "reply_to", "subject", "text", "html"}
	notOfMail   = []string{"base_url", "bearer_env", "bearer_file", "basic", "api_key", "oauth2", "hmac", "max_response", "webhook",
		"leave_within"}
	notOfSend = append([]string{"key_window", "key_margin", "replays"}, notOfCommands...)
)

// Mailer reports whether the connector hands messages to a mail server.
func (c *Connector) Mailer() bool { return c.Kind == ConnectorSMTP }

// Lookups reports whether the system behind the connector can be read at all.
func (c *Connector) Lookups() bool { return !c.Executor() && !c.Mailer() }

// readMailer reads whom messages are handed to.
func (d *declared) readMailer(part *object, c *Connector) {
	const why = "is not for kind smtp"
	m := &MailServer{
		Server:   d.loader.expand(part, "server", part.text("server")),
		TLS:      part.oneOf("tls", TLSNone, TLSStart, TLSImplicit),
		From:     part.address("from"),
		Username: part.secretRef("username", false), Password: part.secretRef("password", false),
	}
	c.Mail, c.CAFile = m, part.optText("ca_file")
	c.Timeout = part.duration("timeout", defaultMail)
	host := hostPort(part, "server", m.Server)
	if m.TLS == TLSNone && host != "" && !Loopback(host) {
		part.fail("tls", "is %s, which is for a server on this machine; for %s, allowed: %s, %s", TLSNone, host, TLSStart, TLSImplicit)
	}
	if m.Username.Set() != m.Password.Set() {
		part.problems.add(part.pos, "a login must have both username_env or username_file and password_env or password_file, or none")
	}
	var address *url.URL
	if host != "" {
		c.BaseURL = m.Scheme() + "://" + m.Server // an intent is authorized for it (A11)
		address = &url.URL{Host: m.Server}
	}
	c.AllowedHosts = d.hosts(part, "server", address)
	part.refuse(why, notOfMail...)
	c.Operations = readOperations(part, func(op *object) *Operation {
		op.refuse(why, notOfSend...)
		return &Operation{Mail: readMail(op)}
	})
}

// Scheme is that of the server's address as a URL: smtps where TLS comes first.
func (m *MailServer) Scheme() string {
	if m.TLS == TLSImplicit {
		return "smtps"
	}
	return "smtp"
}

func readMail(o *object) *Mail {
	m := &Mail{To: o.templates("to"), Cc: o.templates("cc"), ReplyTo: o.optTemplate("reply_to"), Subject: o.text("subject"),
		Text: o.text("text"), HTML: o.optTemplate("html")}
	o.checkTemplate(o.at("subject"), "subject", m.Subject)
	o.checkTemplate(o.at("text"), "text", m.Text)
	if o.take("to") == nil {
		o.fail("to", "is missing; it must be a template, or a list of them")
	} else if len(m.To) == 0 && len(o.items("to")) == 0 {
		o.fail("to", "must list at least one template")
	}
	if kind := o.optText("kind"); kind != OperationSend && kind != "" {
		o.fail("kind", "is %s, and mail can only be sent, allowed: %s", quote(kind), OperationSend)
	}
	return m
}

func (o *object) optTemplate(name string) string {
	text := o.optText(name)
	o.checkTemplate(o.at(name), name, text)
	return text
}

// templates reads one template or a list of different ones.
func (o *object) templates(name string) []string {
	node := o.take(name)
	if node == nil {
		return nil
	}
	if _, single := textOf(node); single {
		if text := o.optTemplate(name); text != "" {
			return []string{text}
		}
		o.fail(name, "must not be empty")
		return nil
	}
	return o.texts(name, func(at Position, text string) {
		if o.checkTemplate(at, name, text); strings.TrimSpace(text) == "" {
			o.problems.add(at, "%s has an empty text", name)
		}
	})
}
