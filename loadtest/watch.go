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

// watch sees runs wait for people and end, on the tenant's event stream, from the moment it was made.
type watch struct {
	nc       *nats.Conn
	consumer jetstream.Consumer
	flow     flow

	unreadable atomic.Int64 // events that do not decode

	mu       sync.Mutex
	consume  jetstream.ConsumeContext
	endToEnd histogram // from the due time of a key's first copy to the end of its run, see counts
}

// newWatch finds the end of the stream, so that nothing published later is missed and nothing earlier is read.
func newWatch(ctx context.Context, system ready, f flow) (*watch, error) {
	nc, err := connectNATS(system, "watch")
	if err != nil {
		return nil, err
	}
	w := &watch{nc: nc, flow: f}
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
	prefix := contracts.EventsPrefix + tenant + ".run"
	subjects := []string{prefix + completedSuffix, prefix + ".ended"}
	if w.flow.reviewed() {
		subjects = append(subjects, prefix+waitingSuffix)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    stream.CachedInfo().State.LastSeq + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("watch the event stream %s: %w", name, err)
	}
	return consumer, nil
}

// Ends of the subjects that need telling apart.
const (
	completedSuffix = ".completed"
	waitingSuffix   = ".awaiting_human"
)

// follow begins to enter what it sees on the board, and to put what waits on the desk, which is nil where nothing does.
func (w *watch) follow(b *board, d *desk) error {
	see := func(msg jetstream.Msg) {
		if strings.HasSuffix(msg.Subject(), waitingSuffix) {
			w.waits(b, d, msg.Data())
		} else {
			w.ends(b, msg)
		}
	}
	consume, err := w.consumer.Consume(see, jetstream.PullMaxMessages(2000))
	if err != nil {
		return fmt.Errorf("follow the event stream: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.consume = consume
	return nil
}

// waits puts a run of ours on the desk.
func (w *watch) waits(b *board, d *desk, data []byte) {
	event, err := contracts.Decode(data)
	run, is := event.Data.(*contracts.RunAwaitingHuman)
	if err != nil || !is {
		w.unreadable.Add(1)
		return
	}
	if key, ours := b.index(run.IdempotencyKey); ours && b.wait(key, event.ID) {
		d.ask(request{key: key, intentHash: run.IntentHash})
	}
}

// ends enters the end of a run. Each of its two subjects carries one type.
func (w *watch) ends(b *board, msg jetstream.Msg) {
	key, ok := member(msg.Data(), `"idempotency_key":"`)
	operation, alsoOK := member(msg.Data(), `"operation_id":"`)
	if !ok || !alsoOK {
		if key, operation, ok = w.decode(msg.Data()); !ok {
			w.unreadable.Add(1)
			return
		}
	}
	completed := strings.HasSuffix(msg.Subject(), completedSuffix)
	if took, ours := b.finish(key, operation, completed, time.Now()); ours && w.counts(completed) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.endToEnd.add(took)
	}
}

// counts reports whether the time to an end is measured: where people decide, a rejection is a result like any other.
func (w *watch) counts(completed bool) bool { return completed || w.flow.reviewed() }

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
