package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// board remembers what is known of every key of this run of the driver.
type board struct {
	prefix  string // of every idempotency key
	start   time.Time
	entries []entry

	accepted  atomic.Int64 // keys with an accepted answer
	completed atomic.Int64 // keys whose run completed
	ended     atomic.Int64 // keys whose run ended otherwise
	closed    atomic.Int64 // keys with both an accepted answer and an ended run
	last      atomic.Int64 // when the last run ended, in nanoseconds after start
}

// entry is one key.
type entry struct {
	first     atomic.Int64           // when its first copy was due, in nanoseconds after start, plus one; 0 is never
	run       atomic.Pointer[string] // the run it was accepted as; nil before that
	operation atomic.Pointer[string] // of the run that ended, "" where it made none; nil before that
	known     atomic.Int32           // how many of the two are set
	completed atomic.Bool            // the run that ended was executed
	asked     atomic.Pointer[string] // the event that last said it waits for people
	decided   atomic.Int32           // what people decided: undecided, approved or rejected
}

// What people decided about a key.
const (
	undecided int32 = iota
	approved
	rejected
)

func newBoard(run string, keys int, start time.Time) *board {
	return &board{prefix: "load-" + run + "-", start: start, entries: make([]entry, keys)}
}

// index finds a key of this run by its text.
func (b *board) index(idempotencyKey string) (int, bool) {
	digits, ours := strings.CutPrefix(idempotencyKey, b.prefix)
	if !ours {
		return 0, false
	}
	key, err := strconv.Atoi(digits)
	return key, err == nil && key >= 0 && key < len(b.entries)
}

// text is the idempotency key of a key.
func (b *board) text(key int) string { return fmt.Sprintf("%s%0*d", b.prefix, len(digitsHole), key) }

// wait notes that a key's run waits for people. It returns false for an event that was seen before: events are
// delivered at least once.
func (b *board) wait(key int, event string) bool {
	before := b.entries[key].asked.Swap(&event)
	return before == nil || *before != event
}

// decide notes the status of a key's approval after a decision.
func (b *board) decide(key int, status string) {
	switch status {
	case resultApproved:
		b.entries[key].decided.Store(approved)
	case resultRejected:
		b.entries[key].decided.Store(rejected)
	}
}

// sent notes that a copy of the key was due.
func (b *board) sent(key int, due time.Time) {
	at := max(0, due.Sub(b.start).Nanoseconds()) + 1
	first := &b.entries[key].first
	for held := first.Load(); held == 0 || at < held; held = first.Load() {
		if first.CompareAndSwap(held, at) {
			return
		}
	}
}

// accept notes the run that a key was accepted as. Only the first such answer counts; the tally shows further ones.
func (b *board) accept(key int, runID string) {
	if b.entries[key].run.CompareAndSwap(nil, &runID) {
		b.accepted.Add(1)
		b.learn(key)
	}
}

// learn counts the key as closed with the second of its two facts: a run may well end before its answer arrives.
func (b *board) learn(key int) {
	if b.entries[key].known.Add(1) == 2 {
		b.closed.Add(1)
	}
}

// finish notes the end of a run and returns how long it took since its first copy was due. It returns false for a run
// that is not ours or has ended already: events are delivered at least once.
func (b *board) finish(idempotencyKey, operationID string, completed bool, now time.Time) (time.Duration, bool) {
	key, ours := b.index(idempotencyKey)
	if !ours || !b.entries[key].operation.CompareAndSwap(nil, &operationID) {
		return 0, false
	}
	b.entries[key].completed.Store(completed)
	since := now.Sub(b.start)
	b.last.Store(since.Nanoseconds())
	if completed {
		b.completed.Add(1)
	} else {
		b.ended.Add(1)
	}
	b.learn(key) // last: whoever waits for open runs reads the counts next
	return since - time.Duration(b.entries[key].first.Load()-1), true
}

// fired counts the keys of which at least one copy was due.
func (b *board) fired() int {
	n := 0
	for i := range b.entries {
		if b.entries[i].first.Load() != 0 {
			n++
		}
	}
	return n
}

// open is how many accepted runs have not ended.
func (b *board) open() int64 { return b.accepted.Load() - b.closed.Load() }
