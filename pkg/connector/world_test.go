package connector

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// declaration is a connector with one operation of each shape that the tests need.
func declaration(baseURL string) *config.Connector {
	return &config.Connector{
		ID: "sandbox", BaseURL: baseURL, Timeout: 5 * time.Second, MaxResponse: 4096,
		Operations: []*config.Operation{
			{
				Name: "pay", Kind: config.OperationCreate, Method: "POST", Path: "/v1/payments",
				Body:              map[string]any{"amount": "${proposed_change.amount}", "reference": "${operation_id}"},
				IdempotencyHeader: "Idempotency-Key",
				Success:           config.Success{ExternalID: "/id"},
				BusyStatuses:      []int{503},
				ErrorCode:         "/error/code", InProgressCode: "key_in_use", KeyReusedCode: "key_reused",
				ReceiptVersion: "/version", RequestIDHeader: "X-Request-Id",
				Lookup: &config.Lookup{
					Path: "/v1/payments?reference=${operation_id}", Items: "/items", ExternalID: "/id", Match: "/reference",
					Version: "/version", Conclusive: true,
				},
			},
			{
				Name: "update", Kind: config.OperationUpdate, Method: "PUT", Path: "/v1/contacts/${target.record_id}",
				Body:              "${proposed_change}",
				IdempotencyHeader: "Idempotency-Key",
				Conditional:       &config.Conditional{Header: "If-Match", Value: `"${current_version}"`},
				Read:              &config.Read{Path: "/v1/contacts/${target.record_id}", Version: "/version"},
				Lookup:            &config.Lookup{Path: "/v1/contacts/${target.record_id}", ExternalID: "/id", Match: "/op"},
			},
			{
				Name: "delete", Kind: config.OperationDelete, Method: "DELETE", Path: "/v1/contacts/${target.record_id}",
				IdempotencyHeader: "Idempotency-Key",
			},
		},
	}
}

func operationNamed(t *testing.T, name string) Operation {
	t.Helper()
	action, err := canonical.Parse([]byte(`{"target":{"system":"crm","record_id":"c-1"},"current_version":"v7",` +
		`"proposed_change":{"amount":9007199254740993.10}}`))
	require.NoError(t, err)
	return Operation{Name: name, Action: action, OperationID: "op-1", IdempotencyKey: "key-1", TenantID: "acme", CorrelationID: "corr-1"}
}

func allow() error { return nil }

// connect makes a connector; change may edit its declaration and its needs.
func connect(t *testing.T, baseURL string, change func(*Config)) *Connector {
	t.Helper()
	c := Config{Connector: declaration(baseURL)}
	if change != nil {
		change(&c)
	}
	k, err := New(c)
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k
}

func prepare(t *testing.T, k *Connector, name string) *Request {
	t.Helper()
	r, err := k.Prepare(t.Context(), operationNamed(t, name))
	require.NoError(t, err)
	return r
}

// serve starts a provider.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// answering serves one fixed answer.
func answering(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// wire is a provider on bare TCP, whose script decides what happens to each connection.
type wire struct {
	url      string
	mu       sync.Mutex
	received int // bytes read on all connections
	requests int // whole requests read
	conns    int
	open     []net.Conn
	scripts  sync.WaitGroup
}

// done waits until all connections are over.
func (w *wire) done() { w.scripts.Wait() }

// end closes every connection.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		c.Close()
	}
}

func (w *wire) counts() (received, requests, conns int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received, w.requests, w.conns
}

// counted counts what the provider reads.
type counted struct {
	net.Conn
	wire *wire
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.mu.Lock()
	c.wire.received += n
	c.wire.mu.Unlock()
	return n, err
}

// listen runs script on every connection and closes the connection after it.
func listen(t *testing.T, script func(w *wire, c net.Conn, in *bufio.Reader)) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{url: "http://" + listener.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
		w.done()
	})
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns++
			w.open = append(w.open, c)
			w.mu.Unlock()
			w.scripts.Go(func() {
				defer c.Close()
				script(w, c, bufio.NewReader(&counted{c, w}))
			})
		}
	})
	return w
}

// readRequest reads one whole request and reports whether there was one.
func (w *wire) readRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return false
	}
	w.mu.Lock()
	w.requests++
	w.mu.Unlock()
	return true
}

// reset makes closing the connection send RST instead of FIN.
func reset(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }
