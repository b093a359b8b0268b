package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Provision makes the streams and durable consumers of the topology, or brings their limits up to date. It may run at
// any time, by several processes at once. It refuses to touch a stream or consumer whose meaning differs (retention,
// discard, storage, filter, acks): messages would be lost or skipped without a sign, so an operator decides.
//
// A stream that drops what nobody consumes lets nothing in until its consumers exist. A consumer that stands ahead of
// its stream, as an unsynced crash leaves it, is made anew.
func Provision(ctx context.Context, conn *Conn, topology Topology) error {
	var problems []error
	for i := range topology.Streams {
		if err := provisionStream(ctx, conn, &topology.Streams[i]); err != nil {
			problems = append(problems, fmt.Errorf("provision stream %s: %w", topology.Streams[i].Name, plainly(err)))
		}
	}
	return errors.Join(problems...)
}

// DefaultWatchEvery is how long a loss that nobody noticed stays unrepaired.
const DefaultWatchEvery = 5 * time.Second

// Watch provisions at once and then again and again: after each reconnect, when a publish or a fetch finds no stream,
// and every so often (0 means DefaultWatchEvery). Meanwhile it makes the readers that tenants' programs ask for, of
// streams that are Readable (B7). It returns nil when the context ends. One Watch per connection.
func Watch(ctx context.Context, conn *Conn, topology Topology, every time.Duration) error {
	stop, err := conn.lendReaders(topology)
	if err != nil {
		return fmt.Errorf("watch the streams: %w", err)
	}
	defer stop()
	ticker := time.NewTicker(cmp.Or(every, DefaultWatchEvery))
	defer ticker.Stop()
	for last := ""; ; {
		err := Provision(ctx, conn, topology)
		if ctx.Err() != nil {
			return nil
		}
		if text := fmt.Sprint(err); err != nil && text != last {
			conn.log.ErrorContext(ctx, "streams are not as they should be, trying again", "error", err)
			last = text
		} else if err == nil {
			last = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-conn.suspicion:
		}
	}
}

func provisionStream(ctx context.Context, conn *Conn, want *Stream) error {
	log := conn.log.With("stream", want.Name)
	stream, err := openStream(ctx, conn, want, log)
	if err != nil {
		return err
	}
	for i := range want.Consumers {
		if err := provisionConsumer(ctx, stream, &want.Consumers[i], log); err != nil {
			return fmt.Errorf("consumer %s: %w", want.Consumers[i].Durable, err)
		}
	}
	// Also lets messages in, where the stream was made closed: its size limit differs from the wanted one.
	if have := stream.CachedInfo().Config; !sameLimits(have, want.config()) {
		if _, err := conn.js.UpdateStream(ctx, want.merge(have)); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		log.InfoContext(ctx, "stream brought up to date")
	}
	return nil
}

// closedMsgSize is smaller than any message: a stream with this limit refuses everything. Publishers get an error and
// keep their rows, where a stream without consumers would acknowledge and drop them.
const closedMsgSize = 1

// lossSettles is how long a stream that vanished stays unmade. The broker forgets a deleted stream before it has
// moved its files away; made again in that moment, the new stream loses its files and never acknowledges a message
// (seen with nats-server 2.15.3 under load).
const lossSettles = time.Second

// openStream finds the stream, or makes it, closed where it could lose messages before its consumers exist.
func openStream(ctx context.Context, conn *Conn, want *Stream, log *slog.Logger) (jetstream.Stream, error) {
	stream, err := conn.js.Stream(ctx, want.Name)
	if err == nil {
		conn.streams.Store(want.Name, true)
		return stream, want.compatible(stream.CachedInfo().Config)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	if _, lost := conn.streams.Load(want.Name); lost {
		log.ErrorContext(ctx, "stream is lost, making it again")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lossSettles):
		}
	}
	return makeStream(ctx, conn, want, log)
}

