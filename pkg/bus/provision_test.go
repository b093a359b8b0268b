package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

func TestProvision(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*bustest.Bus, jetstream.JetStream) {
		t.Helper()
		t.Parallel()
		b := bustest.New(t, "acme")
		_, js := raw(t, b)
		return b, js
	}

	t.Run("EveryStreamOfTheTopologyStands", func(t *testing.T) {
		b, js := setup(t)
		for name, consumers := range map[string]int{
			"HOLDPOINT_INTERNAL": 2, "HOLDPOINT_INGRESS_ACME": 1, "HOLDPOINT_EVENTS_ACME": 0,
		} {
			stream, err := js.Stream(t.Context(), name)
			require.NoError(t, err, name)
			require.Equal(t, consumers, stream.CachedInfo().State.Consumers, name)
		}
		internal, err := js.Consumer(t.Context(), bus.InternalStream, bus.PolicyConsumer)
		require.NoError(t, err)
		cfg := internal.CachedInfo().Config
		require.Equal(t, -1, cfg.MaxDeliver)
		require.Equal(t, bus.DefaultAckWait, cfg.AckWait)
		require.Equal(t, "holdpoint.internal.intent.submitted", cfg.FilterSubject)
		publish(t, b.Conn, bus.Message{Subject: bus.IngressSubject("acme", "crm")},
			bus.Message{Subject: bus.EventSubject("acme", "run", "completed")})
	})

	t.Run("RacingAndRepeatedCallsAgree", func(t *testing.T) {
		b, js := setup(t)
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		var racers errgroup.Group
		for range 6 {
			racers.Go(func() error { return bus.Provision(t.Context(), b.Conn, b.Topology) })
		}
		require.NoError(t, racers.Wait())
		before, err := b.Conn.StreamInfo(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		publish(t, b.Conn, numbered(0, 1)...)
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		after, err := b.Conn.StreamInfo(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		require.Equal(t, bus.StreamInfo{Created: before.Created, LastSeq: 1}, after)
	})

	t.Run("NothingIsAcknowledgedAndDroppedBeforeTheConsumersExist", func(t *testing.T) {
		b, js := setup(t)
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		publisher := b.Conn.NewPublisher("test")
		stored := make(chan int)
		go func() { // The relay, which does not wait for anybody.
			count := 0
			for i := 0; count < 20; i++ {
				if publisher.PublishBatch(context.Background(), numbered(i, 1))[0].Err == nil {
					count++
				}
			}
			stored <- count
		}()
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		requireUnsettled(t, js, <-stored)
	})

	t.Run("StreamLeftClosedByAKilledProvisionerIsOpened", func(t *testing.T) {
		b, js := setup(t)
		stream, err := js.Stream(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		closed := stream.CachedInfo().Config
		closed.MaxMsgSize = 1
		_, err = js.UpdateStream(t.Context(), closed)
		require.NoError(t, err)
		require.NoError(t, js.DeleteConsumer(t.Context(), bus.InternalStream, bus.PolicyConsumer))
		require.Error(t, b.Conn.NewPublisher("test").PublishBatch(t.Context(), numbered(0, 1))[0].Err)
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		publish(t, b.Conn, numbered(0, 1)...)
		requireUnsettled(t, js, 1)
	})

	t.Run("LimitsAreBroughtUpToDate", func(t *testing.T) {
		b, js := setup(t)
		b.Topology.Streams[0].MaxBytes = 32 << 20
		b.Topology.Streams[0].Consumers[0].AckWait = time.Minute
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		stream, err := js.Stream(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		require.EqualValues(t, 32<<20, stream.CachedInfo().Config.MaxBytes)
		consumer, err := stream.Consumer(t.Context(), bus.PolicyConsumer)
		require.NoError(t, err)
		require.Equal(t, time.Minute, consumer.CachedInfo().Config.AckWait)
	})

	t.Run("DifferentMeaningIsRefusedAndTheOthersAreStillMade", func(t *testing.T) {
		b, js := setup(t)
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		require.NoError(t, js.DeleteStream(t.Context(), bus.EventsStream("acme")))
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: bus.InternalStream, Subjects: []string{"holdpoint.internal.>"}, Storage: jetstream.MemoryStorage,
		})
		require.NoError(t, err)
		err = bus.Provision(t.Context(), b.Conn, b.Topology)
		for _, complaint := range []string{
			bus.InternalStream, "its retention is", "its discard policy is", "its storage is",
		} {
			require.ErrorContains(t, err, complaint)
		}
		_, err = js.Stream(t.Context(), bus.EventsStream("acme"))
		require.NoError(t, err)
	})

	t.Run("ConsumerWithAnotherFilterIsRefused", func(t *testing.T) {
		b, _ := setup(t)
		b.Topology.Streams[0].Consumers[0].Filter = bus.InternalSubject("run", "claimed")
		require.ErrorContains(t, bus.Provision(t.Context(), b.Conn, b.Topology), "must read")
	})

	t.Run("FullStreamRefusesNewMessages", func(t *testing.T) {
		b, js := setup(t)
		b.Topology.Streams[0].MaxBytes = 1 << 10
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		results := b.Conn.NewPublisher("test").PublishBatch(t.Context(), numbered(0, 100))
		kept := 0
		for _, result := range results {
			if result.Err == nil {
				kept++
			}
		}
		require.Less(t, kept, 100)
		requireUnsettled(t, js, kept)
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	_, js := raw(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- bus.Watch(ctx, b.Conn, b.Topology, time.Hour) }()

	t.Run("LostStreamIsMadeAgainWhenAPublishMissesIt", func(t *testing.T) {
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		publisher := b.Conn.NewPublisher("test")
		require.Eventually(t, func() bool {
			return publisher.PublishBatch(t.Context(), numbered(0, 1))[0].Err == nil
		}, waitLimit, pollEvery)
		requireUnsettled(t, js, 1)
	})

	t.Run("EndsWellWithItsContext", func(t *testing.T) {
		cancel()
		require.NoError(t, <-ended)
	})
}
