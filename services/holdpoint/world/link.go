package world

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is a TCP proxy between one client and one server. It can be cut, which ends its connections, and severed, which
// lets no new one through until it is mended. Its address stays the same when the server moves.
type link struct {
	listener net.Listener
	target   *atomic.Value // host:port of the server
	carry    carry

	mu      sync.Mutex
	severed bool
	open    map[net.Conn]bool // both ends of every connection
	running sync.WaitGroup
}

// carry moves bytes both ways until either side ends.
type carry func(client, server net.Conn)

// newLink listens on a free port. The target may be changed while the link is in use.
func newLink(target *atomic.Value, how carry) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, target: target, carry: how, open: map[net.Conn]bool{}}
	l.running.Go(l.accept)
	return l, nil
}

func (l *link) addr() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.running.Go(func() { l.connect(client) })
	}
}

func (l *link) connect(client net.Conn) {
	defer reset(client)
	if !l.track(client) {
		return
	}
	defer l.forget(client)
	server, err := net.Dial("tcp", l.target.Load().(string))
	if err != nil {
		return // the client sees a reset, as it would see a refusal
	}
	defer server.Close()
	if !l.track(server) {
		return
	}
	defer l.forget(server)
	l.carry(client, server)
}

func (l *link) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.severed {
		l.open[c] = true
	}
	return !l.severed
}

func (l *link) forget(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// cut ends every connection at once, as a failing network does.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		reset(c)
	}
}

// sever cuts, and lets nothing through from now on.
func (l *link) sever() {
	l.mu.Lock()
	l.severed = true
	l.mu.Unlock()
	l.cut()
}

// mend lets connections through again.
func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed = false
}

// close ends the link and waits for its goroutines.
func (l *link) close() {
	l.listener.Close()
	l.sever()
	l.running.Wait()
}

// reset ends a connection without a goodbye. What was on its way is lost.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may have ended by itself
	}
	_ = c.Close()
}

// plainly carries everything as it is.
func plainly(client, server net.Conn) {
	bothWays(client, server, func() { _, _ = io.Copy(server, client) }, func() { _, _ = io.Copy(client, server) })
}

// bothWays runs the two directions, and ends the second when the first has ended.
func bothWays(client, server net.Conn, up, down func()) {
	var directions sync.WaitGroup
	for _, direction := range []func(){up, down} {
		directions.Go(func() {
			direction()
			_ = errors.Join(client.Close(), server.Close())
		})
	}
	directions.Wait()
}
