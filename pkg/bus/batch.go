package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// noContext is where nothing but a value is looked up.
var noContext = context.Background()

// batch is what one watermill message stands for: items that are handled together, and what becomes of each.
type batch struct {
	items    []Item
	msgs     []jetstream.Msg // beside items
	verdicts []Verdict       // beside items; nil until the handler has spoken
}

type batchKey struct{}

func withBatch(ctx context.Context, b *batch) context.Context {
	return context.WithValue(ctx, batchKey{}, b)
}

// batchOf is the batch of a message that our subscriber emitted; others do not reach our router.
func batchOf(ctx context.Context) *batch { return ctx.Value(batchKey{}).(*batch) }

// groups splits what was fetched: one batch of ordinary items, in the order of delivery, then a batch of its own for
// each item that keeps coming back.
func groups(msgs []jetstream.Msg) []*batch {
	together := &batch{}
	var alone []*batch
	for _, msg := range msgs {
		meta, err := msg.Metadata()
		if err != nil {
			continue // Not a delivery of JetStream; nothing could acknowledge it.
		}
		item := newItem(msg, meta)
		if item.NumDelivered > AloneAfter {
			alone = append(alone, &batch{items: []Item{item}, msgs: []jetstream.Msg{msg}})
			continue
		}
		together.items = append(together.items, item)
		together.msgs = append(together.msgs, msg)
	}
	if len(together.items) == 0 {
		return alone
	}
	return append([]*batch{together}, alone...)
}

// split gives each item a batch of its own.
func (b *batch) split() []*batch {
	var singles []*batch
	for i := range b.items {
		singles = append(singles, &batch{items: b.items[i : i+1], msgs: b.msgs[i : i+1]})
	}
	return singles
}

// heartbeat tells the broker at each third of its patience that the messages are still being worked on. It gives up
// at the limit: whoever has not finished by then may never, and the messages must go to somebody else.
func heartbeat(ctx context.Context, msgs []jetstream.Msg, ackWait, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(ackWait / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, msg := range msgs {
				_ = msg.InProgress() // Settled ones refuse; a lost heartbeat costs a duplicate.
			}
		}
	}
}