func makeStream(ctx context.Context, conn *Conn, want *Stream, log *slog.Logger) (jetstream.Stream, error) {
	cfg := want.config()
	if want.Retention == Interest {
		cfg.MaxMsgSize = closedMsgSize
	}
	stream, err := conn.js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // Another process was faster.
		if stream, err = conn.js.Stream(ctx, want.Name); err == nil {
			return stream, want.compatible(stream.CachedInfo().Config)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	conn.streams.Store(want.Name, true)
	log.InfoContext(ctx, "stream made")
	return stream, nil
}

func (s *Stream) config() jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name: s.Name, Subjects: s.Subjects, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxBytes: s.MaxBytes, MaxAge: s.MaxAge, Duplicates: s.Duplicates, Replicas: cmp.Or(s.Replicas, 1),
		MaxMsgSize: -1, MaxMsgs: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1, DenyDelete: true, DenyPurge: true,
	}
	if s.DiscardOld {
		cfg.Discard = jetstream.DiscardOld
	}
	switch s.Retention {
	case Interest:
		cfg.Retention = jetstream.InterestPolicy
	case WorkQueue:
		cfg.Retention = jetstream.WorkQueuePolicy
	case Limits:
		cfg.Retention = jetstream.LimitsPolicy
	}
	return cfg
}

// compatible complains about differences that change what happens to messages.
func (s *Stream) compatible(have jetstream.StreamConfig) error {
	want := s.config()
	var problems []error
	differs := func(what string, have, want any) {
		if have != want {
			problems = append(problems, fmt.Errorf("its %s is %v and must be %v", what, have, want))
		}
	}
	differs("retention", have.Retention, want.Retention)
	differs("discard policy", have.Discard, want.Discard)
	differs("storage", have.Storage, want.Storage)
	if len(problems) > 0 {
		return fmt.Errorf("somebody else made it: %w; drain it and delete it by hand", errors.Join(problems...))
	}
	return nil
}

// sameLimits compares what may change during a stream's life.
func sameLimits(have, want jetstream.StreamConfig) bool {
	return slices.Equal(have.Subjects, want.Subjects) && have.MaxBytes == want.MaxBytes && have.MaxAge == want.MaxAge &&
		have.Duplicates == want.Duplicates && have.Replicas == want.Replicas && have.MaxMsgSize == want.MaxMsgSize
}

// merge keeps what we have no opinion on, such as a placement that an operator has set.
func (s *Stream) merge(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := s.config()
	have.Subjects, have.MaxBytes, have.MaxAge = want.Subjects, want.MaxBytes, want.MaxAge
	have.Duplicates, have.Replicas, have.MaxMsgSize = want.Duplicates, want.Replicas, want.MaxMsgSize
	return have
}

func provisionConsumer(ctx context.Context, stream jetstream.Stream, want *Consumer, log *slog.Logger) error {
	cfg := want.config()
	consumer, err := stream.Consumer(ctx, want.Durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		log.InfoContext(ctx, "consumer made", "consumer", want.Durable)
	case err != nil:
		return err
	default:
		have := consumer.CachedInfo()
		if err := want.compatible(have.Config); err != nil {
			return err
		}
		ahead, err := isAhead(ctx, stream, have)
		if err != nil {
			return err
		}
		if !ahead && have.Config.AckWait == cfg.AckWait && have.Config.MaxAckPending == cfg.MaxAckPending {
			return nil
		}
		if ahead {
			log.ErrorContext(ctx, "consumer stands ahead of its stream, whose tail was lost; it is made anew",
				"consumer", want.Durable)
			if err := stream.DeleteConsumer(ctx, want.Durable); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
	}
	if _, err := stream.CreateOrUpdateConsumer(ctx, cfg); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// isAhead asks for the stream's end after the consumer's place was read, so that messages that arrive in between
// cannot look like a loss.
func isAhead(ctx context.Context, stream jetstream.Stream, consumer *jetstream.ConsumerInfo) (bool, error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return false, err
	}
	return consumer.Delivered.Stream > info.State.LastSeq, nil
}

func (c *Consumer) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: c.Durable, FilterSubject: c.Filter, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: cmp.Or(c.AckWait, DefaultAckWait), MaxAckPending: MaxAckPending,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxDeliver:    -1, // Past a maximum the broker would keep a message silently; we park it in Postgres.
	}
}

func (c *Consumer) compatible(have jetstream.ConsumerConfig) error {
	want := c.config()
	if have.FilterSubject != want.FilterSubject || have.AckPolicy != want.AckPolicy ||
		have.MaxDeliver != want.MaxDeliver || have.DeliverPolicy != want.DeliverPolicy || len(have.FilterSubjects) > 0 {
		return fmt.Errorf("somebody else made it: it reads %q with acks %s and at most %d deliveries, and must read "+
			"%q with acks %s and no maximum; delete it by hand", have.FilterSubject, have.AckPolicy, have.MaxDeliver,
			want.FilterSubject, want.AckPolicy)
	}
	return nil
}
