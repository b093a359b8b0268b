package crash

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// control is where a service that reaches a "mid" boundary, and the sandbox that has accepted a write, tell the
// harness, and wait for its reply before they go on.
type control struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}

	mu    sync.Mutex
	hooks map[string]func() error
}

func newControl() (*control, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for what is told to the harness: %w", err)
	}
	c := &control{listener: listener, served: make(chan struct{}), hooks: map[string]func() error{}}
	c.server = &http.Server{Handler: c}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // ends with close
	}()
	return c, nil
}

// on calls do for each request to the address that it returns. An error is what the caller is answered with.
func (c *control) on(name string, do func() error) (url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks["/"+name] = do
	return "http://" + c.listener.Addr().String() + "/" + name
}

// ServeHTTP runs the hook.
func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // who calls is known by the path
	c.mu.Lock()
	do := c.hooks[r.URL.Path]
	c.mu.Unlock()
	if do == nil {
		http.NotFound(w, r)
		return
	}
	if err := do(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (c *control) close() {
	_ = c.server.Shutdown(context.Background()) // hooks return at once
	<-c.served
}
