package connector

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errSecondWrite = errors.New("a second copy of the request was stopped")
	errEnded       = errors.New("the call had ended before the first byte")
)

// States of an attempt. It moves forward only:
//
//	fresh ── first write ──> gating ── gate agrees ──> open      bytes may have left
//	                           │                        └──> unsent    the kernel took none of them
//	                           └── gate refuses ──> refused
//
// finish turns fresh and gating into ended, after which nothing can be written any more: net/http writes in a goroutine of
// its own, which may still be on its way when an answer that nobody asked for has already ended RoundTrip.
const (
	fresh int32 = iota
	gating
	open
	unsent
	refused
	ended
)

// attempt is one write's leave to use a connection.
type attempt struct {
	ctx     context.Context // of the one call that the attempt belongs to
	gate    func() error
	state   atomic.Int32
	on      *conn // set before state is open
	gateErr error // set before state is refused
}

// admit runs the gate for the first write and refuses any connection but the one that got it.
func (a *attempt) admit(c *conn) (first bool, err error) {
	if !a.state.CompareAndSwap(fresh, gating) {
		if a.state.Load() == open && a.on == c {
			return false, nil
		}
		return false, errSecondWrite
	}
	err = a.gate()
	if err == nil {
		err = a.ctx.Err() // the gate may have taken longer than the call had
	}
	if err != nil {
		a.gateErr = err
		a.state.CompareAndSwap(gating, refused)
		return true, err
	}
	a.on = c
	c.listen()
	if !a.state.CompareAndSwap(gating, open) {
		return true, errEnded
	}
	return true, nil
}

// finish ends the attempt and reports whether bytes may have left, or why the gate refused.
func (a *attempt) finish() (sent bool, refusal error) {
	for {
		switch state := a.state.Load(); state {
		case open:
			return true, nil
		case refused:
			return false, a.gateErr
		case unsent, ended:
			return false, nil
		default:
			a.state.CompareAndSwap(state, ended)
		}
	}
}

// conn is a connection as net/http sees it: the TCP connection, or TLS over it.
type conn struct {
	net.Conn
	wire    *meter
	attempt atomic.Pointer[attempt] // nil lets reads' requests through
	heard   atomic.Bool             // something was read since listen
}

// listen begins to wait for an answer. net/http takes what a server has sent beyond its last answer for the next one, where the next
// request is faster than net/http's own look at it. An answer that was read before it was asked for is no answer.
func (c *conn) listen() {
	c.wire.heard.Store(false)
	c.heard.Store(false)
}

// answered reports whether anything came since listen. Below TLS as well, since TLS keeps what it has read ahead.
func (c *conn) answered() bool { return c.heard.Load() && c.wire.heard.Load() }

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, err
}

// meter counts the bytes that the kernel took, below TLS.
type meter struct {
	net.Conn
	taken atomic.Int64
	heard atomic.Bool
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if n > 0 {
		m.heard.Store(true)
	}
	return n, err
}

func (m *meter) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.taken.Add(int64(n))
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	a := c.attempt.Load()
	if a == nil {
		return c.Conn.Write(b)
	}
	first, err := a.admit(c)
	if err != nil {
		return 0, err
	}
	before := c.wire.taken.Load()
	n, err := c.Conn.Write(b)
	if first && err != nil && c.wire.taken.Load() == before {
		a.state.CompareAndSwap(open, unsent)
	}
	return n, err
}

// newTransport speaks HTTP/1.1 over wrapped connections, directly, and follows nothing.
func (k *Connector) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	concurrency := k.declared.Concurrency
	if concurrency == 0 {
		concurrency = DefaultConcurrency
	}
	return &http.Transport{
		DialContext:            k.dialPlain,
		DialTLSContext:         k.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    2 * concurrency, // lookups and reads run beside writes
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func (k *Connector) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	wire, err := k.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: wire, wire: wire}, nil
}

// dialTLS shakes hands before net/http gets the connection, so that its first write is the first byte of a request.
func (k *Connector) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	wire, err := k.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	settings := clientTLS(k.config.TLS, host)
	settings.NextProtos = []string{"http/1.1"}
	secure := tls.Client(wire, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		wire.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return &conn{Conn: secure, wire: wire}, nil
}

// clientTLS is the settings for one server: at least TLS 1.2, and its certificate verified.
func clientTLS(base *tls.Config, host string) *tls.Config {
	settings := base.Clone()
	if settings == nil {
		settings = new(tls.Config)
	}
	settings.MinVersion = max(settings.MinVersion, tls.VersionTLS12)
	settings.ServerName = cmp.Or(settings.ServerName, host)
	return settings
}

// withAuthorities trusts those of a PEM file besides the system's, "" for none.
func withAuthorities(base *tls.Config, file string, read func(string) ([]byte, error)) (*tls.Config, error) {
	if file == "" {
		return base, nil
	}
	text, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of ca_file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a machine without any of its own
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file %s holds no certificate in PEM", file)
	}
	settings := base.Clone()
	if settings == nil {
		settings = new(tls.Config)
	}
	settings.RootCAs = roots
	return settings, nil
}

func (k *Connector) dial(ctx context.Context, network, address string) (*meter, error) {
	return dialer{k.allowed, k.timeout, k.config.Dial}.dial(ctx, network, address)
}

// dialer opens connections to where they may go.
type dialer struct {
	allowed *allowList
	timeout time.Duration
	open    func(ctx context.Context, network, address string) (net.Conn, error) // nil is a net.Dialer
}

// dial connects and checks the allow-list: the name before, the address just before connecting where the dialler is ours,
// and the peer's address in any case.
func (d dialer) dial(ctx context.Context, network, address string) (*meter, error) {
	if err := d.allowed.checkName(address); err != nil {
		return nil, err
	}
	dial := d.open
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:   d.timeout,
			KeepAlive: 15 * time.Second,
			Control: func(_, resolved string, _ syscall.RawConn) error {
				return d.allowed.checkAddress(address, resolved)
			},
		}).DialContext
	}
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if peer, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		if err := d.allowed.checkAddress(address, peer.String()); err != nil {
			c.Close()
			return nil, err
		}
	}
	return &meter{Conn: c}, nil
}
