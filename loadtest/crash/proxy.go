package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// proxy stands between one service and Postgres. It forwards everything, until it is told to cut: then it swallows
// what the server answers to the next transaction that holds a certain statement, and closes the connection, when
// the server has said that the transaction is over. So the commit has happened, and its answer is lost (STO-04).
type proxy struct {
	listener net.Listener
	upstream string
	sessions sync.WaitGroup

	mu   sync.Mutex
	next *cut
	gate <-chan struct{} // nil, or what new sessions wait for
	open map[net.Conn]bool
	done bool
}

// cut is one answer to be lost, or to be late.
type cut struct {
	fragment string        // SQL that the transaction holds
	made     chan struct{} // closed when the server has answered
	resume   chan struct{} // where not nil, the answer is not lost: it is let through when this is closed
	gate     chan struct{} // where not nil, the service finds no way to Postgres until this is closed
}

func newProxy(upstream string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen between a service and Postgres: %w", err)
	}
	p := &proxy{listener: listener, upstream: upstream, open: map[net.Conn]bool{}}
	p.sessions.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// arm has the answer to the next transaction with the fragment lost. A transaction that is open already counts: its
// COMMIT is what is to come.
func (p *proxy) arm(c *cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = c
}

// take makes a cut, once, whichever session comes first.
func (p *proxy) take(c *cut) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != c {
		return false
	}
	p.next, p.gate = nil, c.gate
	close(c.made)
	return true
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.sessions.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer p.forget(client)
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return // the service sees a lost connection, as it would without us
	}
	defer p.forget(server)
	if !p.keep(client) || !p.keep(server) {
		return
	}
	startup, err := readStartup(client)
	if err != nil {
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	s := &session{proxy: p, client: client, server: server, sql: statements{prepared: map[string]string{}}}
	var ways sync.WaitGroup
	ways.Go(s.requests)
	ways.Go(s.answers)
	ways.Wait()
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.open[c] = true
	}
	return !p.done
}

func (p *proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.done = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.sessions.Wait()
}

// session is one connection of the service.
type session struct {
	proxy          *proxy
	client, server net.Conn

	mu  sync.Mutex
	sql statements
}

// end closes both sides, which ends both ways.
func (s *session) end() {
	s.client.Close()
	s.server.Close()
}

// requests forwards what the service says.
func (s *session) requests() {
	defer s.end()
	s.forward(s.client, s.server, func(raw []byte) (verdict, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sql.client(raw)
		return pass, nil
	})
}

// answers forwards what Postgres says, but for the one answer that is to be lost. Where that is expected, nothing
// is let through before it is known how the transaction ended.
func (s *session) answers() {
	defer s.end()
	s.forward(s.server, s.client, func(raw []byte) (verdict, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		target := s.target()
		switch {
		case !idles(raw) && target != nil && raw[0] != wireReady:
			return hold, nil
		case !idles(raw):
			return pass, nil
		case target != nil && s.proxy.take(target):
			if target.resume == nil {
				return pass, errLost
			}
			<-target.resume
		}
		s.sql.rest()
		return pass, nil
	})
}

// target is the cut that this session's transaction is meant for. The session that asks at the transaction's end
// takes it.
func (s *session) target() *cut {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	if s.proxy.next == nil || !s.sql.executed(s.proxy.next.fragment) {
		return nil
	}
	return s.proxy.next
}

// errLost ends a session whose answer was lost on purpose.
var errLost = errors.New("the answer is lost")

// verdict is what becomes of a message.
type verdict int

const (
	pass verdict = iota // forward it with what was held
	hold                // keep it until the next that passes
)

// forward copies messages from one side to the other until either ends or judge says so.
func (s *session) forward(from io.Reader, to io.Writer, judge func(raw []byte) (verdict, error)) {
	in, out := bufio.NewReaderSize(from, 32<<10), bufio.NewWriterSize(to, 32<<10)
	var held []byte
	for {
		raw, err := readWire(in)
		if err != nil {
			return
		}
		v, err := judge(raw)
		if err != nil {
			return
		}
		if held = append(held, raw...); v == hold {
			continue
		}
		if _, err := out.Write(held); err != nil {
			return
		}
		held = held[:0]
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}
