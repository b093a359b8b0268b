// Package sandboxtest gives a test its own sandbox provider.
package sandboxtest

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// New starts a sandbox in this process, on free ports and a fresh directory, and returns its client, which also tells
// where mail goes (Client.SMTPAddr). The options change the configuration before it starts. It stops, and must stop
// cleanly, when the test ends.
func New(tb testing.TB, options ...func(*sandbox.Config)) *sandbox.Client {
	tb.Helper()
	cfg := sandbox.Config{DataDir: tb.TempDir(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, option := range options {
		option(&cfg)
	}
	client, stop := Start(tb, cfg)
	tb.Cleanup(stop)
	return client
}

// Start runs a sandbox with this configuration until stop is called, which waits for it to end. Tests that restart a
// sandbox on the same directory use it.
func Start(tb testing.TB, cfg sandbox.Config) (client *sandbox.Client, stop func()) {
	tb.Helper()
	server, err := sandbox.New(cfg)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	return sandbox.NewClient(server.URL()), func() {
		tb.Helper()
		cancel()
		require.NoError(tb, <-ended)
	}
}
