package world

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// broker is an embedded NATS that can go away and come back, with or without its store. Who connects does so through
// links, whose addresses stay.
type broker struct {
	t      testing.TB
	log    *journal
	dir    string
	target *atomic.Value // host:port
	url    string        // the services' address, with credentials
	front  *link         // the tenant's way in
	server *bus.EmbeddedServer
	down   bool
}

func startBroker(t testing.TB, log *journal) *broker {
	t.Helper()
	b := &broker{t: t, log: log, dir: t.TempDir(), target: &atomic.Value{}}
	b.start()
	front, err := newLink(b.target, plainly)
	require.NoError(t, err)
	b.front = front
	return b
}

func (b *broker) start() {
	b.t.Helper()
	server, err := bus.Embedded(context.Background(), bus.EmbeddedConfig{Dir: b.dir, Logger: b.log.logger,
		Users: roster.BrokerUsers("secret", Tenant, "demo")})
	require.NoError(b.t, err)
	at, err := url.Parse(server.URL())
	require.NoError(b.t, err)
	b.server, b.url, b.down = server, server.URL(), false
	b.target.Store(at.Host)
}

func (b *broker) stop() {
	b.server.Close()
	b.down = true
}

func (b *broker) close() {
	b.front.close()
	if !b.down {
		b.server.Close()
	}
}

// StopBroker takes NATS away.
func (w *World) StopBroker() { w.broker.stop() }

// StartBroker brings NATS back, with what it had on disk.
func (w *World) StartBroker() {
	w.t.Helper()
	w.broker.start()
}

// WipeBroker kills NATS, deletes all that it had stored, and starts it empty (B4). It waits until the relay has seen
// the streams once: the loss of one that nobody has seen cannot be told from its first making.
func (w *World) WipeBroker() {
	w.t.Helper()
	streams := bus.NewTopology([]string{Tenant}).Streams
	w.Until("the relay knows the streams", func() bool {
		return w.Count("select count(*) from broker_epochs") == int64(len(streams))
	})
	w.broker.stop()
	require.NoError(w.t, os.RemoveAll(w.broker.dir))
	w.broker.start()
}

// LastSeq is the sequence of the newest message that a stream ever had, as the services would ask.
func (w *World) LastSeq(stream string) uint64 {
	w.t.Helper()
	w.mu.Lock()
	conn := w.running[0].conn
	w.mu.Unlock()
	info, err := conn.StreamInfo(context.Background(), stream)
	require.NoError(w.t, err)
	return info.LastSeq
}

// connectTenant logs in as the example tenant, with its rights and no others.
func (w *World) connectTenant() *nats.Conn {
	w.t.Helper()
	nc, err := nats.Connect(fmt.Sprintf("nats://%s:demo@%s", Tenant, w.broker.front.addr()), nats.MaxReconnects(-1),
		nats.ReconnectWait(pollEvery), nats.Timeout(answerWait), nats.Name("tenant"),
		nats.CustomInboxPrefix(bus.InboxPrefix(Tenant)))
	require.NoError(w.t, err)
	return nc
}
