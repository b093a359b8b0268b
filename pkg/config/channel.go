package config

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"time"
)

// defaultDelivery is how long one delivery may take. A slow channel delays nobody's decision, only its own notice.
const defaultDelivery = 10 * time.Second

var channelKinds = []string{ChannelWebhook, ChannelEmail, ChannelSlack, ChannelTeams}

func (d *declared) readChannels(o *object) {
	seen := map[string]Position{}
	for _, part := range o.objects("notify") {
		c := &Channel{
			ID:      part.id("id", slug),
			Kind:    part.oneOf("kind", channelKinds...),
			Roles:   part.texts("roles", nil),
			Timeout: part.duration("timeout", defaultDelivery),
		}
		if belongs(part, ChannelWebhook, c.Kind) {
			c.Webhook = d.readWebhook(part.needObject("webhook"))
		}
		if belongs(part, ChannelEmail, c.Kind) {
			c.Email = d.readEmail(part.needObject("email"))
		}
		for _, kind := range []string{ChannelSlack, ChannelTeams} {
			if belongs(part, kind, c.Kind) {
				c.Chat = d.readChat(part.needObject(kind), kind)
			}
		}
		unique(seen, part, "id", c.ID)
		part.close()
		d.places[c] = part
		d.Channels = append(d.Channels, c)
	}
}

// belongs reports whether the settings called as a kind are those of a channel, and refuses those of another kind.
func belongs(o *object, settings, kind string) bool {
	written := o.take(settings) != nil
	if written && kind != settings && slices.Contains(channelKinds, kind) {
		o.fail(settings, "is for kind %s; this channel's kind is %s", settings, kind)
	}
	return kind == settings
}

func (d *declared) readWebhook(o *object) *Webhook {
	w := &Webhook{
		URL:        d.loader.expand(o, "url", o.text("url")),
		Secret:     d.readSecret(o),
		SecretEnv:  o.optID("secret_env", variable),
		SecretFile: o.optText("secret_file"),
	}
	address := absoluteURL(o, "url", w.URL)
	if address != nil && (address.User != nil || address.Fragment != "") {
		o.fail("url", "must have no user or fragment; deliveries are signed instead")
		address = nil
	}
	w.AllowedHosts = d.hosts(o, "url", address)
	o.oneSecret("webhook")
	o.close()
	return w
}

// oneSecret complains unless the secret is in one place.
func (o *object) oneSecret(of string) {
	o.oneOfSettings(of, "secret", "secret_env", "secret_file")
}

// oneOfSettings complains unless exactly one of several settings is written.
func (o *object) oneOfSettings(of string, names ...string) {
	written := 0
	for _, name := range names {
		if o.take(name) != nil {
			written++
		}
	}
	if written != 1 {
		o.problems.add(o.pos, "%s must have exactly one of %s; it has %d", of, strings.Join(names, ", "), written)
	}
}

// soleRef is a text that is one variable and nothing else.
var soleRef = regexp.MustCompile(`^` + variableRef.String() + `$`)

// readSecret takes a secret from the environment alone: one in the files would be in every copy of them. Complaints
// never quote it.
func (d *declared) readSecret(o *object) string {
	if o.take("secret") == nil {
		return ""
	}
	ref := o.optText("secret")
	if !soleRef.MatchString(ref) {
		o.fail("secret", "must be ${NAME} or ${NAME:-default}, which keeps the secret out of this file; or use "+
			"secret_env or secret_file")
		return ""
	}
	secret := d.loader.expand(o, "secret", ref)
	unset := secret == "" && !strings.Contains(ref, ":-") // reported by expand
	if !unset && !isSecret(secret) {
		o.fail("secret", "must be whsec_ and the base64 of 24 to 64 random bytes, as Standard Webhooks has it")
	}
	return secret
}

// isSecret checks a signing secret's form in the Standard Webhooks specification.
func isSecret(text string) bool {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	return ok && err == nil && len(key) >= 24 && len(key) <= 64
}

func (d *declared) readEmail(o *object) *Email {
	e := &Email{
		Server:      d.loader.expand(o, "server", o.text("server")),
		From:        o.address("from"),
		UsernameEnv: o.optID("username_env", variable),
		PasswordEnv: o.optID("password_env", variable),
		TLS:         o.oneOf("tls", TLSNone, TLSStart, TLSImplicit),
	}
	e.To = o.texts("to", func(at Position, text string) {
		if !isAddress(text) {
			o.problems.add(at, "to has %s, which must be a mail address such as nora@example.com", quote(text))
		}
	})
	if len(e.To) == 0 {
		o.fail("to", "must list at least one mail address")
	}
	if host := hostPort(o, "server", e.Server); e.TLS == TLSNone && host != "" && !Loopback(host) {
		o.fail("tls", "is %s, which is for a server on this machine; for %s, allowed: %s, %s", TLSNone, host, TLSStart,
			TLSImplicit) // A2: what leads to a decision leaves the machine encrypted only
	}
	e.Template = d.readTemplate(o.object("template"), true)
	if (e.UsernameEnv == "") != (e.PasswordEnv == "") {
		o.problems.add(o.pos, "email must have both username_env and password_env, or neither")
	}
	o.close()
	return e
}
