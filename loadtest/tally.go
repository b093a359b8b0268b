package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
)

// shard counts what one worker saw. Only its worker writes; the progress line reads the counters meanwhile.
type shard struct {
	sent, accepted, duplicates, conflicts, errors atomic.Int64

	acks histogram
	_    [64]byte // keeps the next shard's counters off this one's cache line
}

// tally is all shards and the complaints that they share.
type tally struct {
	shards []*shard

	mu         sync.Mutex
	complaints map[string]int
}

func newTally() *tally { return &tally{complaints: map[string]int{}} }

func (t *tally) shard() *shard {
	s := &shard{}
	t.shards = append(t.shards, s)
	return s
}

// totals is the sum of all shards.
type totals struct{ sent, accepted, duplicates, conflicts, errors int64 }

func (t *tally) totals() totals {
	var sum totals
	for _, s := range t.shards {
		sum.sent += s.sent.Load()
		sum.accepted += s.accepted.Load()
		sum.duplicates += s.duplicates.Load()
		sum.conflicts += s.conflicts.Load()
		sum.errors += s.errors.Load()
	}
	return sum
}

// acks merges the latencies of all shards, whose workers must have ended.
func (t *tally) acks() *histogram {
	all := &histogram{}
	for _, s := range t.shards {
		all.merge(&s.acks)
	}
	return all
}

// fail counts a delivery without a usable answer and keeps the reason for the report.
func (t *tally) fail(s *shard, format string, args ...any) {
	s.errors.Add(1)
	t.complain(format, args...)
}

// complain keeps a reason for the report.
func (t *tally) complain(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.complaints[reason]; known || len(t.complaints) < 20 {
		t.complaints[reason]++
	}
}

// loudest returns up to n reasons, the most frequent first.
func (t *tally) loudest(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, reason := range slices.SortedFunc(maps.Keys(t.complaints), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.complaints[b], t.complaints[a]), cmp.Compare(a, b))
	}) {
		lines = append(lines, fmt.Sprintf("%d × %s", t.complaints[reason], reason))
	}
	return lines[:min(n, len(lines))]
}

// judge counts the answer to one delivery of a key that was due at a moment.
func (t *tally) judge(s *shard, b *board, key int, due time.Time, body []byte) {
	a, err := readAnswer(body)
	if err != nil {
		t.fail(s, "unreadable answer: %v", err)
		return
	}
	switch a.Result {
	case contracts.ResultAccepted:
		s.accepted.Add(1)
		b.accept(key, a.RunID)
	case contracts.ResultDuplicate, contracts.ResultDuplicateWithResult, contracts.ResultOutcomeUnknown:
		s.duplicates.Add(1)
	case contracts.ResultPayloadMismatch:
		s.conflicts.Add(1)
	default:
		t.fail(s, "refused with %q: %s", cmp.Or(a.Code, a.Result), a.Detail)
		return
	}
	s.acks.add(time.Since(due))
}
