package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// ErrTooLarge means that the broker will never take this message; trying again is useless.
var ErrTooLarge = errors.New("the message is larger than the broker takes")

// ErrNoStream means that no stream takes the subject: the broker's store was lost, or nothing was provisioned yet.
var ErrNoStream = errors.New("no stream takes this subject")

// Message is one message to publish.
type Message struct {
	Subject string
	// ID is the broker's duplicate id within the stream's window. A retry of the same publish keeps it, a deliberate
	// repeat of the event gets a new one (BUS-01).
	ID string
	// Header holds traceparent and the like; it is sent unchanged.
	Header map[string]string
	Data   []byte
	// Key names the run for crash tests. It is not sent.
	Key string
}

// Result is what became of one message. Stream and Seq are set when Err is nil.
type Result struct {
	Stream string
	Seq    uint64
	// Duplicate means that the stream had this ID already, which is a success.
	Duplicate bool
	// Err is ErrDisconnected, ErrNoStream, ErrTooLarge, a deadline, or the broker's refusal. Except for ErrTooLarge
	// the message may be published again, with the same ID; it may have been stored in spite of the error.
	Err error
}

// Publisher publishes batches for one service.
type Publisher struct {
	conn *Conn
	site *fault.Site
}

// NewPublisher names the service in crash tests and traces.
func (c *Conn) NewPublisher(service string) *Publisher {
	return &Publisher{conn: c, site: fault.NewSite(service, "publish", fault.KindPublish)}
}

// PublishBatch sends all messages in order, waits for the broker's acknowledgements under one deadline (the
// connection's PublishTimeout, or the context's), and returns one result for each message, in the same order. A
// message is stored when and only when the broker has acknowledged it; whatever else happened, the caller keeps it
// and sends it again.
func (p *Publisher) PublishBatch(ctx context.Context, messages []Message) []Result {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.conn.publishTimeout)
	defer cancel()
	ctx, span := tracer().Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.operation.type", "send"),
		attribute.Int("messaging.batch.message_count", len(messages)),
	))
	defer span.End()
	keys := messageKeys(messages)
	p.site.Before(ctx, keys...)
	results := p.publish(ctx, messages)
	p.site.After(ctx, keys...)
	if failed := countFailed(results); failed > 0 {
		span.SetStatus(codes.Error, fmt.Sprintf("%d of %d messages failed", failed, len(messages)))
	}
	return results
}

func (p *Publisher) publish(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	futures := make([]jetstream.PubAckFuture, len(messages))
	for i := range messages {
		if results[i].Err = ctx.Err(); results[i].Err != nil {
			continue
		}
		// No retries inside the client: they would overtake later messages.
		future, err := p.conn.js.PublishMsgAsync(messages[i].wire(),
			jetstream.WithRetryAttempts(0), jetstream.WithStallWait(p.conn.publishTimeout))
		futures[i], results[i].Err = future, publishError(err)
	}
	for i, future := range futures {
		if future != nil {
			results[i] = await(ctx, future)
		}
		if errors.Is(results[i].Err, ErrNoStream) {
			p.conn.suspect()
		}
	}
	return results
}

// wire is the message as the client library takes it.
func (m *Message) wire() *nats.Msg {
	msg := nats.NewMsg(m.Subject)
	msg.Data = m.Data
	for name, value := range m.Header {
		msg.Header[name] = []string{value}
	}
	if m.ID != "" {
		msg.Header[jetstream.MsgIDHeader] = []string{m.ID}
	}
	return msg
}

func await(ctx context.Context, future jetstream.PubAckFuture) Result {
	select {
	case ack := <-future.Ok():
		return Result{Stream: ack.Stream, Seq: ack.Sequence, Duplicate: ack.Duplicate}
	case err := <-future.Err():
		return Result{Err: publishError(err)}
	case <-ctx.Done():
		return Result{Err: fmt.Errorf("no acknowledgement from the broker: %w", ctx.Err())}
	}
}

// publishError turns the client library's errors into ours.
func publishError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return ErrNoStream
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return fmt.Errorf("no acknowledgement from the broker: %w", context.DeadlineExceeded)
	}
	return plainly(err)
}

// messageKeys gathers the runs for a crash mark; normal builds leave it out.
func messageKeys(messages []Message) []string {
	if !fault.Enabled {
		return nil
	}
	keys := make([]string, len(messages))
	for i := range messages {
		keys[i] = messages[i].Key
	}
	return keys
}

func countFailed(results []Result) int {
	failed := 0
	for i := range results {
		if results[i].Err != nil {
			failed++
		}
	}
	return failed
}
