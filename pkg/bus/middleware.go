package bus

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the links of one span; exporters drop the rest of a longer list anyway.
const maxLinks = 128

// tracer is looked up at use, so that a provider set after this package's start counts.
func tracer() trace.Tracer { return otel.Tracer("github.com/holdpoint/holdpoint/pkg/bus") }

// traced opens one span for a batch. A single item's span continues the item's trace; a larger batch belongs to many
// traces and links to them.
func traced(cfg *ConsumeConfig) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			ctx := msg.Context()
			items := batchOf(ctx).items
			options := []trace.SpanStartOption{
				trace.WithSpanKind(trace.SpanKindConsumer),
				trace.WithAttributes(
					attribute.String("messaging.system", "nats"),
					attribute.String("messaging.operation.type", "process"),
					attribute.String("messaging.destination.name", cfg.Stream),
					attribute.String("messaging.consumer.group.name", cfg.Durable),
					attribute.Int("messaging.batch.message_count", len(items)),
				),
			}
			if len(items) == 1 {
				ctx = items[0].TraceContext(ctx)
			} else {
				options = append(options, trace.WithLinks(links(items)...))
			}
			ctx, span := tracer().Start(ctx, "process "+cfg.Durable, options...)
			defer span.End()
			msg.SetContext(ctx)
			produced, err := next(msg)
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			return produced, err
		}
	}
}

// links leads to the traces of the items, without repeats.
func links(items []Item) []trace.Link {
	var found []trace.Link
	seen := map[trace.SpanID]bool{}
	for i := range items {
		if len(found) == maxLinks {
			break
		}
		remote := trace.SpanContextFromContext(items[i].TraceContext(noContext))
		if remote.IsValid() && !seen[remote.SpanID()] {
			seen[remote.SpanID()] = true
			found = append(found, trace.Link{SpanContext: remote})
		}
	}
	return found
}
