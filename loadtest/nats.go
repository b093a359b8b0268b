package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// natsDoor publishes to the tenant's ingress stream and takes the answers that intake sends to the reply subject named
// in a header, after its commit (K14). One goroutine publishes, one takes answers.
type natsDoor struct {
	*session
	queue  *queue
	body   *template
	own    *shard
	inbox  string
	window chan struct{}  // one token for each delivery in flight
	due    []atomic.Int64 // by delivery: when it was due, in nanoseconds after start, plus one; 0 is not in flight
	oldest int            // every delivery before this one is settled
	newest int            // every delivery from this one on is still to come
}

func newNATSDoor(s *session, q *queue) *natsDoor {
	return &natsDoor{
		session: s, queue: q, body: newTemplate(s.flow.event, s.run, s.start), own: s.tally.shard(),
		window: make(chan struct{}, s.opts.concurrency), due: make([]atomic.Int64, s.plan.total()),
	}
}

// connectNATS connects with the credentials inside the URL. They let a tenant listen under its own inbox prefix alone.
func connectNATS(r ready, name string) (*nats.Conn, error) {
	nc, err := nats.Connect(r.NATSURL, nats.Name("holdpoint-loadtest-"+name), nats.MaxReconnects(-1),
		nats.CustomInboxPrefix("_INBOX_"+r.Tenant))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// deliver publishes the queue and waits for the answers.
func (d *natsDoor) deliver(ctx context.Context) error {
	nc, err := connectNATS(d.ready, "door")
	if err != nil {
		return err
	}
	defer nc.Close()
	d.inbox = nc.NewInbox() + "."
	replies, err := nc.Subscribe(d.inbox+"*.*", d.answered)
	if err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	if err := replies.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("lift the limits of answers: %w", err)
	}
	if err := d.publish(ctx, nc); err != nil {
		return err
	}
	for range cap(d.window) { // when all tokens are back, nothing is in flight
		if !d.acquire(ctx) {
			return nil
		}
	}
	return nil
}

// publish sends one message after the other. The client copies a message before PublishMsg returns, so all use the same
// memory.
func (d *natsDoor) publish(ctx context.Context, nc *nats.Conn) error {
	pace := newPace(&d.plan, d.start)
	key, id, answer := []string{""}, []string{""}, []string{""}
	msg := &nats.Msg{
		Subject: "holdpoint.ingress." + d.ready.Tenant + "." + d.flow.source,
		Header: nats.Header{
			"Idempotency-Key": key, "Nats-Msg-Id": id, "Holdpoint-Reply": answer,
			"Content-Type": []string{"application/json"},
		},
	}
	keys := newTemplate(d.board.prefix+digitsHole, d.run, d.start)
	var text []byte
	for {
		n, ok := d.queue.take()
		if !ok || !d.acquire(ctx) {
			return nil
		}
		due, ok := pace.await(ctx, n)
		if !ok {
			<-d.window
			return nil
		}
		number := strconv.Itoa(n)
		text = keys.render(text, d.plan.key(n))
		key[0], id[0] = string(text), d.run+"-"+number
		msg.Reply, answer[0] = d.inbox+tokenStored+"."+number, d.inbox+tokenAnswered+"."+number
		msg.Data = d.body.render(msg.Data, d.plan.key(n))
		d.begin(n, due)
		if err := nc.PublishMsg(msg); err != nil {
			d.end(n, func(time.Time) { d.tally.fail(d.own, "NATS: %v", err) })
		}
	}
}

func (d *natsDoor) begin(n int, due time.Time) {
	d.board.sent(d.plan.key(n), due)
	d.own.sent.Add(1)
	d.newest = n + 1
	d.due[n].Store(max(0, due.Sub(d.start).Nanoseconds()) + 1)
}

// end settles a delivery once, however many answers come.
func (d *natsDoor) end(n int, settle func(due time.Time)) {
	at := d.due[n].Swap(0)
	if at == 0 {
		return
	}
	settle(d.start.Add(time.Duration(at - 1)))
	<-d.window
}

// acquire takes a token. Deliveries that got no answer in time give theirs back as errors, so a lost answer never stops
// the load.
func (d *natsDoor) acquire(ctx context.Context) bool {
	select {
	case d.window <- struct{}{}:
		return true
	default:
	}
	ticker := time.NewTicker(answerTimeout / 30)
	defer ticker.Stop()
	for {
		select {
		case d.window <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		case <-ticker.C:
			d.expire(time.Now().Add(-answerTimeout))
		}
	}
}

// expire gives up on deliveries that have been in flight since before a moment.
func (d *natsDoor) expire(before time.Time) {
	settledSoFar := true
	for n := d.oldest; n < d.newest; n++ {
		at := d.due[n].Load()
		switch {
		case at == 0:
		case d.start.Add(time.Duration(at - 1)).Before(before):
			d.end(n, func(time.Time) { d.tally.fail(d.own, "NATS: no answer within %s", answerTimeout) })
		default:
			settledSoFar = false
		}
		if settledSoFar {
			d.oldest = n + 1
		}
	}
}
