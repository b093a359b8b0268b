package reconciler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

const lag = 10 * time.Second

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Profiles of operations.
var (
	searchable  = &config.Operation{Kind: config.OperationCreate, Lookup: &config.Lookup{IndexLag: lag, Conclusive: true}}
	conditional = &config.Operation{Kind: config.OperationUpdate, Lookup: searchable.Lookup,
		Conditional: &config.Conditional{}}
	replayed = &config.Operation{Kind: config.OperationCreate, IdempotencyHeader: "Idempotency-Key", Replays: true,
		KeyWindow: 24 * time.Hour, KeyMargin: time.Hour}
	everything = &config.Operation{Kind: config.OperationCreate, Lookup: searchable.Lookup,
		IdempotencyHeader: "Idempotency-Key",
		Replays:           true, KeyWindow: 24 * time.Hour, KeyMargin: time.Hour}
	nothing = &config.Operation{Kind: config.OperationSend}
)

// unknown is an effect that became unknown so long ago, with one reported attempt.
func unknown(since time.Duration, changes ...func(*ledger.Open)) *ledger.Open {
	e := &ledger.Open{State: ledger.EffectUnknown, UnknownSince: now.Add(-since), LastClass: string(outcome.Ambiguous)}
	e.Now, e.Attempt, e.MaybeSent, e.FirstSentAt, e.ExecuteBy = now, 1, true, now.Add(-since), now.Add(time.Hour)
	for _, change := range changes {
		change(e)
	}
	return e
}

func absences(n int) func(*ledger.Open) { return func(e *ledger.Open) { e.Absences = n } }
func silent(e *ledger.Open)             { e.Silent, e.LastClass = true, "" }
func sent(ago time.Duration) func(*ledger.Open) {
	return func(e *ledger.Open) { e.FirstSentAt = now.Add(-ago) }
}
func executeBy(t time.Time) func(*ledger.Open) { return func(e *ledger.Open) { e.ExecuteBy = t } }
func looked(n int) func(*ledger.Open)          { return func(e *ledger.Open) { e.Lookups = n } }
func verdict(v connector.Verdict, conclusive bool) connector.LookupResult {
	return connector.LookupResult{Verdict: v, Conclusive: conclusive, ExternalID: "ext", RecordVersion: "7",
		Evidence: "seen"}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		e    ledger.Open
		move string // "" where nothing follows
	}{
		{"SuccessOfAFormerOwnerCompletesWhatIsUnknown", ledger.Open{State: "unknown", UnreadOutcome: true,
			ReportedClass: "succeeded"}, "late_success"},
		{"SuccessOfAFormerOwnerCompletesWhatIsAccepted", ledger.Open{State: "accepted", UnreadOutcome: true,
			ReportedClass: "succeeded"}, "late_success"},
		{"SuccessOfAFormerOwnerCompletesWhatWaits", ledger.Open{State: "pending", UnreadOutcome: true,
			ReportedClass: "succeeded"}, "late_success"},
		{"SuccessOfAFormerOwnerCompletesWhatIsHeld", ledger.Open{State: "held", HoldReason: "exhausted", UnreadOutcome: true,
			ReportedClass: "succeeded"}, "late_success"},
		{"ItRevivesNothingThatIsDisputed", ledger.Open{State: "held", HoldReason: "disputed", UnreadOutcome: true,
			ReportedClass: "succeeded"}, ""},
		{"ItWaitsForWhoeverIsSending", ledger.Open{State: "sending", UnreadOutcome: true, ReportedClass: "succeeded"}, ""},
		{"AmbiguityOfAFormerOwnerDoubtsWhatWaits", ledger.Open{State: "pending", UnreadOutcome: true,
			ReportedClass: "ambiguous"}, "doubt"},
		{"AcceptanceOfAFormerOwnerDoubtsWhatWaits", ledger.Open{State: "pending", UnreadOutcome: true,
			ReportedClass: "accepted"}, "doubt"},
		{"ARefusalOfAFormerOwnerSaysNothing", ledger.Open{State: "pending", UnreadOutcome: true, ReportedClass: "refused"},
			""},
		{"AClassOfANewerReleaseDoubtsWhatWaits", ledger.Open{State: "pending", UnreadOutcome: true,
			ReportedClass: "quantum"}, "doubt"},
		{"AnUnreadOutcomeOfWhatIsUnknownIsLookedUp", ledger.Open{State: "unknown", UnreadOutcome: true,
			ReportedClass: "refused"}, "look"},
		{"AnEndedLeaseIsUnknown", ledger.Open{State: "sending", LeaseOver: true}, "expire_lease"},
		{"AValidLeaseIsLeftAlone", ledger.Open{State: "sending"}, ""},
		{"AnOverdueAcceptanceIsAskedFor", ledger.Open{State: "accepted", LastAttempt: now.Add(-outcome.AcceptedDeadline)},
			"overdue"},
		{"AFreshAcceptanceIsLeftAlone", ledger.Open{State: "accepted",
			LastAttempt: now.Add(time.Second - outcome.AcceptedDeadline)}, ""},
		{"WhatWasNotSentInTimeGoesBackToPeople", ledger.Open{State: "pending", Overdue: true}, "expire"},
		{"WhatMayHaveBeenSentDoesNotGoBack", ledger.Open{State: "pending", Overdue: true,
			Leased: ledger.Leased{MaybeSent: true}}, "doubt"},
		{"WhatWaitsInTimeIsLeftAlone", ledger.Open{State: "pending"}, ""},
		{"WhatIsUnknownIsLookedUp", ledger.Open{State: "unknown"}, "look"},
		{"WhatIsHeldIsLeftAlone", ledger.Open{State: "held", HoldReason: "incident"}, ""},
		{"WhatHasEndedIsLeftAlone", ledger.Open{State: "completed", UnreadOutcome: true}, ""},
		{"AStateOfANewerReleaseIsLeftAlone", ledger.Open{State: "windowed", Overdue: true, LeaseOver: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.e.Now = now
			s, wanted := decide(&c.e, searchable)
			require.Equal(t, c.move, s.Move)
			require.Equal(t, c.move != "", wanted)
		})
	}
}

