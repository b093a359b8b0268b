package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

func TestDrive(t *testing.T) {
	t.Parallel()

	for _, door := range []string{doorHTTP, doorNATS, doorBoth} {
		t.Run("SoundSystemHoldsEveryPromiseThroughDoor_"+door, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			r := s.drive(func(o *options) { o.door, o.keys, o.duplicates = door, 40, 3 })
			require.Empty(t, r.broken)
			require.Equal(t, []int64{40, 80, 0, 0, 40}, []int64{r.Accepted, r.Duplicates, r.Conflicts, r.Errors, r.Completed})
			require.Equal(t, []int{40, 0, 0}, []int{r.Sandbox.Writes, r.Sandbox.DuplicateWrites, r.Sandbox.Missing})
			require.Positive(t, r.RunsPerSecond)
			for _, q := range []quantiles{r.AckMS, r.EndToEndMS} {
				require.Positive(t, q.P50)
				require.LessOrEqual(t, q.P50, q.P95)
				require.LessOrEqual(t, q.P95, q.P99)
			}
			require.Len(t, s.bodies, 40)
			for key, copies := range s.copies {
				require.Equal(t, 3, copies, key)
			}
			require.Len(t, s.messages, map[string]int{doorHTTP: 0, doorNATS: 120, doorBoth: 60}[door],
				"every copy over NATS has a message id of its own")
		})
	}

	t.Run("TwoLoadsOnOneSystemDoNotMix", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		require.Empty(t, s.drive().broken)
		r := s.drive()
		require.Empty(t, r.broken)
		require.Equal(t, 50, r.Sandbox.Writes)
	})

	t.Run("OpenLoopKeepsItsRateAndItsDuration", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		r := s.drive(func(o *options) {
			o.door, o.keys, o.duplicates, o.rate, o.duration = doorBoth, 1000, 2, 200, 500*time.Millisecond
		})
		require.Empty(t, r.broken)
		require.EqualValues(t, 50, r.Accepted, "200 deliveries a second for half a second are 100, or 50 keys")
		require.EqualValues(t, 50, r.Duplicates)
		require.GreaterOrEqual(t, r.elapsed, 400*time.Millisecond)
		require.Contains(t, r.text(), "200 deliveries/s")
	})

	t.Run("EndedContextEndsTheLoad", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		s.opts.rate, s.opts.door = 1, doorBoth
		ctx, cancel := context.WithCancel(t.Context())
		_, err := drive(ctx, s.opts, cancelling{cancel})
		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("ProgressIsToldMeanwhile", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		s.opts.rate, s.opts.keys = 20, 30
		var progress strings.Builder
		_, err := drive(t.Context(), s.opts, &progress)
		require.NoError(t, err)
		require.Regexp(t, `1s  sent \d+ of 30  accepted \d+  duplicates 0  conflicts 0  errors 0  `+
			`completed \d+ \(\d+/s\)  open \d+`, progress.String())
	})
}

// cancelling ends the load at its first line of progress.
type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func TestBrokenPromisesAreFound(t *testing.T) {
	t.Parallel()
	third := func(run int) bool { return run%3 == 0 } // of 9 keys: 3, 6 and 9
	for name, c := range map[string]struct {
		doors  []string
		change func(*system)
		want   string
	}{
		"WriteMadeTwice": {
			change: func(s *system) {
				s.writesOf = func(run int) int {
					if third(run) {
						return 2
					}
					return 1
				}
			},
			want: "3 writes were made twice",
		},
		"SecondWriteUnderAnotherOperation": {
			change: func(s *system) { s.extra = "op-again-" },
			want:   "9 writes more than there are keys",
		},
		"CompletedRunWithoutWrite": {
			change: func(s *system) {
				s.writesOf = func(run int) int {
					if third(run) {
						return 0
					}
					return 1
				}
			},
			want: "3 accepted runs have no write",
		},
		"RunThatNeverEndsIsOpenAndItsWriteIsFoundThroughIntake": {
			change: func(s *system) {
				s.opts.settle = 50 * time.Millisecond
				s.outcome = func(run int) string {
					if third(run) {
						return ""
					}
					return "executed"
				}
			},
			want: "3 accepted runs have not ended",
		},
		"RunThatEndsOtherwise": {
			change: func(s *system) {
				s.outcome = func(run int) string {
					if third(run) {
						return "denied"
					}
					return "executed"
				}
			},
			want: "3 runs ended without being executed",
		},
		"KeyAcceptedTwice": {
			change: func(s *system) {
				s.answer = func(a *contracts.Answer) { a.Result = contracts.ResultAccepted }
			},
			want: "9 keys were accepted more than once",
		},
		"KeyNeverAccepted": {
			change: func(s *system) {
				s.answer = func(a *contracts.Answer) { a.Result = contracts.ResultDuplicate }
			},
			want: "9 keys were never accepted",
		},
		"ConflictOfIdenticalCopies": {
			change: func(s *system) {
				s.answer = func(a *contracts.Answer) {
					if a.Result == contracts.ResultDuplicate {
						a.Result = contracts.ResultPayloadMismatch
					}
				}
			},
			want: "9 byte-identical deliveries were called conflicts",
		},
		"UnusableAnswer": {
			change: func(s *system) {
				s.answer = func(a *contracts.Answer) {
					if a.Result == contracts.ResultDuplicate {
						a.Result = contracts.ResultOwnershipLost
					}
				}
			},
			want: "9 deliveries got no usable answer",
		},
		"EventThatDoesNotDecode": {
			change: func(s *system) {
				s.outcome = func(run int) string {
					if run == 3 {
						s.tell("completed", []byte(`{"data":{"idempotency_key":"load-1"}}`))
					}
					return "executed"
				}
			},
			want: "1 events of the tenant do not decode",
		},
		"BrokenConnection": {
			doors:  []string{doorHTTP},
			change: func(s *system) { s.silent = func(copy int) bool { return copy == 2 } },
			want:   "9 deliveries got no usable answer",
		},
	} {
		for _, door := range append(c.doors, map[bool][]string{true: {doorHTTP, doorNATS}}[c.doors == nil]...) {
			t.Run(name+"_"+door, func(t *testing.T) {
				t.Parallel()
				s := newSystem(t)
				s.opts.door, s.opts.keys, s.opts.duplicates = door, 9, 2
				c.change(s)
				r := s.drive()
				require.Equal(t, []string{c.want}, prefixes(r.broken, len(c.want)))
				require.Contains(t, r.text(), "BROKEN        "+c.want)
			})
		}
	}
}

// prefixes cuts each text to n bytes.
func prefixes(texts []string, n int) []string {
	var cut []string
	for _, text := range texts {
		cut = append(cut, text[:min(n, len(text))])
	}
	return cut
}
