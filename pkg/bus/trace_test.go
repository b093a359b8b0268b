package bus_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/fault"
)

// Not parallel: it sets the tracer of the process.
func TestTracesGoThroughTheBus(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { otel.SetTracerProvider(previous) })
	b := bustest.New(t)
	const (
		first  = "00-11111111111111111111111111111111-1111111111111111-01"
		second = "00-22222222222222222222222222222222-2222222222222222-01"
	)
	message := func(parent string) bus.Message {
		return bus.Message{Subject: submitted, Header: map[string]string{"traceparent": parent}}
	}
	run := func(t *testing.T, messages ...bus.Message) trace.ReadOnlySpan {
		t.Helper()
		publish(t, b.Conn, messages...)
		cfg := policy(nil)
		done := make(chan struct{})
		cfg.Handle = func(_ context.Context, items []bus.Item) []bus.Verdict {
			defer close(done)
			return ackAll(items)
		}
		stop := consume(t, b.Conn, cfg)
		<-done
		stop()
		ended := recorder.Ended()
		last := ended[len(ended)-1]
		require.Equal(t, "process policy", last.Name())
		return last
	}

	t.Run("SingleItemContinuesItsTrace", func(t *testing.T) {
		span := run(t, message(first))
		require.Equal(t, "11111111111111111111111111111111", span.SpanContext().TraceID().String())
		require.Equal(t, "1111111111111111", span.Parent().SpanID().String())
	})

	t.Run("BatchLinksToTheTracesOfItsItemsOnce", func(t *testing.T) {
		span := run(t, message(first), message(second), message(first), message("nonsense"))
		require.False(t, span.Parent().IsValid())
		require.Len(t, span.Links(), 2)
		require.Equal(t, "22222222222222222222222222222222", span.Links()[1].SpanContext.TraceID().String())
	})
}

func TestCrashSitesAreRegisteredForTheService(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	b.Conn.NewPublisher("somebody")
	cfg := policy(func(context.Context, []bus.Item) []bus.Verdict { return nil })
	cfg.Service = "somebody"
	consume(t, b.Conn, cfg)()
	var names []string
	for _, site := range fault.Sites() {
		names = append(names, site.String())
	}
	require.Contains(t, names, "somebody/publish")
	require.Contains(t, names, "somebody/ack")
}
