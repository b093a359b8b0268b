package connector

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// allowList decides where connections may go (D12). An entry is a host name, an IP address or a CIDR range; names and
// addresses may carry a port, without which any port is allowed. Two things are checked for each connection:
//
//  1. the name or address that is asked for must be listed;
//  2. the address that is really dialled must be public, or be listed itself as an address or range. A name that suddenly
//     resolves to the cloud's metadata service, to loopback or to the internal network is so refused, while an internal
//     system is reached by listing its range, such as 10.0.0.0/8. "localhost" may be loopback.
type allowList struct {
	names    []hostPort
	prefixes []prefixPort
}

type hostPort struct{ host, port string }

type prefixPort struct {
	prefix netip.Prefix
	port   string
}

// newAllowList reads the entries. Without any, the base URL's own host and port are the list.
func newAllowList(entries []string, base *url.URL) (*allowList, error) {
	if len(entries) == 0 {
		entries = []string{net.JoinHostPort(base.Hostname(), portOf(base))}
	}
	list := new(allowList)
	var errs []error
	for _, entry := range entries {
		if err := list.add(entry); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, list.checkName(net.JoinHostPort(base.Hostname(), portOf(base)))
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

func (l *allowList) add(entry string) error {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		l.prefixes = append(l.prefixes, prefixPort{prefix.Masked(), ""})
		return nil
	}
	host, port := entry, ""
	if h, p, err := net.SplitHostPort(entry); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	if _, err := strconv.ParseUint(cmp.Or(port, "0"), 10, 16); err != nil {
		return fmt.Errorf("allowed host %q: its port is not a number up to 65535", entry)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		l.prefixes = append(l.prefixes, prefixPort{netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), port})
		return nil
	}
	if host == "" || strings.ContainsAny(host, "/:*@ ") {
		return fmt.Errorf("allowed host %q is not a host, host:port, address or CIDR range", entry)
	}
	l.names = append(l.names, hostPort{normalName(host), port})
	return nil
}

func normalName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

func isLoopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return normalName(host) == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// checkName decides about host:port before it is resolved.
func (l *allowList) checkName(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if l.listed(ip, port) {
			return nil
		}
	} else if slices.ContainsFunc(l.names, func(n hostPort) bool {
		return n.host == normalName(host) && (n.port == "" || n.port == port)
	}) {
		return nil
	}
	return fmt.Errorf("%s is not among the connector's allowed hosts", address)
}

// checkAddress decides about the IP address that a name resolved to.
func (l *allowList) checkAddress(name, address string) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	ip := resolved.Addr().Unmap().WithZone("")
	host, _, _ := net.SplitHostPort(name)
	if l.listed(ip, strconv.Itoa(int(resolved.Port()))) || isPublic(ip) || (normalName(host) == "localhost" && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s leads to %s, which is not public; if that is right, add the address or its range to the"+
		" connector's allowed hosts", name, ip)
}

func (l *allowList) listed(ip netip.Addr, port string) bool {
	return slices.ContainsFunc(l.prefixes, func(p prefixPort) bool {
		return p.prefix.Contains(ip.Unmap()) && (p.port == "" || p.port == port)
	})
}

// special are the ranges of the IANA special-purpose registries (RFC 6890) that netip does not name.
var special = func() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"192.88.99.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}()

// global is all of IPv6 that is given out for use on the internet. What lies outside are old and new ways to name something inside,
// such as IPv4 addresses in IPv6 ones, site-local and translated ones.
var global = netip.MustParsePrefix("2000::/3")

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || global.Contains(ip)) &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}
