package bus_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

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
