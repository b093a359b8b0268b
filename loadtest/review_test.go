package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReview(t *testing.T) {
	t.Parallel()

	for _, door := range []string{doorHTTP, doorBoth} {
		t.Run("PeopleDecideEveryRunThroughDoor_"+door, func(t *testing.T) {
			t.Parallel()
			s := newReviewSystem(t)
			r := s.drive(func(o *options) { o.door, o.keys, o.duplicates, o.rejectShare = door, 40, 2, 0.25 })
			require.Empty(t, r.broken)
			require.Equal(t, decisions{Approved: 30, Rejected: 10}, r.Decisions)
			require.EqualValues(t, 30, r.Completed)
			require.Zero(t, r.endedOther, "a rejection is what was wanted")
			require.Equal(t, []int{30, 0, 0}, []int{r.Sandbox.Writes, r.Sandbox.DuplicateWrites, r.Sandbox.Missing})
			for _, q := range []quantiles{r.DecisionMS, r.EndToEndMS} {
				require.Positive(t, q.P50)
				require.LessOrEqual(t, q.P50, q.P99)
			}
			require.Len(t, s.gate.deciders, 2)
			require.Equal(t, 40, s.gate.deciders["nora"]+s.gate.deciders["sam"])
			require.Contains(t, r.text(), "approved 30 · rejected 10 · already decided 0 · errors 0")
		})
	}

	t.Run("JSONAddsDecisionsToTheAgreedMembers", func(t *testing.T) {
		t.Parallel()
		s := newReviewSystem(t)
		r := s.drive(func(o *options) { o.keys = 5 })
		content, err := json.Marshal(r)
		require.NoError(t, err)
		var document map[string]any
		require.NoError(t, json.Unmarshal(content, &document))
		require.Equal(t, "accepted ack_ms[p50 p95 p99] completed conflicts decision_ms[p50 p95 p99] "+
			"decisions[already_decided approved errors rejected] duplicates end_to_end_ms[p50 p95 p99] errors "+
			"postgres_only_runs_per_second ratio runs_per_second sandbox[duplicate_writes missing writes]", shape(document))
	})

	t.Run("WhoeverDecidesFirstIsHeededAndNoErrorOfOurs", func(t *testing.T) {
		t.Parallel()
		for _, quick := range []bool{false, true} {
			s := newReviewSystem(t)
			s.gate.quick = quick
			s.gate.rival = func(run int) string { return []string{"approve", "reject"}[run%2] }
			r := s.drive(func(o *options) { o.keys = 8 })
			require.Empty(t, r.broken)
			require.Equal(t, decisions{AlreadyDecided: 8}, r.Decisions)
			require.Equal(t, 4, r.Sandbox.Writes)
		}
	})

	t.Run("ProgressTellsOfDecisions", func(t *testing.T) {
		t.Parallel()
		s := newReviewSystem(t)
		s.opts.rate, s.opts.keys = 20, 30
		var progress strings.Builder
		_, err := drive(t.Context(), s.opts, &progress)
		require.NoError(t, err)
		require.Regexp(t, `open \d+  approved \d+  rejected 0\n`, progress.String())
	})
}

func TestReviewNeedsPeople(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*system)
		want   string
	}{
		"NobodyInTheGroup": {func(s *system) {
			s.ready["people"] = []person{{Login: "carl", Groups: []string{"sales"}}}
		}, "nobody in the group support-leads"},
		"NoProvider": {func(s *system) { s.ready["oidc_issuer"] = "" }, "no oidc_issuer"},
		"WrongPassword": {func(s *system) {
			s.ready["people"] = []person{{Login: "nora", Password: "guess", Groups: []string{"support-leads"}}}
		}, "sign nora in"},
	} {
		t.Run(name+"EndsTheLoadBeforeItBegins", func(t *testing.T) {
			t.Parallel()
			s := newReviewSystem(t)
			c.change(s)
			s.writeReady()
			_, err := drive(t.Context(), s.opts, io.Discard)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, s.bodies)
		})
	}
}

func TestBrokenPromisesOfPeopleAreFound(t *testing.T) {
	t.Parallel()
	third := func(run int) bool { return run%3 == 0 } // of 9 keys: 3, 6 and 9
	for name, c := range map[string]struct {
		change func(*system)
		want   []string
	}{
		"RejectedRunThatIsExecuted": {
			change: func(s *system) {
				s.opts.rejectShare = 1
				s.gate.deaf = true
			},
			want: []string{"9 writes more than there are approvals", "9 runs were executed without an approval",
				"9 writes were made for rejected runs"},
		},
		"SecondWriteUnderAnotherOperation": {
			change: func(s *system) { s.extra = "op-again-" },
			want:   []string{"9 writes more than there are approvals"},
		},
		"ApprovedRunWithoutWrite": {
			change: func(s *system) {
				s.writesOf = func(run int) int {
					if third(run) {
						return 0
					}
					return 1
				}
			},
			want: []string{"3 accepted runs have no write"},
		},
		"ApprovedRunThatEndsOtherwise": {
			change: func(s *system) { s.outcome = func(int) string { return "failed" } },
			want:   []string{"9 runs ended without being executed"},
		},
		"DecisionThatWorksAtTheSecondTry": {
			change: func(s *system) {
				s.gate.refuse = func(run, try int) int {
					if third(run) && try == 1 {
						return http.StatusServiceUnavailable
					}
					return 0
				}
			},
			want: []string{"3 decision calls got no usable answer"},
		},
		"DecisionThatIsNeverTaken": {
			change: func(s *system) {
				s.opts.settle = 2 * tries * tryAgain
				s.gate.refuse = func(run, _ int) int {
					if third(run) {
						return http.StatusForbidden
					}
					return 0
				}
			},
			want: []string{"3 accepted runs have not ended", "3 accepted runs have no write",
				"9 decision calls got no usable answer"},
		},
		"EventThatDoesNotDecode": {
			change: func(s *system) {
				s.outcome = func(run int) string {
					if run == 1 {
						s.tell("awaiting_human", []byte(`{"data":{"idempotency_key":"load-1"}}`))
					}
					return "executed"
				}
			},
			want: []string{"1 events of the tenant do not decode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReviewSystem(t)
			s.opts.keys = 9
			c.change(s)
			r := s.drive()
			require.Len(t, r.broken, len(c.want), "%q", r.broken)
			for i, want := range c.want {
				require.Contains(t, r.broken[i], want)
			}
		})
	}
}

func TestRejectShareIsSpreadEvenly(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]int{0: 0, 0.25: 25, 0.5: 50, 1: 100} {
		o, n := options{rejectShare: share}, 0
		for key := range 100 {
			if o.rejects(key) {
				n++
			}
		}
		require.Equal(t, want, n, "%g", share)
	}
}
