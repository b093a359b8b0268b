package connector

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// ClientConfig says whom a client may reach.
type ClientConfig struct {
	BaseURL      string        // absolute; its host is allowed where AllowedHosts is empty
	AllowedHosts []string      // host, host:port, address or range, checked by name and again by address
	Timeout      time.Duration // of a whole call
	TLS          *tls.Config   // nil trusts the system's authorities
}

// NewClient makes an HTTP client for calls that are no effects, such as notifications: it follows no redirect, asks no proxy, and
// connects only where it is allowed to (D12).
func NewClient(cfg ClientConfig) (*http.Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the address of a client: %w", err)
	}
	allowed, err := newAllowList(cfg.AllowedHosts, base)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := allowed.checkName(address); err != nil {
			return nil, err
		}
		dialer := &net.Dialer{Timeout: cfg.Timeout, Control: func(_, resolved string, _ syscall.RawConn) error {
			return allowed.checkAddress(address, resolved)
		}}
		return dialer.DialContext(ctx, network, address)
	}
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: unswitched{&http.Transport{
			DialContext: dial, TLSClientConfig: cfg.TLS.Clone(), MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxHeader,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// unswitched takes no 101 for an answer: no timeout would end a read of what follows it (see errSwitched).
type unswitched struct{ *http.Transport }

func (u unswitched) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.Transport.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		response.Body.Close()
		return nil, errSwitched
	}
	return response, err
}
