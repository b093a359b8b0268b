package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// tell writes one line a second until the context ends.
func (s *session) tell(ctx context.Context, out io.Writer) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	completed := s.board.completed.Load()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := s.board.completed.Load()
		fmt.Fprintln(out, s.line(time.Since(s.start), now-completed))
		completed = now
	}
}

// line is one line of progress; perSecond is how many runs completed since the one before.
func (s *session) line(elapsed time.Duration, perSecond int64) string {
	sum := s.tally.totals()
	text := fmt.Sprintf("%4.0fs  sent %d of %d  accepted %d  duplicates %d  conflicts %d  errors %d  "+
		"completed %d (%d/s)  open %d", elapsed.Seconds(), sum.sent, s.plan.total(), sum.accepted, sum.duplicates,
		sum.conflicts, sum.errors, s.board.completed.Load(), perSecond, s.board.open())
	if s.flow.reviewed() {
		made := s.desk.totals()
		text += fmt.Sprintf("  approved %d  rejected %d", made.Approved, made.Rejected)
	}
	return text
}
