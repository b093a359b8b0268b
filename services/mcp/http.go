package mcp

import (
	"context"
	"fmt"
	"net"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// maxRequestBytes bounds a message. An event may have a MiB, and JSON in JSON takes a little more.
const maxRequestBytes = 2 << 20

// Handler is the streamable HTTP transport. It keeps no sessions, so that no caller can get into another's, and any
// number of processes can serve.
func (s *Server) Handler() http.Handler {
	streamable := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk },
		&sdk.StreamableHTTPOptions{Stateless: true, Logger: s.config.Log, MaxRequestBodyBytes: maxRequestBytes,
			PropagateRequestCancellation: true})
	return http.NewCrossOriginProtection().Handler(keyed(streamable))
}

// keyed lets those through who bring a key. Whether it is one, and what it may do, the API says on every call.
func keyed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bearer(r.Header) == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Send an API key of Holdpoint: Authorization: Bearer <key>.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Listen opens a port of the loopback interface. Any other address is refused: what listens there has to be a proxy
// that encrypts, because callers send their keys.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%q is no address to listen on, such as 127.0.0.1:7078: %w", addr, err)
	}
	if !config.Loopback(host) {
		return nil, fmt.Errorf("%q is not of the loopback interface: keys would cross the network in the open. "+
			"Listen on 127.0.0.1, behind a proxy that speaks TLS", addr)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for MCP clients: %w", err)
	}
	return listener, nil
}

// Serve serves callers over HTTP until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	return service.HTTP{Listener: listener, Handler: s.Handler()}.Run(ctx)
}
