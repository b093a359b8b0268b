package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// subscriber is watermill's Subscriber over durable pull consumers. One watermill message stands for one batch.
type subscriber struct {
	conn *Conn
	cfg  *ConsumeConfig
	site *fault.Site

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	running sync.WaitGroup // subscriptions

	abandoned atomic.Int64 // messages whose handler did not return before the end of the drain
}

func newSubscriber(conn *Conn, cfg *ConsumeConfig) *subscriber {
	return &subscriber{conn: conn, cfg: cfg, site: ackSite(cfg), closing: make(chan struct{})}
}

// topic names a consumer to watermill.
func topic(stream, durable string) string { return stream + "/" + durable }

// Subscribe starts the workers. They stop fetching when ctx ends or Close is called; the channel is closed when all
// that they hold is settled.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	stream, durable, ok := strings.Cut(topic, "/")
	if !ok {
		return nil, fmt.Errorf("topic %q does not name a stream and a consumer", topic)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the subscriber is closed")
	}
	stop, stopNow := context.WithCancel(ctx)
	drained, endDrain := context.WithCancel(context.WithoutCancel(ctx))
	out := make(chan *message.Message)
	var workers sync.WaitGroup
	for range s.cfg.Workers {
		w := &worker{subscriber: s, stream: stream, durable: durable, stop: stop, drained: drained, out: out}
		workers.Go(w.run)
	}
	finished := make(chan struct{})
	s.running.Go(func() {
		workers.Wait()
		close(finished)
		stopNow()
		endDrain()
		close(out)
	})
	s.running.Go(func() { s.watchStop(stop, stopNow, endDrain, finished) })
	return out, nil
}

// watchStop ends the fetching when the subscriber is closed, and the patience with what is held some time later.
func (s *subscriber) watchStop(stop context.Context, stopNow, endDrain func(), finished <-chan struct{}) {
	select {
	case <-stop.Done():
	case <-s.closing:
		stopNow()
	case <-finished:
		return
	}
	select {
	case <-time.After(s.cfg.DrainTimeout):
		endDrain()
	case <-finished:
	}
}

// Close stops fetching and waits until everything held is settled. The router calls it once per handler, so it may be
// called again.
func (s *subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// worker fetches a batch, hands it out, settles it, and fetches the next.
type worker struct {
	*subscriber
	stream, durable string
	stop            context.Context // ended: fetch no more
	drained         context.Context // ended: wait no longer for what is held
	out             chan<- *message.Message

	consumer jetstream.Consumer // nil until bound
	lastErr  string             // the trouble that was logged last
}

// Pauses of a worker: while the broker or the consumer is missing, and while every batch fails.
const (
	brokerPause   = 250 * time.Millisecond
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
)

func (w *worker) run() {
	failing := time.Duration(0)
	for w.stop.Err() == nil {
		msgs, err := w.fetch()
		w.logTrouble(err)
		switch {
		case err != nil && len(msgs) == 0:
			w.pause(brokerPause)
		case !w.deliver(msgs):
			failing = 0
		default:
			// When Postgres is away, fetching on would only wear out every message's deliveries.
			failing = min(max(2*failing, shortestPause), longestPause)
			w.pause(failing)
		}
	}
}

func (w *worker) pause(d time.Duration) {
	select {
	case <-w.stop.Done():
	case <-time.After(d):
	}
}

// logTrouble logs a change, not each repetition.
func (w *worker) logTrouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.lastErr {
		return
	}
	w.lastErr = text
	if err != nil {
		w.cfg.Logger.Warn("cannot fetch, trying again", "error", err)
	} else {
		w.cfg.Logger.Info("fetching again")
	}
}

// fetch takes what is there, up to a batch; when nothing is, it waits for the first message and takes what came with
// it. A plain fetch of a whole batch would hold early messages back until its wait is over. A stop does not cut the
// wait short: a message on its way to a request that is no longer listened for would be lost until the broker's
// patience ends.
func (w *worker) fetch() ([]jetstream.Msg, error) {
	if w.consumer == nil {
		consumer, err := w.conn.js.Consumer(w.stop, w.stream, w.durable)
		if err != nil {
			return nil, w.fetchError(err)
		}
		w.consumer = consumer
	}
	msgs, err := collect(w.consumer.FetchNoWait(w.cfg.Batch))
	if len(msgs) > 0 || err != nil {
		return msgs, w.fetchError(err)
	}
	msgs, err = collect(w.consumer.Fetch(1, jetstream.FetchMaxWait(w.cfg.IdleWait)))
	if len(msgs) == 0 || w.cfg.Batch == 1 || w.stop.Err() != nil {
		return msgs, w.fetchError(err)
	}
	more, err := collect(w.consumer.FetchNoWait(w.cfg.Batch - 1))
	return append(msgs, more...), w.fetchError(err)
}

