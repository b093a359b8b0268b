package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// How long a test waits for something that the broker does, and how often it looks.
const (
	waitLimit = 20 * time.Second
	pollEvery = 5 * time.Millisecond
)

// raw is a plain client beside ours: an integrator, or an operator at work.
func raw(t *testing.T, b *bustest.Bus) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(b.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return nc, js
}

var submitted = bus.InternalSubject("intent", "submitted")

// numbered makes messages for the policy consumer whose data is their number.
func numbered(from, count int) []bus.Message {
	var messages []bus.Message
	for i := from; i < from+count; i++ {
		messages = append(messages, bus.Message{Subject: submitted, ID: fmt.Sprint("id-", i), Data: fmt.Append(nil, i)})
	}
	return messages
}

// publish sends all or fails the test.
func publish(t *testing.T, conn *bus.Conn, messages ...bus.Message) {
	t.Helper()
	for _, result := range conn.NewPublisher("test").PublishBatch(t.Context(), messages) {
		require.NoError(t, result.Err)
	}
}

// seen remembers what a handler was given.
type seen struct {
	mu      sync.Mutex
	batches [][]bus.Item
	count   map[string]int // deliveries by data
}

func (s *seen) add(items []bus.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, items)
	if s.count == nil {
		s.count = map[string]int{}
	}
	for _, item := range items {
		s.count[string(item.Data)]++
	}
}

func (s *seen) distinct() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.count)
}

func (s *seen) times(data string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[data]
}

func ackAll(items []bus.Item) []bus.Verdict {
	verdicts := make([]bus.Verdict, len(items))
	for i := range verdicts {
		verdicts[i] = bus.Ack
	}
	return verdicts
}

// policy is the usual configuration of these tests: one batch at a time, quick retries, quick stops.
func policy(handle func(context.Context, []bus.Item) []bus.Verdict) bus.ConsumeConfig {
	return bus.ConsumeConfig{
		Service: "policy", Stream: bus.InternalStream, Durable: bus.PolicyConsumer, Handle: handle, Workers: 1,
		IdleWait: 100 * time.Millisecond, RetryDelay: func(int) time.Duration { return 5 * time.Millisecond },
	}
}

// consume runs a consumer and returns how to stop it, which waits until it has ended well. The end of the test stops
// it too.
func consume(t *testing.T, conn *bus.Conn, cfg bus.ConsumeConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bus.Consume(ctx, conn, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// unsettled is how many messages the policy consumer still has before it, delivered or not. A busy broker counts a message
// for a consumer a little after it has taken it, so none is believed only when the stream has let go of all of them.
func unsettled(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	consumer, err := js.Consumer(t.Context(), bus.InternalStream, bus.PolicyConsumer)
	require.NoError(t, err)
	if known := consumer.CachedInfo(); known.NumAckPending > 0 || known.NumPending > 0 {
		return known.NumAckPending + int(known.NumPending)
	}
	stream, err := js.Stream(t.Context(), bus.InternalStream)
	require.NoError(t, err)
	return int(stream.CachedInfo().State.Msgs)
}

// requireUnsettled waits, since the broker counts a little after it acknowledges.
func requireUnsettled(t *testing.T, js jetstream.JetStream, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return unsettled(t, js) == want }, waitLimit, pollEvery,
		"the policy consumer should have %d messages before it", want)
}
