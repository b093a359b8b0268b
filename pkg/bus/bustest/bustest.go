// Package bustest gives each test a broker of its own in one line.
//
//	b := bustest.New(t, "acme")
//	results := b.Conn.NewPublisher("test").PublishBatch(ctx, messages)
//
// The server runs in the test's process on a free port and keeps its streams in the test's temporary directory.
package bustest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// Bus is a server, a connection to it, and what was provisioned.
type Bus struct {
	Server   *bus.EmbeddedServer
	Conn     *bus.Conn
	Topology bus.Topology
}

// URL is the server's address with credentials that allow everything.
func (b *Bus) URL() string { return b.Server.URL() }

// TenantURL is the server's address with the credentials of one of the tenants, who reaches its own subjects alone.
func (b *Bus) TenantURL(tenant string) string {
	return "nats://" + tenant + ":" + tenant + b.URL()[strings.LastIndexByte(b.URL(), '@'):]
}

// New starts a server with the streams of the given tenants; everything ends with the test.
func New(t testing.TB, tenants ...string) *Bus {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	users := []bus.User{{Name: "test", Password: "test"}}
	for _, tenant := range tenants {
		users = append(users, bus.User{Name: tenant, Password: tenant, Tenant: tenant})
	}
	server, err := bus.Embedded(ctx, bus.EmbeddedConfig{Dir: t.TempDir(), Users: users, Logger: quiet})
	if err != nil {
		t.Fatalf("bustest: %v", err)
	}
	t.Cleanup(server.Close)
	b := &Bus{Server: server, Conn: Connect(t, server.URL()), Topology: bus.NewTopology(tenants)}
	for i := range b.Topology.Streams {
		b.Topology.Streams[i].MaxBytes = 64 << 20 // The broker reserves what it promises; many tests share a disk.
	}
	if err := bus.Provision(ctx, b.Conn, b.Topology); err != nil {
		t.Fatalf("bustest: %v", err)
	}
	return b
}

// Connect opens another connection to the server at url; it is closed when the test ends.
func Connect(t testing.TB, url string) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(context.Background(), bus.ConnectConfig{
		URL: url, Name: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("bustest: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}