func collect(fetched jetstream.MessageBatch, err error) ([]jetstream.Msg, error) {
	if err != nil {
		return nil, err
	}
	var msgs []jetstream.Msg
	for msg := range fetched.Messages() {
		msgs = append(msgs, msg)
	}
	return msgs, fetched.Error()
}

func (w *worker) fetchError(err error) error {
	if err == nil {
		return nil
	}
	for _, missing := range []error{
		nats.ErrNoResponders, jetstream.ErrConsumerNotFound, jetstream.ErrStreamNotFound, jetstream.ErrConsumerDeleted,
	} {
		if errors.Is(err, missing) {
			w.conn.suspect()
			return fmt.Errorf("the stream or its consumer does not exist: %w", err)
		}
	}
	return plainly(err)
}

// deliver hands out what was fetched and settles it. It reports whether nothing of an ordinary batch could be done,
// which is how an outage looks; items that keep coming back say nothing about the others.
func (w *worker) deliver(msgs []jetstream.Msg) (outage bool) {
	if len(msgs) == 0 {
		return false
	}
	ackWait := w.consumer.CachedInfo().Config.AckWait
	queue := groups(msgs)
	ordinary, acked := false, 0
	for len(queue) > 0 {
		b := queue[0]
		queue = queue[1:]
		ordinary = ordinary || b.items[0].NumDelivered <= AloneAfter
		// The later groups are kept alive too, while this one is handled within its time.
		alive, letGo := context.WithCancel(context.WithoutCancel(w.stop))
		var beating sync.WaitGroup
		beating.Go(func() { heartbeat(alive, msgs, ackWait, w.cfg.HandlerTimeout+ackWait) })
		verdicts := w.handle(b)
		if verdicts == nil && len(b.items) > 1 && w.stop.Err() == nil {
			queue = append(b.split(), queue...)
		} else {
			acked += w.settle(b, verdicts)
		}
		letGo()
		beating.Wait()
	}
	return ordinary && acked == 0
}

// handle emits one batch and waits for what becomes of it. It returns nil when there are no verdicts: the handler
// failed as a whole, or the time of the shutdown is over.
func (w *worker) handle(b *batch) []Verdict {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.stop))
	defer cancel()
	msg := b.message(withBatch(ctx, b))
	select {
	case w.out <- msg:
	case <-w.stop.Done():
		return nil
	}
	select {
	case <-msg.Acked():
		if b.verdicts == nil { // A handler that is not ours has acknowledged the message as a whole.
			b.verdicts = allAcked(len(b.items))
		}
		return b.verdicts
	case <-msg.Nacked():
		return nil
	case <-w.drained.Done():
		w.abandoned.Add(int64(len(b.items)))
		return nil
	}
}

func allAcked(n int) []Verdict {
	verdicts := make([]Verdict, n)
	for i := range verdicts {
		verdicts[i] = Ack
	}
	return verdicts
}

// message is what watermill sees. A single item shows its content, for plain watermill handlers; a larger batch has
// none.
func (b *batch) message(ctx context.Context) *message.Message {
	first := &b.items[0]
	msg := message.NewMessageWithContext(ctx, fmt.Sprintf("%s:%d+%d", first.Stream, first.StreamSeq, len(b.items)), nil)
	if len(b.items) == 1 {
		msg.Payload = first.Data
		for name := range first.Header {
			msg.Metadata.Set(name, first.Header.Get(name))
		}
		if id := first.Header.Get(jetstream.MsgIDHeader); id != "" {
			msg.UUID = id
		}
	}
	return msg
}

// settle acknowledges what is done and delays the rest. Plain acks are enough: a lost one costs a duplicate.
func (w *worker) settle(b *batch, verdicts []Verdict) (acked int) {
	keys := w.keys(b)
	w.site.Before(noContext, keys...)
	for i, msg := range b.msgs {
		verdict := Retry
		if verdicts != nil {
			verdict = verdicts[i]
		}
		var err error
		switch {
		case verdict.ack:
			acked++
			err = msg.Ack()
		case verdicts == nil && w.stop.Err() != nil:
			err = msg.Nak() // Never handled, or given up at the shutdown: another replica takes it now.
		default:
			err = msg.NakWithDelay(w.delay(verdict, &b.items[i]))
		}
		if err != nil {
			w.cfg.Logger.Debug("could not settle a message, it will come again", "error", plainly(err))
		}
	}
	w.site.AfterFlush(noContext, func(context.Context) error { return w.conn.nc.FlushTimeout(flushTimeout) }, keys...)
	return acked
}

func (w *worker) delay(v Verdict, item *Item) time.Duration {
	if v.after > 0 {
		return v.after
	}
	return w.cfg.RetryDelay(item.NumDelivered)
}

// keys gathers the runs for a crash mark; normal builds leave it out.
func (w *worker) keys(b *batch) []string {
	if !fault.Enabled || w.cfg.Keys == nil {
		return nil
	}
	var keys []string
	for _, item := range b.items {
		keys = append(keys, w.cfg.Keys(item)...)
	}
	return keys
}
