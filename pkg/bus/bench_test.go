package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// BenchmarkThrough publishes in the relay's batches and consumes at the same time; msg/s is what came through.
func BenchmarkThrough(b *testing.B) {
	on := bustest.New(b)
	publisher := on.Conn.NewPublisher("relay")
	var got atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	all := make(chan struct{})
	cfg := policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
		if got.Add(int64(len(items))) >= int64(b.N) {
			cancel()
		}
		return ackAll(items)
	})
	cfg.Workers = 2
	go func() { defer close(all); _ = bus.Consume(ctx, on.Conn, cfg) }()
	data := make([]byte, 1024)
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		batch := make([]bus.Message, min(500, b.N-sent))
		for i := range batch {
			batch[i] = bus.Message{Subject: submitted, ID: fmt.Sprint(sent + i), Data: data}
		}
		for _, result := range publisher.PublishBatch(context.Background(), batch) {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
		}
		sent += len(batch)
	}
	<-all
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkPublish is what a tenant's account costs its publishers: the same messages into the same stream, from our
// account and from the tenant's, whose messages and their acknowledgements pass from one account to the other.
func BenchmarkPublish(b *testing.B) {
	for _, user := range []string{"us", "acme"} {
		b.Run(user, func(b *testing.B) {
			server, err := bus.Embedded(b.Context(), bus.EmbeddedConfig{Dir: b.TempDir(), Users: []bus.User{
				{Name: "us", Password: "us"}, {Name: "acme", Password: "acme", Tenant: "acme"}}})
			require.NoError(b, err)
			b.Cleanup(server.Close)
			require.NoError(b, bus.Provision(b.Context(), bustest.Connect(b, server.URL()), bus.NewTopology([]string{"acme"})))
			url := strings.Replace(server.URL(), "us:us", user+":"+user, 1)
			publisher := bustest.Connect(b, url).NewPublisher("bench")
			batch, data := make([]bus.Message, 500), make([]byte, 128)
			b.ResetTimer()
			for sent := 0; sent < b.N; sent += len(batch) {
				batch = batch[:min(len(batch), b.N-sent)]
				for i := range batch {
					batch[i] = bus.Message{Subject: bus.IngressSubject("acme", "crm"), ID: fmt.Sprint(sent + i), Data: data}
				}
				for _, result := range publisher.PublishBatch(b.Context(), batch) {
					require.NoError(b, result.Err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
