package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdpoint/holdpoint/contracts"
)

// watch sees runs end on the tenant's event stream, from the moment it was made.
type watch struct {
	nc       *nats.Conn
	consumer jetstream.Consumer

	unreadable atomic.Int64 // events that do not decode

	mu       sync.Mutex
	consume  jetstream.ConsumeContext
	endToEnd histogram // from the due time of a key's first copy to the arrival of run.completed
}

// newWatch finds the end of the stream, so that nothing published later is missed and nothing earlier is read.
func newWatch(ctx context.Context, system ready) (*watch, error) {
	nc, err := connectNATS(system.NATSURL, "watch")
	if err != nil {
		return nil, err
	}
	w := &watch{nc: nc}
	if w.consumer, err = w.fromNow(ctx, system.Tenant); err != nil {
		nc.Close()
		return nil, err
	}
	return w, nil
}

func (w *watch) fromNow(ctx context.Context, tenant string) (jetstream.Consumer, error) {
	js, err := jetstream.New(w.nc)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	name := "HOLDPOINT_EVENTS_" + strings.ToUpper(tenant)
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find the event stream %s of tenant %s: %w", name, tenant, err)
	}
	subjects := contracts.EventsPrefix + tenant + ".run."
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subjects + "completed", subjects + "ended"},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    stream.CachedInfo().State.LastSeq + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("watch the event stream %s: %w", name, err)
	}
	return consumer, nil
}

// follow begins to enter what it sees on the board.
func (w *watch) follow(b *board) error {
	consume, err := w.consumer.Consume(func(msg jetstream.Msg) { w.see(b, msg) }, jetstream.PullMaxMessages(2000))
	if err != nil {
		return fmt.Errorf("follow the event stream: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.consume = consume
	return nil
}

// see enters the end of a run. The two subjects that are watched carry one type each.
func (w *watch) see(b *board, msg jetstream.Msg) {
	key, ok := member(msg.Data(), `"idempotency_key":"`)
	operation, alsoOK := member(msg.Data(), `"operation_id":"`)
	if !ok || !alsoOK {
		if key, operation, ok = w.decode(msg.Data()); !ok {
			w.unreadable.Add(1)
			return
		}
	}
	completed := strings.HasSuffix(msg.Subject(), ".completed")
	if took, ours := b.finish(key, operation, completed, time.Now()); ours && completed {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.endToEnd.add(took)
	}
}

// decode reads an event the long way: one that ended without an operation, or that is written in another style.
func (w *watch) decode(data []byte) (key, operation string, ok bool) {
	event, err := contracts.Decode(data)
	if err != nil {
		return "", "", false
	}
	switch run := event.Data.(type) {
	case *contracts.RunCompleted:
		return run.IdempotencyKey, run.OperationID, true
	case *contracts.RunEnded:
		return run.IdempotencyKey, run.OperationID, true
	default:
		return "", "", false
	}
}

// latencies is a copy of what was measured so far.
func (w *watch) latencies() *histogram {
	w.mu.Lock()
	defer w.mu.Unlock()
	measured := w.endToEnd
	return &measured
}

func (w *watch) close() {
	w.mu.Lock()
	consume := w.consume
	w.consume = nil
	w.mu.Unlock()
	if consume != nil {
		consume.Stop()
	}
	w.nc.Close()
}
