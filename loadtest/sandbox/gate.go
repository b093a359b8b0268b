package sandbox

import (
	"net"
	"sync"
	"time"
)

// gate is a listener that can be closed for a while and opened again on the same address, so that dialling is really
// refused in between.
type gate struct {
	addr string

	mu     sync.Mutex
	inner  net.Listener
	shut   chan struct{} // not nil while refusing; closed when open again or closed for good
	closed bool
}

func openGate(addr string) (*gate, error) {
	inner, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &gate{addr: inner.Addr().String(), inner: inner}, nil
}

// Accept waits for the next connection, and through times of refusal.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.mu.Lock()
		inner, shut, closed := g.inner, g.shut, g.closed
		g.mu.Unlock()
		switch {
		case closed:
			return nil, net.ErrClosed
		case shut != nil:
			<-shut
			continue
		}
		conn, err := inner.Accept()
		if err == nil || !g.refusing() {
			return conn, err
		}
	}
}

func (g *gate) refusing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil && !g.closed
}

// refuse closes the listener for d and calls reopened once it listens again. A second call while refusing is ignored.
func (g *gate) refuse(d time.Duration, reopened func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil || g.closed {
		return
	}
	g.shut = make(chan struct{})
	g.inner.Close()
	time.AfterFunc(d, func() { g.reopen(reopened) })
}

// reopen tries until the address can be had again.
func (g *gate) reopen(reopened func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	inner, err := net.Listen("tcp", g.addr)
	if err != nil {
		time.AfterFunc(50*time.Millisecond, func() { g.reopen(reopened) })
		return
	}
	g.inner = inner
	close(g.shut)
	g.shut = nil
	reopened()
}

// Close closes the listener for good.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	if g.shut != nil { // the inner listener is closed already
		close(g.shut)
		return nil
	}
	return g.inner.Close()
}

// Addr is the address that the gate was opened on.
func (g *gate) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inner.Addr()
}
