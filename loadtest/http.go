package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// httpDoor delivers through POST {intake}/v1/sources/{source}/events, each worker over a connection of its own.
type httpDoor struct {
	*session
	addr    string
	request *template // head and body
	queue   *queue
}

func newHTTPDoor(s *session, q *queue) (*httpDoor, error) {
	addr, err := hostOf(s.ready.IntakeURL)
	if err != nil {
		return nil, err
	}
	body := newTemplate(s.flow.event, s.run, s.start)
	head := fmt.Sprintf("POST /v1/sources/%s/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nIdempotency-Key: %s%s\r\nContent-Length: %d\r\n\r\n",
		s.flow.source, addr, s.ready.APIKey, s.board.prefix, digitsHole, len(body.text))
	return &httpDoor{
		session: s, addr: addr, queue: q, request: newTemplate(head+string(body.text), s.run, s.start),
	}, nil
}

// deliver runs the workers until the queue is empty or the context ends.
func (d *httpDoor) deliver(ctx context.Context) error {
	var group sync.WaitGroup
	for range min(d.opts.concurrency, d.plan.total()) {
		own := d.tally.shard()
		group.Go(func() { d.work(ctx, own) })
	}
	group.Wait()
	return nil
}

func (d *httpDoor) work(ctx context.Context, own *shard) {
	c := &conn{addr: d.addr}
	defer c.close()
	pace := newPace(&d.plan, d.start)
	var request []byte
	for {
		n, ok := d.queue.take()
		if !ok {
			return
		}
		due, ok := pace.await(ctx, n)
		if !ok {
			return
		}
		key := d.plan.key(n)
		request = d.request.render(request, key)
		d.board.sent(key, due)
		own.sent.Add(1)
		d.send(ctx, c, own, key, due, request)
	}
}

// send delivers once, and never again: what an error means for the run is for the ledger to say.
func (d *httpDoor) send(ctx context.Context, c *conn, own *shard, key int, due time.Time, request []byte) {
	status, body, err := c.do(ctx, request)
	switch {
	case err != nil:
		d.tally.fail(own, "HTTP: %v", err)
	case status == http.StatusOK || status == http.StatusAccepted || status == http.StatusUnprocessableEntity:
		d.tally.judge(own, d.board, key, due, body)
	default:
		d.tally.fail(own, "HTTP %d: %.200s", status, body)
	}
}
