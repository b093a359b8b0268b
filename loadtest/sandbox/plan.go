package sandbox

import (
	"strconv"
	"sync"
	"time"
)

// rules are the installed faults.
type rules struct {
	news *news

	mu   sync.Mutex
	all  []*rule
	made int
}

func (r *rules) add(added []Rule) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, one := range added {
		r.made++
		id := "fault-" + strconv.Itoa(r.made)
		r.all = append(r.all, newRule(id, one))
		ids = append(ids, id)
	}
	return ids
}

func (r *rules) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

func (r *rules) list() []RuleState {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make([]RuleState, 0, len(r.all))
	for _, one := range r.all {
		states = append(states, one.RuleState)
	}
	return states
}

// plan is what will go wrong with one request.
type plan struct {
	delay     time.Duration
	before    *Fault // ends the request before anything is written
	after     *Fault // ends the request after the write is durable
	signals   []*Fault
	telling   telling
	ignoreKey bool
	sticky    *Answer
	lag       time.Duration
	empty     bool
	duplicate bool
}

// plan asks every rule about the call.
func (r *rules) plan(c call) plan {
	var p plan
	r.mu.Lock()
	defer r.mu.Unlock()
	fired := false
	for _, one := range r.all {
		if one.fires(c) {
			fired = true
			p.add(&one.Fault)
		}
	}
	if fired {
		r.news.tell()
	}
	return p
}

func (p *plan) add(f *Fault) {
	switch f.Kind {
	case Delay:
		p.delay += time.Duration(f.Duration)
	case HangBeforeAccept, ResetBeforeAccept, ErrorBeforeAccept, Redirect, RateLimit:
		p.before = first(p.before, f)
	case ErrorAfterAccept, AcceptThenHang, AcceptThenReset, TruncateBody:
		p.after = first(p.after, f)
		if p.after == f && f.Sticky { // Sticky has a meaning only for error_after_accept
			p.sticky = &Answer{Status: f.Status, Code: f.Code, Message: f.Message}
		}
	case Signal:
		p.signals = append(p.signals, f)
	case IgnoreIdempotencyKey:
		p.ignoreKey = true
	case LookupLag:
		p.lag = max(p.lag, time.Duration(f.Duration))
	case LookupEmpty:
		p.empty = true
	case LookupDuplicate:
		p.duplicate = true
	case RefuseConnection: // acts on the listener when it is installed
	default:
		p.telling.add(f)
	}
}

func first(held, next *Fault) *Fault {
	if held != nil {
		return held
	}
	return next
}
