package config

import (
	"errors"
	"net/url"
	"strings"
)

// Chat is an incoming webhook of a chat program. Whoever knows its address can post there, so the address is a secret: exactly one of
// URL, URLEnv and URLFile is set, and none of them comes from the text of the configuration.
type Chat struct {
	URL          string   // the address itself, out of the environment; it must not be logged
	URLEnv       string   // environment variable that holds it
	URLFile      string   // file that holds it
	AllowedHosts []string // host or host:port that may be dialled, checked at connect time (D12); empty is the address's own
	Template     *MessageTemplate
}

// ChatAddress reads the address of an incoming webhook: https, or http to this machine. Errors never quote it.
func ChatAddress(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())) {
		return nil, errors.New("must be an https URL (it is a secret, and is not shown here)")
	}
	if u.User != nil || u.Fragment != "" {
		return nil, errors.New("must have no user or fragment (it is a secret, and is not shown here)")
	}
	return u, nil
}

func (d *declared) readChat(o *object, kind string) *Chat {
	c := &Chat{
		URL:     d.readChatURL(o),
		URLEnv:  o.optID("url_env", variable),
		URLFile: o.optText("url_file"),
	}
	o.oneOfSettings(kind, "url", "url_env", "url_file")
	address, err := ChatAddress(c.URL)
	if err != nil && c.URL != "" {
		o.fail("url", "%v", err)
	}
	c.AllowedHosts = d.hosts(o, "url", address)
	if address == nil { // it is not known here, so hosts has not looked
		for _, host := range c.AllowedHosts {
			if !isHost(host) {
				o.fail("allowed_hosts", "has %s, which must be host or host:port", quote(host))
			}
		}
	}
	c.Template = d.readTemplate(o.object("template"), false)
	o.close()
	return c
}

// readChatURL takes the address from the environment alone: no default, which would stand in the file. Complaints never quote it.
func (d *declared) readChatURL(o *object) string {
	if o.take("url") == nil {
		return ""
	}
	name, isRef := strings.CutPrefix(o.optText("url"), "${")
	name, closed := strings.CutSuffix(name, "}")
	if !isRef || !closed || !variable.pattern.MatchString(name) {
		o.fail("url", "must be ${NAME}, without a default: who knows the address can post there, so it is kept out of this file; "+
			"or use url_env or url_file")
		return ""
	}
	value, _ := d.loader.getenv(name)
	if value == "" {
		o.fail("url", "needs the environment variable %s, which is not set", name)
	}
	return value
}
