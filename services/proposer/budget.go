package proposer

import (
	"fmt"
	"time"
)

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
	case c == notSent || c == busy || c == refused:
		return 0
	}
	return estimate(size) + int64(d.declared.MaxOutputTokens)
}

// estimate is how many tokens a request is at most likely to have. English has about four bytes in a token, other
// scripts three.
func estimate(size int) int64 { return int64(size)/3 + 1 }

// exceeds says why no call may be made with this request; "" where one may.
func (d *drafter) exceeds(used *spent, body []byte) string {
	switch left := d.declared.TotalTime - d.now().Sub(used.began); {
	case len(body) > d.declared.MaxInputBytes:
		return fmt.Sprintf("the request has %d bytes, more than the source's max_input_bytes", len(body))
	case used.tokens+estimate(len(body))+int64(d.declared.MaxOutputTokens) > int64(d.declared.MaxTokens):
		return "another call could use more than the source's max_tokens_total"
	case left < d.declared.Timeout:
		return "no time is left for another call"
	}
	return ""
}
