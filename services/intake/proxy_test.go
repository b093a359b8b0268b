package intake_test

import (
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// proxy stands between intake and Postgres, and can fail.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	down  bool
	mutes bool
	conns map[net.Conn]bool
}

// newProxy is a proxy in front of the world's database, and the address of the database through it.
func newProxy(w *world) (*proxy, string) {
	w.t.Helper()
	address, err := url.Parse(w.db.URL)
	require.NoError(w.t, err)
	p := &proxy{target: address.Host, conns: map[net.Conn]bool{}}
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	address.Host = p.listener.Addr().String()
	go p.serve()
	w.t.Cleanup(func() { p.listener.Close(); p.cut(true) })
	return p, address.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			continue
		}
		go func() { _, _ = io.Copy(server, client); server.Close() }()
		go func() { _, _ = io.Copy(answers{p, client}, server); client.Close() }()
	}
}

// answers is the way back, on which things can be lost.
type answers struct {
	*proxy
	to net.Conn
}

func (a answers) Write(data []byte) (int, error) {
	a.mu.Lock()
	muted := a.mutes
	a.mu.Unlock()
	if muted {
		return len(data), nil
	}
	return a.to.Write(data)
}

// mute loses everything that Postgres says until the next cut.
func (p *proxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mutes = true
}

func (p *proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// cut ends all connections; where it stays down, new ones end at once, too.
func (p *proxy) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.mutes = down, false
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}

// restore lets connections through again.
func (p *proxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}
