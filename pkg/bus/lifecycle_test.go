package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// Not parallel: it counts goroutines.
func TestShutdownWithABacklogLosesNothingAndLeaksNothing(t *testing.T) {
	b := bustest.New(t)
	_, js := raw(t, b)
	const total = 3000
	publish(t, b.Conn, numbered(0, total)...)
	requireUnsettled(t, js, total) // A client's first request starts what serves all its later ones.
	_, err := b.Conn.StreamInfo(t.Context(), bus.InternalStream)
	require.NoError(t, err)
	before := goleak.IgnoreCurrent()
	var s seen
	runs := 0
	for s.distinct() < total {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			s.add(items)
			cancel() // Each run is told to stop by its first batch.
			return ackAll(items)
		})
		cfg.Batch, cfg.Workers = 100, 2
		require.NoError(t, bus.Consume(ctx, b.Conn, cfg))
		cancel()
		runs++
	}
	require.Greater(t, runs, 2)
	requireUnsettled(t, js, 0)
	for i := range total {
		require.Equal(t, 1, s.times(fmt.Sprint(i)), "a controlled stop repeats nothing either")
	}
	goleak.VerifyNone(t, before)
}

func TestShutdown(t *testing.T) {
	t.Parallel()

	t.Run("HandlerFinishesOnAContextThatOutlivesTheStop", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		_, js := raw(t, b)
		publish(t, b.Conn, numbered(0, 1)...)
		handling, goOn := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var inside error
		ended := make(chan error)
		go func() {
			ended <- bus.Consume(ctx, b.Conn, policy(func(ctx context.Context, items []bus.Item) []bus.Verdict {
				close(handling)
				<-goOn
				inside = ctx.Err()
				return ackAll(items)
			}))
		}()
		<-handling
		cancel()
		select {
		case err := <-ended:
			require.Fail(t, "it ended before its handler", "%v", err)
		case <-time.After(300 * time.Millisecond): // Longer than an idle consumer takes to stop.
		}
		close(goOn)
		require.NoError(t, <-ended)
		require.NoError(t, inside)
		requireUnsettled(t, js, 0)
	})

	t.Run("HandlerThatNeverReturnsDelaysTheStopForTheDrainOnly", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		publish(t, b.Conn, numbered(0, 1)...)
		handling, stuck := make(chan struct{}), make(chan struct{})
		defer close(stuck)
		ctx, cancel := context.WithCancel(t.Context())
		cfg := policy(func(context.Context, []bus.Item) []bus.Verdict {
			close(handling)
			<-stuck
			return nil
		})
		cfg.DrainTimeout = 50 * time.Millisecond
		ended := make(chan error)
		go func() { ended <- bus.Consume(ctx, b.Conn, cfg) }()
		<-handling
		cancel()
		got := make(chan int, 1)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			got <- items[0].NumDelivered
			return ackAll(items)
		}))
		require.Equal(t, 2, <-got, "the message goes to a consumer that works")
		require.ErrorContains(t, <-ended, "held 1 messages")
	})
}

func TestBrokerTrouble(t *testing.T) {
	t.Parallel()

	t.Run("StoreWipedUnderLoad", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		_, js := raw(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- bus.Watch(ctx, b.Conn, b.Topology, time.Hour) }()
		defer func() { cancel(); require.NoError(t, <-watched) }()
		var s seen
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			s.add(items)
			return ackAll(items)
		}))
		// The relay of this test keeps what has not been seen at the other end and publishes it again, as the real
		// one does from Postgres. The store is wiped each time that another quarter has arrived.
		const total = 2000
		publisher := b.Conn.NewPublisher("test")
		wipes, generation := 0, 0
		require.Eventually(t, func() bool {
			var missing []bus.Message
			for i := range total {
				if s.times(fmt.Sprint(i)) == 0 {
					message := numbered(i, 1)[0]
					message.ID = fmt.Sprint(i, ":", generation)
					missing = append(missing, message)
				}
			}
			generation++
			publisher.PublishBatch(ctx, missing[:min(len(missing), 100)])
			if wipes < 3 && s.distinct() > wipes*total/4 && js.DeleteStream(ctx, bus.InternalStream) == nil {
				wipes++
			}
			return wipes == 3 && s.distinct() == total
		}, 2*waitLimit, pollEvery)
	})

	t.Run("ServerRestart", func(t *testing.T) {
		t.Parallel()
		dir, port := t.TempDir(), freePort(t)
		first, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: dir, Port: port})
		require.NoError(t, err)
		conn := bustest.Connect(t, first.URL())
		require.NoError(t, bus.Provision(t.Context(), conn, bus.NewTopology(nil)))
		var s seen
		consume(t, conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			s.add(items)
			return ackAll(items)
		}))
		publish(t, conn, numbered(0, 10)...)
		require.Eventually(t, func() bool { return s.distinct() == 10 }, waitLimit, pollEvery)
		first.Close()
		second, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: dir, Port: port})
		require.NoError(t, err)
		t.Cleanup(second.Close)
		require.Eventually(t, conn.Connected, waitLimit, pollEvery)
		publish(t, conn, numbered(10, 10)...)
		require.Eventually(t, func() bool { return s.distinct() == 20 }, waitLimit, pollEvery)
	})
}
