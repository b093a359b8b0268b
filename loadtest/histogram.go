package main

import (
	"math/bits"
	"time"
)

// subBits gives every power of two of microseconds 64 buckets: a value is off by at most 1.6 %.
const subBits = 6

// histogram counts durations from a microsecond to half an hour; longer ones fall into the last bucket. It belongs to
// one goroutine; merge when that has ended.
type histogram struct {
	counts [(31 - subBits + 1) << subBits]uint64
	total  uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// bucket is linear below 2^subBits µs and logarithmic above, with the top subBits bits after the first kept.
func bucket(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < 1<<subBits {
		return int(us)
	}
	us = min(us, 1<<31-1)
	shift := bits.Len64(us) - 1 - subBits
	return (shift+1)<<subBits + int(us>>shift)&(1<<subBits-1)
}

// upper is the first duration beyond bucket i.
func upper(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i+1) * time.Microsecond
	}
	shift := i>>subBits - 1
	return time.Duration((1<<subBits|i&(1<<subBits-1))+1) << shift * time.Microsecond
}

// quantile returns a duration that the share q in [0, 1] of all values lies below, too large by at most 1.6 % or a
// microsecond; 0 where nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(h.total)+0.5))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return upper(i)
		}
	}
	return upper(len(h.counts) - 1)
}
