package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// desk is where the people sit who decide the runs of this load: some deciders, each with a request in hand.
type desk struct {
	*session
	people []*reviewer
	client *http.Client
	queue  chan request
	shards []*deskShard

	group   sync.WaitGroup
	closing sync.Once
	done    chan struct{}
}

// request is a run that waits for people, as run.awaiting_human tells of it.
type request struct {
	key        int
	intentHash string
}

// deskShard counts what one decider did. Only that one writes; the progress line reads the counters meanwhile.
type deskShard struct {
	approved, rejected, already, errors atomic.Int64

	calls histogram // of decisions that were answered
	_     [64]byte  // keeps the next shard's counters off this one's cache line
}

// maxWaiting is how many requests may wait at the desk before the event stream waits for the desk.
const maxWaiting = 1 << 20

// newDesk signs everybody in, so that a load that nobody could decide never begins, and seats the deciders.
func newDesk(ctx context.Context, s *session) (*desk, error) {
	people, err := reviewersOf(s.ready, s.flow.reviewers)
	if err != nil {
		return nil, err
	}
	for _, p := range people {
		if _, err := p.token(ctx); err != nil {
			return nil, err
		}
	}
	d := &desk{
		session: s, people: people, done: make(chan struct{}), queue: make(chan request, min(s.plan.keys, maxWaiting)),
		client: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: s.opts.deciders}},
	}
	for n := range s.opts.deciders {
		own := &deskShard{}
		d.shards = append(d.shards, own)
		d.group.Go(func() { d.work(ctx, people[n%len(people)], own) })
	}
	return d, nil
}

// ask puts a request on the desk. Once it is closed, nobody takes any.
func (d *desk) ask(r request) {
	select {
	case d.queue <- r:
	case <-d.done:
	}
}

// close waits until every decision in hand is made. A nil desk is that of a flow without people.
func (d *desk) close() {
	if d == nil {
		return
	}
	d.closing.Do(func() { close(d.done) })
	d.group.Wait()
	d.client.CloseIdleConnections()
}

// lookBack asks what was decided about keys whose run has ended before the desk came to their request: somebody else was faster, and
// the run's end was told before the request was (A8). It is for a desk that is closed. What cannot be found stays undecided.
func (d *desk) lookBack(ctx context.Context) {
	if d == nil {
		return
	}
	for key := range d.board.entries {
		e := &d.board.entries[key]
		if e.operation.Load() == nil || e.decided.Load() != undecided {
			continue
		}
		approval, err := d.find(ctx, d.people[0], key)
		if err == nil && approval.Status != statusPending {
			d.shards[0].already.Add(1)
			d.board.decide(key, approval.Status)
		}
	}
}

func (d *desk) work(ctx context.Context, who *reviewer, own *deskShard) {
	for {
		select {
		case r := <-d.queue:
			d.settleRequest(ctx, who, own, r)
		case <-d.done:
			return
		}
	}
}

// Decisions that failed are tried again: the same vote can be sent any number of times.
const (
	tries    = 3
	tryAgain = 200 * time.Millisecond
)

// settleRequest decides one request. Each try that failed is an error of the report, even where a later one succeeds.
func (d *desk) settleRequest(ctx context.Context, who *reviewer, own *deskShard, r request) {
	for range tries {
		err := d.decide(ctx, who, own, r)
		if err == nil || ctx.Err() != nil {
			return
		}
		own.errors.Add(1)
		d.tally.complain("decision by %s: %v", who.person.Login, err)
		select {
		case <-time.After(tryAgain):
		case <-d.done:
			return
		}
	}
}

// rejects picks the share of keys that is turned down, evenly over all keys and the same in every try.
func (o *options) rejects(key int) bool {
	return int(float64(key+1)*o.rejectShare) > int(float64(key)*o.rejectShare)
}

// totals sums up what was decided so far.
func (d *desk) totals() decisions {
	var sum decisions
	if d == nil {
		return sum
	}
	for _, s := range d.shards {
		sum.Approved += s.approved.Load()
		sum.Rejected += s.rejected.Load()
		sum.AlreadyDecided += s.already.Load()
		sum.Errors += s.errors.Load()
	}
	return sum
}

// calls merges the latencies of all deciders, who must have left.
func (d *desk) calls() *histogram {
	all := &histogram{}
	for _, s := range d.shards {
		all.merge(&s.calls)
	}
	return all
}
