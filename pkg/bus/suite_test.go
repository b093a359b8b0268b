package bus

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"
)

// TestWatermillSuite runs watermill's own tests for publishers and subscribers, with batches of one.
func TestWatermillSuite(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	server, err := Embedded(t.Context(), EmbeddedConfig{Dir: t.TempDir(), Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	conn, err := Connect(t.Context(), ConnectConfig{URL: server.URL(), Logger: quiet, PublishTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(conn.Close)

	inGroup := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		cfg := &ConsumeConfig{
			Service: "suite", Stream: "any", Durable: group, Batch: 1, Workers: 1,
			Handle:   func(context.Context, []Item) []Verdict { return nil },
			IdleWait: 100 * time.Millisecond, DrainTimeout: time.Second,
			RetryDelay: func(int) time.Duration { return 10 * time.Millisecond },
		}
		require.NoError(t, cfg.complete(conn))
		return suitePublisher{conn.NewPublisher("suite")}, suiteSubscriber{newSubscriber(conn, cfg)}
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups:                      true,
		GuaranteedOrder:                     true,
		GuaranteedOrderWithSingleSubscriber: true,
		Persistent:                          true,
		ForceShort:                          true, // The long form repeats the same with more messages.
	}, func(t *testing.T) (message.Publisher, message.Subscriber) { return inGroup(t, "suite") }, inGroup)
}

// suitePublisher fits PublishBatch to watermill's Publisher.
type suitePublisher struct{ *Publisher }

func (p suitePublisher) Publish(topic string, messages ...*message.Message) error {
	var batch []Message
	for _, m := range messages {
		batch = append(batch, Message{Subject: topic, ID: m.UUID, Header: m.Metadata, Data: m.Payload})
	}
	var errs []error
	for _, result := range p.PublishBatch(context.Background(), batch) {
		errs = append(errs, result.Err)
	}
	return errors.Join(errs...)
}

func (suitePublisher) Close() error { return nil }

// suiteSubscriber gives each topic of the suite a stream of its own.
type suiteSubscriber struct{ *subscriber }

func (s suiteSubscriber) SubscribeInitialize(name string) error {
	return Provision(context.Background(), s.conn, Topology{Streams: []Stream{{
		Name: name, Subjects: []string{name}, Retention: Limits, DiscardOld: true, Duplicates: time.Minute,
		Consumers: []Consumer{{Durable: s.cfg.Durable}},
	}}})
}

func (s suiteSubscriber) Subscribe(ctx context.Context, name string) (<-chan *message.Message, error) {
	return s.subscriber.Subscribe(ctx, topic(name, s.cfg.Durable))
}
