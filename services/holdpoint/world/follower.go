package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
)

// follower reads what the tenant is told of its runs, from the tenant's stream and with the tenant's rights. A stream
// that was lost is read again from its start: event ids tell what is new.
type follower struct {
	nc *nats.Conn

	mu       sync.Mutex
	js       jetstream.JetStream
	consumer jetstream.Consumer
	seen     map[string]bool
	told     map[string][]contracts.Event // by run id, or by source where there is no run
}

// apiWait bounds one request of the follower.
const apiWait = 2 * time.Second

func (w *World) follow() *follower {
	w.t.Helper()
	w.tenant = w.connectTenant()
	js, err := jetstream.New(w.tenant)
	require.NoError(w.t, err)
	return &follower{nc: w.tenant, js: js, seen: map[string]bool{}, told: map[string][]contracts.Event{}}
}

func (f *follower) stop() { f.nc.Close() }

// read takes what is new in the stream. Trouble only means that there is nothing to read now.
func (f *follower) read() {
	ctx, cancel := context.WithTimeout(context.Background(), apiWait)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.consumer == nil {
		consumer, err := f.js.OrderedConsumer(ctx, bus.EventsStream(Tenant), jetstream.OrderedConsumerConfig{})
		if err != nil {
			return
		}
		f.consumer = consumer
	}
	batch, err := f.consumer.FetchNoWait(512)
	if err != nil {
		f.consumer = nil
		return
	}
	for msg := range batch.Messages() {
		f.hear(msg.Data())
	}
	if batch.Error() != nil {
		f.consumer = nil
	}
}

func (f *follower) hear(data []byte) {
	event, err := contracts.Decode(data)
	if err != nil || f.seen[event.ID] {
		return
	}
	f.seen[event.ID] = true
	f.told[event.Subject()] = append(f.told[event.Subject()], event)
}

func (f *follower) about(subject string) []contracts.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]contracts.Event(nil), f.told[subject]...)
}

// find looks for an event among those read.
func (f *follower) find(subject, kind string) (contracts.Event, bool) {
	for _, event := range f.about(subject) {
		if event.Data.Type() == kind {
			return event, true
		}
	}
	return contracts.Event{}, false
}

// AwaitTold waits until the tenant was told an event of a type about the run.
func (w *World) AwaitTold(e Event, kind string) contracts.Event {
	w.t.Helper()
	return w.awaitTold(e.RunID().String(), kind)
}

// AwaitToldAll waits until the tenant was told n events of a type about the run, in whatever order.
func (w *World) AwaitToldAll(e Event, kind string, n int) (found []contracts.Event) {
	w.t.Helper()
	w.Until(fmt.Sprintf("%d events %s about %s", n, kind, e.RunID()), func() bool {
		w.events.read()
		found = slices.DeleteFunc(w.events.about(e.RunID().String()), func(event contracts.Event) bool { return event.Data.Type() != kind })
		return len(found) >= n
	})
	return found
}

// AwaitRefused waits until the tenant was told that a message of a source was refused.
func (w *World) AwaitRefused(source string) *contracts.RunRefused {
	w.t.Helper()
	return w.awaitTold(source, contracts.TypeRunRefused).Data.(*contracts.RunRefused)
}

func (w *World) awaitTold(subject, kind string) (found contracts.Event) {
	w.t.Helper()
	w.Until("event "+kind+" about "+subject, func() (ok bool) {
		if found, ok = w.events.find(subject, kind); !ok {
			w.events.read()
			found, ok = w.events.find(subject, kind)
		}
		return ok
	})
	return found
}
