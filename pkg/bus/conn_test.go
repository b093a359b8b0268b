package bus_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// freePort is a port that nobody holds at this moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().(*net.TCPAddr).Port
}

func TestConn(t *testing.T) {
	t.Parallel()

	t.Run("ServerMayComeLaterAndGoAndComeAgain", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		conn := bustest.Connect(t, "nats://127.0.0.1:"+strconv.Itoa(port))
		require.False(t, conn.Connected())
		require.ErrorIs(t, conn.Poke("holdpoint.wake.relay"), bus.ErrDisconnected)
		woken := make(chan struct{}, 100)
		stop, err := conn.Listen("holdpoint.wake.relay", func() { woken <- struct{}{} })
		require.NoError(t, err)
		defer stop()
		for range 2 {
			server, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: t.TempDir(), Port: port})
			require.NoError(t, err)
			require.Eventually(t, conn.Connected, waitLimit, pollEvery)
			require.NoError(t, conn.Poke("holdpoint.wake.relay"))
			<-woken
			server.Close()
			require.Eventually(t, func() bool { return !conn.Connected() }, waitLimit, pollEvery)
		}
	})

	t.Run("StoppedListenerIsNotCalled", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		var first, second = make(chan struct{}, 9), make(chan struct{}, 9)
		stop, err := b.Conn.Listen(bus.WakeSubject("x"), func() { first <- struct{}{} })
		require.NoError(t, err)
		stopOther, err := b.Conn.Listen(bus.WakeSubject("x"), func() { second <- struct{}{} })
		require.NoError(t, err)
		defer stopOther()
		stop()
		require.NoError(t, b.Conn.Poke(bus.WakeSubject("x")))
		<-second
		require.Empty(t, first)
	})

	t.Run("RepliesReachInboxesAlone", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		nc, _ := raw(t, b)
		sub, err := nc.SubscribeSync("_INBOX_acme.1")
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.NoError(t, b.Conn.Reply("acme", "_INBOX_acme.1", []byte("accepted")))
		answer, err := sub.NextMsg(waitLimit)
		require.NoError(t, err)
		require.Equal(t, "accepted", string(answer.Data))
		for _, forged := range []string{
			"", "$JS.API.STREAM.DELETE.HOLDPOINT_INTERNAL", "holdpoint.internal.effect.requested",
			"_INBOX.>", "_INBOX.a b", "_INBOX_other.1", "_INBOX_acme", "_INBOX_acme2.1",
		} {
			require.ErrorContains(t, b.Conn.Reply("acme", forged, nil), "inboxes", forged)
		}
	})

	t.Run("RemadeStreamIsToldByItsCreation", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		_, js := raw(t, b)
		publish(t, b.Conn, numbered(0, 3)...)
		before, err := b.Conn.StreamInfo(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		require.EqualValues(t, 3, before.LastSeq)
		require.NoError(t, js.DeleteStream(t.Context(), bus.InternalStream))
		_, err = b.Conn.StreamInfo(t.Context(), bus.InternalStream)
		require.ErrorContains(t, err, "stream not found")
		require.NoError(t, bus.Provision(t.Context(), b.Conn, b.Topology))
		after, err := b.Conn.StreamInfo(t.Context(), bus.InternalStream)
		require.NoError(t, err)
		require.True(t, after.Created.After(before.Created))
		require.Zero(t, after.LastSeq)
	})

	t.Run("ClosedTwiceIsFine", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		b.Conn.Close()
		b.Conn.Close()
		require.ErrorIs(t, b.Conn.Poke("x"), bus.ErrDisconnected)
	})

	t.Run("AddressIsNeeded", func(t *testing.T) {
		t.Parallel()
		_, err := bus.Connect(t.Context(), bus.ConnectConfig{})
		require.ErrorContains(t, err, "HOLDPOINT_NATS_URL")
	})
}

func TestPublishBatch(t *testing.T) {
	t.Parallel()

	t.Run("EachMessageHasItsOwnResult", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		results := b.Conn.NewPublisher("relay").PublishBatch(t.Context(), []bus.Message{
			{Subject: submitted, ID: "a"},
			{Subject: "holdpoint.nowhere"},
			{Subject: submitted, ID: "a"},
			{Subject: submitted, ID: "big", Data: make([]byte, 2<<20)},
			{Subject: submitted, ID: "b"},
		})
		require.Len(t, results, 5)
		require.Equal(t, bus.Result{Stream: bus.InternalStream, Seq: 1}, results[0])
		require.ErrorIs(t, results[1].Err, bus.ErrNoStream)
		require.Equal(t, bus.Result{Stream: bus.InternalStream, Seq: 1, Duplicate: true}, results[2])
		require.ErrorIs(t, results[3].Err, bus.ErrTooLarge)
		require.Equal(t, bus.Result{Stream: bus.InternalStream, Seq: 2}, results[4])
	})

	t.Run("GoneServerFailsEachAtOnceAndNothingLeavesLater", func(t *testing.T) {
		t.Parallel()
		dir, port := t.TempDir(), freePort(t)
		first, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: dir, Port: port})
		require.NoError(t, err)
		conn := bustest.Connect(t, first.URL())
		require.NoError(t, bus.Provision(t.Context(), conn, bus.NewTopology(nil)))
		publish(t, conn, numbered(0, 1)...)
		first.Close()
		require.Eventually(t, func() bool { return !conn.Connected() }, waitLimit, pollEvery)

		begin := time.Now()
		results := conn.NewPublisher("relay").PublishBatch(t.Context(), numbered(1, 500))
		require.Less(t, time.Since(begin), bus.DefaultPublishTimeout)
		require.Len(t, results, 500)
		for _, result := range results {
			require.ErrorIs(t, result.Err, bus.ErrDisconnected)
		}

		second, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: dir, Port: port})
		require.NoError(t, err)
		defer second.Close()
		require.Eventually(t, conn.Connected, waitLimit, pollEvery)
		result := conn.NewPublisher("relay").PublishBatch(t.Context(), numbered(501, 1))[0]
		require.Equal(t, bus.Result{Stream: bus.InternalStream, Seq: 2}, result)
	})

	t.Run("SilentBrokerEndsWithTheDeadline", func(t *testing.T) {
		t.Parallel()
		b := bustest.New(t)
		nc, _ := raw(t, b)
		_, err := nc.SubscribeSync("holdpoint.silent") // Somebody listens, so the broker does not say "nobody".
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		conn, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: b.URL(), PublishTimeout: 50 * time.Millisecond})
		require.NoError(t, err)
		defer conn.Close()
		result := conn.NewPublisher("relay").PublishBatch(t.Context(), []bus.Message{{Subject: "holdpoint.silent"}})[0]
		require.ErrorContains(t, result.Err, "no acknowledgement from the broker")
	})

	t.Run("NothingIsNothing", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, bustest.New(t).Conn.NewPublisher("relay").PublishBatch(t.Context(), nil))
	})
}
