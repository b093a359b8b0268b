package demoidp

import (
	"net"
	"net/http"
	"sync"
)

// drain closes, once the server stops, the connections over which nothing was asked yet. Browsers open such connections
// in advance, and http.Server.Shutdown would wait five seconds for them to speak.
type drain struct {
	mu       sync.Mutex
	silent   map[net.Conn]bool
	stopping bool
}

func newDrain(server *http.Server) {
	d := &drain{silent: map[net.Conn]bool{}}
	server.ConnState = d.observe
	server.RegisterOnShutdown(d.stop)
}

func (d *drain) observe(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if state != http.StateNew {
		delete(d.silent, c)
		return
	}
	if d.stopping {
		_ = c.Close() // nothing was asked, so nobody misses the answer
		return
	}
	d.silent[c] = true
}

func (d *drain) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
	for c := range d.silent {
		_ = c.Close()
	}
}