// TestDecideNeverLeavesTheTable tries every combination of what decide looks at: each move is one that the ledger
// lets the reconciler make from that state, and what may have been sent is never taken for unsent.
func TestDecideNeverLeavesTheTable(t *testing.T) {
	t.Parallel()
	flags := []bool{false, true}
	classes := []string{""}
	for _, c := range outcome.Classes() {
		classes = append(classes, string(c))
	}
	tried := 0
	for _, state := range append(ledger.States(ledger.EffectRecord), "windowed") {
		for _, class := range classes {
			for bits := range 16 {
				flag := func(n int) bool { return flags[bits>>n&1] }
				e := &ledger.Open{State: state, ReportedClass: class, UnreadOutcome: flag(0), LeaseOver: flag(1), Overdue: flag(2)}
				e.MaybeSent, e.Now = flag(3), now
				s, wanted := decide(e, searchable)
				tried++
				if !wanted {
					continue
				}
				allowed := moveNamed(s.Move)
				name := fmt.Sprintf("%s from %s (%+v)", s.Move, state, e)
				require.True(t, allowed.Allowed(state), name)
				require.Contains(t, allowed.By, ledger.Reconciler, name)
				require.NotEqual(t, ledger.EffectFailed, allowed.To, name)
				if s.Move == "expire" {
					require.False(t, e.MaybeSent, name)
				} else if s.Move != "look" {
					require.True(t, s.MaybeSent, name)
				}
			}
		}
	}
	require.Greater(t, tried, 1000)
}

func moveNamed(name string) ledger.Move {
	i := slices.IndexFunc(ledger.Moves, func(m ledger.Move) bool {
		return m.Record == ledger.EffectRecord && m.Name == name
	})
	return ledger.Moves[i]
}

