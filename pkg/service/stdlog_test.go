package service_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/service"
)

// lines is a log that several write to.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestStandardLog is not parallel: the standard log is the process's. A real net/http says what it says of a server that speaks unasked.
func TestStandardLog(t *testing.T) {
	var out lines
	service.TakeStandardLog(slog.New(slog.NewJSONHandler(&out, nil)))
	t.Cleanup(func() { log.SetFlags(log.LstdFlags); log.SetOutput(os.Stderr) })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\nrita@example.com")
	}()
	client := &http.Client{Transport: &http.Transport{}}
	response, err := client.Get("http://" + listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Unsolicited response") }, 10*time.Second, 10*time.Millisecond)
	require.NotContains(t, out.String(), "rita@example.com")

	log.Printf("http: TLS handshake error from %s: EOF", "10.0.0.1:5000")
	require.Contains(t, out.String(), `"level":"WARN","msg":"a library reports","text":"http: TLS handshake error from 10.0.0.1:5000: EOF"}`)
}
