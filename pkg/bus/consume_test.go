package bus_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	type bundle struct {
		*bustest.Bus
		js jetstream.JetStream
		seen
	}
	setup := func(t *testing.T) *bundle {
		t.Helper()
		t.Parallel()
		b := &bundle{Bus: bustest.New(t)}
		_, b.js = raw(t, b.Bus)
		return b
	}

	t.Run("WaitingMessagesArriveAsOneBatchInOrder", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 300)...)
		stop := consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			return ackAll(items)
		}))
		requireUnsettled(t, b.js, 0)
		stop()
		require.Len(t, b.batches[0], bus.MaxBatch)
		next := 0
		for _, item := range slices.Concat(b.batches...) {
			require.Equal(t, fmt.Sprint(next), string(item.Data))
			require.EqualValues(t, next+1, item.StreamSeq)
			require.Equal(t, 1, item.NumDelivered)
			require.Equal(t, bus.InternalStream, item.Stream)
			require.Equal(t, submitted, item.Subject)
			require.WithinDuration(t, time.Now(), item.Stored, time.Minute)
			next++
		}
		require.Equal(t, 300, next)
	})

	t.Run("OnlyWhatIsNotAcknowledgedComesAgain", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 4)...)
		begin := time.Now()
		var late time.Duration
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			verdicts := ackAll(items)
			for i, item := range items {
				switch {
				case string(item.Data) == "1" && item.NumDelivered == 1:
					verdicts[i] = bus.Retry
				case string(item.Data) == "2" && item.NumDelivered == 1:
					verdicts[i] = bus.RetryAfter(300 * time.Millisecond)
				case string(item.Data) == "2":
					late = time.Since(begin)
				}
			}
			return verdicts
		}))
		requireUnsettled(t, b.js, 0)
		for data, times := range map[string]int{"0": 1, "1": 2, "2": 2, "3": 1} {
			require.Equal(t, times, b.times(data), data)
		}
		require.GreaterOrEqual(t, late, 300*time.Millisecond)
	})

	t.Run("MissingVerdictIsARetry", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 3)...)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			return ackAll(items)[:1]
		}))
		requireUnsettled(t, b.js, 0)
		require.Equal(t, 1, b.times("0"))
		require.Equal(t, 2, b.times("1"))
		require.Equal(t, 3, b.times("2"))
	})

	t.Run("PanicStrikesTheItemAtFaultAlone", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 10)...)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			for _, item := range items {
				if string(item.Data) == "7" && item.NumDelivered < 3 {
					panic("seven")
				}
			}
			return ackAll(items)
		}))
		requireUnsettled(t, b.js, 0)
		require.Len(t, b.batches[0], 10)
		for i := range 10 {
			if i != 7 { // Once with the batch, once alone.
				require.Equal(t, 2, b.times(fmt.Sprint(i)), i)
			}
		}
	})

	t.Run("TooManyVerdictsAreNone", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 1)...)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			if items[0].NumDelivered == 1 {
				return []bus.Verdict{bus.Ack, bus.Ack}
			}
			return ackAll(items)
		}))
		requireUnsettled(t, b.js, 0)
		require.Equal(t, 2, b.times("0"))
	})

	t.Run("ItemThatKeepsComingBackIsHandledAlone", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 6)...)
		cfg := policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			b.add(items)
			verdicts := ackAll(items)
			for i, item := range items {
				if item.NumDelivered <= bus.ParkAfter {
					verdicts[i] = bus.RetryAfter(time.Millisecond)
				}
			}
			return verdicts
		})
		stop := consume(t, b.Conn, cfg)
		requireUnsettled(t, b.js, 0)
		stop()
		for _, batch := range b.batches {
			for _, item := range batch {
				if item.NumDelivered > bus.AloneAfter {
					require.Len(t, batch, 1)
				}
			}
		}
		require.Equal(t, bus.ParkAfter+1, b.times("0"))
	})

	t.Run("OutageCostsFewDeliveries", func(t *testing.T) {
		b := setup(t)
		publish(t, b.Conn, numbered(0, 500)...)
		over := time.Now().Add(800 * time.Millisecond)
		most := make(chan int, 1000)
		cfg := policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			if time.Now().Before(over) {
				return nil
			}
			for _, item := range items {
				most <- item.NumDelivered
			}
			return ackAll(items)
		})
		cfg.RetryDelay = nil // The real one.
		consume(t, b.Conn, cfg)
		for range 500 {
			require.LessOrEqual(t, <-most, 3, "two deliveries lost and the one that succeeded")
		}
	})
}

