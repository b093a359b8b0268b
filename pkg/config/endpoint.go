package config

import (
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// absoluteURL is nil where the text is empty, which has been reported, and nil with a problem where it is no URL of a
// web server.
func absoluteURL(o *object, name, text string) *url.URL {
	if text == "" && o.optText(name) == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		o.fail(name, "is %s, which must be an absolute http or https URL", quote(text))
		return nil
	}
	return u
}

// hosts reads the hosts that may be dialled, and holds the URL of the member called name to them (D12). Where none are
// listed it is the URL's own.
func (d *declared) hosts(o *object, name string, base *url.URL) []string {
	var hosts []string
	for _, host := range o.texts("allowed_hosts", nil) {
		hosts = append(hosts, d.loader.expand(o, "allowed_hosts", host))
	}
	if base == nil {
		return hosts
	}
	if len(hosts) == 0 {
		hosts = []string{base.Host}
	}
	for _, host := range hosts {
		if !isHost(host) {
			o.fail("allowed_hosts", "has %s, which must be host or host:port", quote(host))
		}
	}
	if !slices.Contains(hosts, base.Host) && !slices.Contains(hosts, base.Hostname()) {
		o.fail("allowed_hosts", "lacks %s, the host of %s", quote(base.Host), name)
	}
	return hosts
}

// isHost tells a host or host:port from anything else.
func isHost(text string) bool {
	u, err := url.Parse("//" + text)
	return err == nil && u.Host == text && u.Hostname() != ""
}

// hostPort complains where the text is no host with a port, and gives the host.
func hostPort(o *object, name, text string) string {
	if text == "" {
		return "" // reported
	}
	host, port, err := net.SplitHostPort(text)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		o.fail(name, "is %s, which must be host:port, such as mail.example.com:587", quote(text))
		return ""
	}
	return host
}

// Loopback reports whether a host is this machine, judged by its name alone.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// isAddress reports whether the text is a bare mail address (RFC 5322 addr-spec).
func isAddress(text string) bool {
	parsed, err := mail.ParseAddress(text)
	return err == nil && parsed.Address == text
}

// address is a required bare mail address.
func (o *object) address(name string) string {
	text := o.text(name)
	if text != "" && !isAddress(text) {
		o.fail(name, "is %s, which must be a mail address such as nora@example.com", quote(text))
	}
	return text
}
