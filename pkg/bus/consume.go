package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// Patience of a consumer, each shorter than the next: a statement in Postgres (15 s), the handler, the drain at
// shutdown, the broker's wait for an ack.
const (
	DefaultHandlerTimeout = 20 * time.Second
	DefaultDrainTimeout   = 25 * time.Second
	// routerClose is what remains for the router when our subscriber has drained; it only waits for goroutines to
	// end.
	routerClose = time.Second
	// MaxBatch is the largest batch: larger ones gain nothing in Postgres.
	MaxBatch = 256
)

// ConsumeConfig says what is consumed and by whom. Service, Stream, Durable and Handle must be given.
type ConsumeConfig struct {
	// Service names the consumer in logs and its ack in crash tests.
	Service string
	// Stream and Durable name a consumer that Provision makes. It may come later; Consume waits for it.
	Stream, Durable string
	// Handle takes a batch and returns a verdict for each item, beside it. A missing verdict is Retry. A panic is
	// Retry for a single item; a larger batch is handled again at once, item by item. The context ends with
	// HandlerTimeout, not with the shutdown.
	Handle func(ctx context.Context, items []Item) []Verdict
	// Batch is how many items Handle gets at most. Default and maximum: MaxBatch.
	Batch int
	// Workers is how many batches are handled at the same time. Default: 2.
	Workers int
	// HandlerTimeout and DrainTimeout default to the constants above.
	HandlerTimeout, DrainTimeout time.Duration
	// IdleWait is how long one request for the first message waits at the broker, and so how long an idle consumer
	// takes to stop. Default: 1 s.
	IdleWait time.Duration
	// RetryDelay is the delay of Retry after the given number of deliveries. Default: 1 s, doubled each time up to 60
	// s.
	RetryDelay func(numDelivered int) time.Duration
	// Keys tells crash tests which runs an item touches. Optional.
	Keys func(Item) []string
	// Logger defaults to the connection's.
	Logger *slog.Logger
}

func (c *ConsumeConfig) complete(conn *Conn) error {
	c.Batch = cmp.Or(c.Batch, MaxBatch)
	c.Workers = cmp.Or(c.Workers, 2)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.IdleWait = cmp.Or(c.IdleWait, time.Second)
	if c.RetryDelay == nil {
		c.RetryDelay = retryDelay
	}
	c.Logger = cmp.Or(c.Logger, conn.log).With("stream", c.Stream, "consumer", c.Durable)
	var problems []error
	if c.Service == "" || c.Stream == "" || c.Durable == "" || c.Handle == nil {
		problems = append(problems, errors.New("Service, Stream, Durable and Handle must be given"))
	}
	if c.Batch < 1 || c.Batch > MaxBatch {
		problems = append(problems, fmt.Errorf("batch %d is not between 1 and %d", c.Batch, MaxBatch))
	}
	if c.Workers < 1 || c.Workers*c.Batch*4 > MaxAckPending {
		problems = append(problems, fmt.Errorf("%d workers with batches of %d: workers × batch × 4 must lie between "+
			"4 and %d, what the broker lets be unacknowledged", c.Workers, c.Batch, MaxAckPending))
	}
	return errors.Join(problems...)
}

// Consume handles messages until the context ends, then finishes and acknowledges what it holds, and returns nil; it
// is an error when a handler does not return within DrainTimeout, and its messages go to another consumer. Consume
// survives the loss of the broker, of the stream and of the consumer.
func Consume(ctx context.Context, conn *Conn, cfg ConsumeConfig) error {
	if err := cfg.complete(conn); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	sub := newSubscriber(conn, &cfg)
	router, err := message.NewRouter(
		message.RouterConfig{CloseTimeout: routerClose},
		watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug}),
	)
	if err != nil {
		return fmt.Errorf("consume %s of %s: %w", cfg.Durable, cfg.Stream, err)
	}
	router.AddMiddleware(traced(&cfg), middleware.Recoverer, middleware.Timeout(cfg.HandlerTimeout))
	router.AddConsumerHandler(cfg.Service, topic(cfg.Stream, cfg.Durable), sub, handler(&cfg))
	err = router.Run(ctx)
	conn.flush()
	if abandoned := sub.abandoned.Load(); err == nil && abandoned > 0 {
		err = fmt.Errorf("the handler held %d messages when the %v for draining were over; they come again",
			abandoned, cfg.DrainTimeout)
	}
	if err != nil {
		return fmt.Errorf("consume %s of %s: %w", cfg.Durable, cfg.Stream, err)
	}
	return nil
}

// handler fits Handle to the router: verdicts travel in the batch, and an error means that there are none.
func handler(cfg *ConsumeConfig) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		b := batchOf(msg.Context())
		verdicts := cfg.Handle(msg.Context(), b.items)
		if len(verdicts) > len(b.items) {
			return fmt.Errorf("the handler returned %d verdicts for %d items", len(verdicts), len(b.items))
		}
		b.verdicts = append(make([]Verdict, 0, len(b.items)), verdicts...)[:len(b.items)]
		return nil
	}
}

func ackSite(cfg *ConsumeConfig) *fault.Site { return fault.NewSite(cfg.Service, "ack", fault.KindAck) }
