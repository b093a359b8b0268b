package main

import (
	"context"
	"sync/atomic"
	"time"
)

// plan says which delivery is due when. Deliveries are numbered from 0; the copies of a key follow each other, so that
// they are in flight together.
type plan struct {
	keys   int
	copies int
	every  float64       // nanoseconds between two deliveries; 0 is flat out
	limit  time.Duration // no delivery starts later than this; 0 is no limit
}

func newPlan(o *options) plan {
	p := plan{keys: o.keys, copies: o.duplicates, limit: o.duration}
	if o.rate > 0 {
		p.every = float64(time.Second) / o.rate
	}
	return p
}

func (p *plan) total() int     { return p.keys * p.copies }
func (p *plan) key(n int) int  { return n / p.copies }
func (p *plan) openLoop() bool { return p.every > 0 }
func (p *plan) sole() *queue   { return &queue{plan: p, step: 1} }
func (p *plan) halves() []*queue {
	return []*queue{{plan: p, step: 2}, {plan: p, step: 2, second: true}}
}

// offset is when delivery n is due, counted from the start. It is computed from n alone: a slow delivery does not push
// the later ones back.
func (p *plan) offset(n int) time.Duration { return time.Duration(float64(n) * p.every) }

// queue hands one door its share of the deliveries: all of them, or every second one.
type queue struct {
	plan   *plan
	step   int
	second bool
	next   atomic.Int64
}

// take returns the number of the next delivery, or false when there is none left.
func (q *queue) take() (int, bool) {
	n := (int(q.next.Add(1)) - 1) * q.step
	if q.step == 2 {
		n += q.side(n)
	}
	return n, n < q.plan.total()
}

// side picks one of deliveries n and n+1, n being even. With an even number of copies the doors change sides from key
// to key; else one door would always carry the first copy.
func (q *queue) side(n int) int {
	side := 0
	if q.second {
		side = 1
	}
	if q.plan.copies%2 == 0 && q.plan.key(n)%2 == 1 {
		side = 1 - side
	}
	return side
}

// pace makes one worker wait until its deliveries are due.
type pace struct {
	plan  *plan
	start time.Time
	timer *time.Timer
}

func newPace(p *plan, start time.Time) *pace {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &pace{plan: p, start: start, timer: timer}
}

// await blocks until delivery n is due and returns the moment from which its latency counts: in open loop the moment it
// was due, however late the worker is; flat out, now. It returns false when the plan or the context has ended.
func (p *pace) await(ctx context.Context, n int) (time.Time, bool) {
	due := time.Now()
	if p.plan.openLoop() {
		due = p.start.Add(p.plan.offset(n))
	}
	if p.plan.limit > 0 && due.Sub(p.start) >= p.plan.limit {
		return due, false
	}
	wait := time.Until(due)
	if wait <= 0 {
		return due, ctx.Err() == nil
	}
	p.timer.Reset(wait)
	select {
	case <-p.timer.C:
		return due, true
	case <-ctx.Done():
		return due, false
	}
}