func TestDelivery(t *testing.T) {
	t.Parallel()

	t.Run("HeaderGivenTwiceReachesTheHandlerAsTwo", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		nc, _ := raw(t, b)
		got := make(chan bus.Item, 9)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			for _, item := range items {
				got <- item
			}
			return ackAll(items)
		}))
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: submitted, Header: nats.Header{
			"Idempotency-Key": {"a", "b"}, "ce-id": {"1"}, "CE-ID": {"2"}, "holdpoint-reply": {"_INBOX.x"},
		}}))
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: submitted, Header: nats.Header{
			bus.HeaderReply: {"$JS.API.STREAM.DELETE.HOLDPOINT_INTERNAL"}, "traceparent": {"x", "y"},
		}}))
		poisoned := <-got
		require.Equal(t, []string{"a", "b"}, poisoned.Header.Values("idempotency-key"))
		require.Empty(t, poisoned.Header.Get("Idempotency-Key"))
		require.ElementsMatch(t, []string{"1", "2"}, poisoned.Header.Values("ce-id"))
		require.Equal(t, "_INBOX.x", poisoned.ReplySubject)
		require.Empty(t, (<-got).ReplySubject, "a forged reply subject")
	})

	t.Run("MessagesOfACrashedConsumerComeAgain", func(t *testing.T) {
		t.Parallel()
		b := withAckWait(t, 300*time.Millisecond)
		nc, js := raw(t, b)
		publish(t, b.Conn, numbered(0, 3)...)
		crashing, err := js.Consumer(t.Context(), bus.InternalStream, bus.PolicyConsumer)
		require.NoError(t, err)
		taken, err := crashing.Fetch(3)
		require.NoError(t, err)
		for range taken.Messages() {
		}
		nc.Close()
		got := make(chan bus.Item, 9)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			for _, item := range items {
				got <- item
			}
			return ackAll(items)
		}))
		for range 3 {
			require.Equal(t, 2, (<-got).NumDelivered)
		}
	})

	t.Run("SlowHandlerKeepsItsMessages", func(t *testing.T) {
		t.Parallel()
		b := withAckWait(t, 150*time.Millisecond)
		_, js := raw(t, b)
		var s seen
		publish(t, b.Conn, numbered(0, 2)...)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			s.add(items)
			<-time.After(time.Second) // Several times the broker's patience.
			return ackAll(items)
		}))
		requireUnsettled(t, js, 0)
		require.Equal(t, 1, s.times("0"))
		require.Equal(t, 1, s.times("1"))
	})

	t.Run("StuckHandlerLosesItsMessagesToAnother", func(t *testing.T) {
		t.Parallel()
		b := withAckWait(t, 100*time.Millisecond)
		publish(t, b.Conn, numbered(0, 1)...)
		stuck, rescued := make(chan struct{}), make(chan int, 9)
		cfg := policy(func(ctx context.Context, items []bus.Item) []bus.Verdict {
			if items[0].NumDelivered == 1 {
				<-ctx.Done() // The time limit is told …
				<-stuck      // … and not obeyed.
				return nil
			}
			rescued <- items[0].NumDelivered
			return ackAll(items)
		})
		cfg.HandlerTimeout, cfg.Workers = 50*time.Millisecond, 2
		consume(t, b.Conn, cfg)
		require.Equal(t, 2, <-rescued)
		close(stuck)
	})

	t.Run("ConsumerMayBeProvisionedLater", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		_, js := raw(t, b)
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		got := make(chan bus.Item, 9)
		consume(t, b.Conn, policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
			got <- items[0]
			return ackAll(items)
		}))
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		publish(t, b.Conn, numbered(5, 1)...)
		require.Equal(t, "5", string((<-got).Data))
	})

	t.Run("IncompleteConfigurationIsRefusedWithAllComplaints", func(t *testing.T) {
		t.Parallel()
		err := bus.Consume(t.Context(), bustest.New(t).Conn, bus.ConsumeConfig{Batch: 257, Workers: 9})
		for _, complaint := range []string{"must be given", "batch 257", "9 workers"} {
			require.ErrorContains(t, err, complaint)
		}
	})
}

// withAckWait is a broker whose policy consumer has the given patience.
func withAckWait(t *testing.T, patience time.Duration) *bustest.Bus {
	t.Helper()
	b := bustest.New(t)
	b.Topology.Streams[0].Consumers[0].AckWait = patience
	require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
	return b
}
