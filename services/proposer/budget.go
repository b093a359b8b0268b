package proposer

import (
	"fmt"
	"time"
)

// limits of what one run may use under one lease.
type limits struct {
	timeout, total time.Duration // of one call, and of all with the waits between them
	repairs        int
	input          int   // bytes of one request
	output         int   // tokens of one answer; 0 is not known
	tokens         int64 // of all calls; 0 has no limit
}

// spent is what the run has used under this lease.
type spent struct {
	began  time.Time
	calls  int
	tokens int64
	fails  map[class]int
}

// cost is what a call used: what the endpoint says, or else the most it can have been.
func (d *drafter) cost(c class, reported int64, size int) int64 {
	switch {
	case reported > 0:
		return min(reported, 1<<40) // a sum of nonsense must not overflow
	case c == notSent, c == busy, c == refused, d.limits.output == 0:
		return 0
	}
	return estimate(size) + int64(d.limits.output)
}

// estimate is how many tokens a request is at most likely to have. English has about four bytes in a token, other
// scripts three.
func estimate(size int) int64 { return int64(size)/3 + 1 }

// exceeds says why no call may be made with this request; "" where one may.
func (d *drafter) exceeds(used *spent, body []byte) string {
	switch left := d.limits.total - d.now().Sub(used.began); {
	case len(body) > d.limits.input:
		return fmt.Sprintf("the request has %d bytes, more than the source's max_input_bytes", len(body))
	case d.limits.tokens > 0 && used.tokens+estimate(len(body))+int64(d.limits.output) > d.limits.tokens:
		return "another call could use more than the source's max_tokens_total"
	case left < d.limits.timeout:
		return "no time is left for another call"
	}
	return ""
}