func TestJudge(t *testing.T) {
	t.Parallel()
	soon := again{wait: time.Second, ok: true}
	used := again{}
	absent, maybe := verdict(connector.Absent, true), verdict(connector.Absent, false)
	unclear := verdict(connector.Unclear, false)
	for _, c := range []struct {
		name  string
		e     *ledger.Open
		op    *config.Operation
		next  again
		found connector.LookupResult
		move  string
		check func(*testing.T, ledger.Settlement)
	}{
		{"OneIsDone", unknown(time.Second), searchable, soon, verdict(connector.Found, true), "find",
			func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, "ext", s.ExternalID)
				require.Equal(t, "7", s.RecordVersion)
				require.Equal(t, "seen", s.Looked.Evidence)
			}},
		{"SeveralAreAnIncident", unknown(time.Hour, absences(9)), everything, soon, verdict(connector.Several, false),
			"incident", nil},
		{"AbsenceInsideTheIndexLagSaysNothing", unknown(lag - 1), searchable, soon, absent, "look", notAbsent},
		{"TheNextLookIsNotBeforeTheIndexLag", unknown(time.Second), searchable, soon, absent, "look",
			func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, lag-time.Second, s.NextCheck)
			}},
		{"TheFirstAbsenceIsNoProof", unknown(3 * lag), searchable, soon, absent, "look", oneMoreAbsent},
		{"TheSecondAbsenceInsideTwiceTheLagIsNoProof", unknown(2*lag-1, absences(1)), searchable, soon, absent, "look",
			oneMoreAbsent},
		{"TheSecondAbsenceIsProof", unknown(2*lag, absences(1)), searchable, soon, absent, "prove_absent",
			func(t *testing.T, s ledger.Settlement) {
				require.False(t, s.MaybeSent, "it is sent as if for the first time")
				require.Equal(t, time.Second, s.NextCheck)
			}},
		{"AbsenceThatIsNotDeclaredConclusiveIsNoProof", unknown(time.Hour, absences(5)), searchable, soon, maybe, "look",
			notAbsent},
		{"ASilentSenderWithoutKeysMayStillWrite", unknown(time.Hour, absences(5), silent), searchable, soon, absent, "look",
			func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, noteSilent, s.Note)
			}},
		{"ASilentSenderUnderAKeyIsHarmless", unknown(time.Hour, absences(1), silent), everything, soon, absent,
			"prove_absent", stillMaybeSent},
		{"ASilentSenderOfAnOldKeyIsNot", unknown(24*time.Hour, absences(1), silent), everything, soon, absent, "look", nil},
		{"ASilentSenderOfAConditionalUpdateIsHarmless", unknown(time.Hour, absences(1), silent), conditional, soon, absent,
			"prove_absent", stillMaybeSent},
		{"ProvenButUsedUpIsHeld", unknown(time.Hour, absences(1)), searchable, used, absent, "exhaust",
			func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, ledger.HoldExhausted, s.HoldReason)
			}},
		{"UnclearStaysUnknown", unknown(time.Hour), searchable, soon, unclear, "look", notAbsent},
		{"UnclearMayRepeatTheKeyInsideItsWindow", unknown(time.Second), everything, soon, unclear, "retry_same_key",
			stillMaybeSent},
		{"AbsentMayRepeatTheKeyInsideItsWindow", unknown(time.Second), everything, soon, absent, "retry_same_key",
			stillMaybeSent},
		{"UnclearMayNotRepeatTheKeyInsideTheMargin", unknown(time.Second, sent(23*time.Hour-time.Second)), everything, soon,
			unclear, "look", nil},
		{"UnclearMayNotRepeatTheKeyAfterTheWindow", unknown(time.Second, sent(25*time.Hour)), everything, soon, unclear,
			"look", nil},
		{"UnclearMayNotRepeatTheKeyWithoutAttemptsLeft", unknown(time.Second), everything, used, unclear, "look",
			func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, noteUsedUp, s.Note)
				require.Equal(t, longestLook, s.NextCheck)
			}},
		{"UnclearMayNotRepeatTheKeyAfterItsExecuteBy", unknown(time.Second, executeBy(now)), everything, soon, unclear,
			"look", func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, noteTooLate, s.Note)
			}},
		{"AProviderThatNeverAnswersIsAskedEveryFiveMinutes", unknown(time.Hour, looked(40)), searchable, soon, unclear,
			"look", func(t *testing.T, s ledger.Settlement) {
				require.Equal(t, longestLook, s.NextCheck)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := judge(c.e, c.op, c.next, c.found)
			require.Equal(t, c.move, s.Move, s.Note)
			require.NotNil(t, s.Looked, "every read is evidence")
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}

func notAbsent(t *testing.T, s ledger.Settlement)      { require.False(t, s.Absent) }
func oneMoreAbsent(t *testing.T, s ledger.Settlement)  { require.True(t, s.Absent) }
func stillMaybeSent(t *testing.T, s ledger.Settlement) { require.True(t, s.MaybeSent) }

func TestWithoutLookup(t *testing.T) {
	t.Parallel()
	soon := again{wait: time.Second, ok: true}
	for _, c := range []struct {
		name string
		e    *ledger.Open
		op   *config.Operation
		next again
		move string
		note string
	}{
		{"AReplayingProviderIsAskedBySendingAgain", unknown(time.Second), replayed, soon, "retry_same_key", noteRepeated},
		{"NotAfterTheWindow", unknown(time.Second, sent(24*time.Hour)), replayed, soon, "look", noteNoWay},
		{"NotWithoutAttemptsLeft", unknown(time.Second), replayed, again{}, "look", noteUsedUp},
		{"NotWithoutAPromise", unknown(time.Second), nothing, soon, "look", noteNoWay},
		{"NotWhereNobodyKnowsWhenItWasSent", unknown(time.Second, func(e *ledger.Open) { e.FirstSentAt = time.Time{} }),
			replayed, soon, "look", noteNoWay},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := withoutLookup(c.e, c.op, c.next)
			require.Equal(t, c.move, s.Move)
			require.Equal(t, c.note, s.Note)
		})
	}
}

// TestLookAgain is the table in decide.go.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	want := []time.Duration{1, 1, 2, 4, 8, 16, 32, 64, 128, 300, 300}
	for n, seconds := range want {
		require.Equal(t, seconds*time.Second, lookAgain(unknown(0, looked(n))), "after %d lookups", n)
	}
	require.Equal(t, longestLook, lookAgain(unknown(0, looked(1<<30))))
}
