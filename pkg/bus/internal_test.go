package bus

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// shortened is a stream that has lost its tail, as a crash of the broker's machine leaves it.
type shortened struct {
	jetstream.Stream
	lastSeq uint64
}

func (s shortened) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return &jetstream.StreamInfo{State: jetstream.StreamState{LastSeq: s.lastSeq}}, nil
}

func TestConsumerAheadOfItsStreamIsMadeAnew(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	server, err := Embedded(t.Context(), EmbeddedConfig{Dir: t.TempDir(), Logger: quiet})
	require.NoError(t, err)
	defer server.Close()
	conn, err := Connect(t.Context(), ConnectConfig{URL: server.URL(), Logger: quiet})
	require.NoError(t, err)
	defer conn.Close()
	topology := NewTopology(nil)
	require.NoError(t, Provision(t.Context(), conn, topology))
	want := &topology.Streams[0].Consumers[0]
	conn.NewPublisher("test").PublishBatch(t.Context(), []Message{{Subject: want.Filter}, {Subject: want.Filter}})
	stream, err := conn.js.Stream(t.Context(), InternalStream)
	require.NoError(t, err)
	consumer, err := stream.Consumer(t.Context(), want.Durable)
	require.NoError(t, err)
	msgs, err := collect(consumer.Fetch(2))
	require.NoError(t, err)
	require.Len(t, msgs, 2)

	created := func(lastSeq uint64) time.Time {
		require.NoError(t, provisionConsumer(t.Context(), shortened{stream, lastSeq}, want, quiet))
		info, err := consumer.Info(t.Context())
		require.NoError(t, err)
		return info.Created
	}
	first := consumer.CachedInfo().Created
	require.Equal(t, first, created(2), "a consumer at the end of its stream is left alone")
	require.True(t, created(1).After(first), "one beyond the end is another one now")
}

func TestRetryDelayGrowsAndIsSpread(t *testing.T) {
	t.Parallel()
	for delivery, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute,
	} {
		distinct := map[time.Duration]bool{}
		for range 100 {
			delay := retryDelay(delivery)
			require.GreaterOrEqual(t, delay, want*3/4)
			require.Less(t, delay, want*5/4)
			distinct[delay] = true
		}
		require.Greater(t, len(distinct), 50)
	}
}

// The innermost gives up first: the handler before the drain, the drain before the broker.
func TestInnerPatienceIsShorter(t *testing.T) {
	t.Parallel()
	require.Less(t, DefaultHandlerTimeout, DefaultDrainTimeout)
	require.Less(t, DefaultDrainTimeout, DefaultAckWait)
	require.LessOrEqual(t, 4*2*MaxBatch, MaxAckPending, "two workers by default")
}
