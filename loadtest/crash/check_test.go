package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// plant is a suite that went well, with one thing changed.
type plant struct {
	expected []expected
	facts
}

func (p *plant) run() *runFact       { return &p.runs[0] }
func (p *plant) effect() *effectFact { return &p.effects[0] }

// newPlant is one case whose run was completed with one write, and a second of the same kind that nothing is done to.
func newPlant() *plant {
	p := &plant{}
	for _, key := range []string{"key-1", "key-2"} {
		run := ledger.RunID(tenant, key)
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		p.expected = append(p.expected, expected{name: "case of " + key, key: key, run: run})
		operation := ledger.OperationID(run, 1, 1)
		p.runs = append(p.runs, runFact{RunID: run, Key: key, State: ledger.RunCompleted, Intents: 1, Claims: 1,
			Decisions: 1, Authorizations: 1, Effects: 1, Endings: 1, EndingAudits: 1})
		p.effects = append(p.effects, effectFact{RunID: run, OperationID: operation, State: ledger.EffectCompleted,
			TargetRecord: "c-" + key, Authorized: true, FirstAttempt: at})
		p.writes = append(p.writes, sandbox.Write{Reference: operation, ObjectID: "c-" + key, Time: at.Add(time.Second)})
	}
	return p
}

// inState puts the run, and its effect where there is one, into states in which it has not ended.
func (p *plant) inState(run, effect string) {
	p.run().State, p.run().Endings, p.run().EndingAudits = run, 0, 0
	p.effect().State = effect
	if effect == "" {
		p.effects, p.run().Effects, p.run().Authorizations = p.effects[1:], 0, 0
		p.writes = p.writes[1:]
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()

	t.Run("GoodSuiteHasNoFindings", func(t *testing.T) {
		t.Parallel()
		p := newPlant()
		require.Equal(t, findings{}, check(p.expected, p.facts))
		require.True(t, settled(p.expected, p.facts))
	})

	for name, c := range map[string]struct {
		plant  func(*plant)
		counts [3]int // duplicate writes, lost runs, unauthorised effects
		tells  string
	}{
		"SecondWriteOfOneOperation": {
			func(p *plant) { p.writes = append(p.writes, p.writes[0]) }, [3]int{1, 0, 0}, "2 writes of operation op1-"},
		"SecondWriteUnderAnotherOperationId": {
			func(p *plant) { p.writes[1].ObjectID = p.writes[0].ObjectID }, [3]int{1, 0, 0}, "under 2 operation ids"},
		"RunThatNobodyDecides": {
			func(p *plant) { p.inState(ledger.RunProcessing, "") }, [3]int{0, 1, 0}, "it is processing and nothing"},
		"RunThatWasGivenBackAndForgotten": {
			func(p *plant) { p.inState(ledger.RunFailedRetryable, "") }, [3]int{0, 1, 0}, "it is failed_retryable"},
		"RunWhoseApprovalNobodyIsAskedFor": {
			func(p *plant) { p.inState(ledger.RunAwaitingHuman, "") }, [3]int{0, 1, 0}, "it is awaiting_human"},
		"ApprovedRunWithoutAnEffect": {
			func(p *plant) { p.inState(ledger.RunApproved, "") }, [3]int{0, 1, 0}, "without an effect"},
		"EffectThatIsNeverSent": {
			func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectPending) }, [3]int{0, 1, 0}, "effect pending"},
		"EffectWhoseSenderIsGone": {
			func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectSending) }, [3]int{0, 1, 0}, "effect sending"},
		"EffectThatNobodyFindsOutAbout": {
			func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectUnknown) }, [3]int{0, 1, 0}, "effect unknown"},
		"EffectThatIsHeldForNoReason": {
			func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectHeld) }, [3]int{0, 1, 0}, "effect held"},
		"EffectThatIsDoneAndItsRunNot": {
			func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectCompleted) }, [3]int{0, 1, 0},
			"effect completed"},
		"RunThatWasCompletedWithoutAWrite": {
			func(p *plant) { p.writes = p.writes[1:] }, [3]int{0, 1, 0}, "the provider has no write"},
		"FailureOfWhatTheProviderHas": {
			func(p *plant) { p.run().State, p.effect().State = ledger.RunFailedTerminal, ledger.EffectFailed },
			[3]int{0, 1, 0}, "told as failed"},
		"EventThatCameToNothing": {
			func(p *plant) { p.runs, p.effects, p.writes = p.runs[1:], p.effects[1:], p.writes[1:] },
			[3]int{0, 1, 0}, "there is no run"},
		"UnreadableMessageThatVanished": {
			func(p *plant) { p.expected = append(p.expected, expected{name: "third", key: "key-3", ends: parked}) },
			[3]int{0, 1, 0}, "neither parked nor a run"},
		"EffectWithoutAnAuthorization": {
			func(p *plant) { p.effect().Authorized = false }, [3]int{0, 0, 1}, "has no authorization"},
		"WriteOfNoEffect": {
			func(p *plant) { p.writes = append(p.writes, sandbox.Write{Reference: "op1-x", ObjectID: "c-x"}) },
			[3]int{0, 0, 1}, "belongs to no effect"},
		"WriteWithoutAnAttempt": {
			func(p *plant) { p.effect().FirstAttempt = time.Unix(0, 0) }, [3]int{0, 0, 1}, "before an attempt was"},
		"WriteBeforeItsAttempt": {
			func(p *plant) { p.effect().FirstAttempt = p.writes[0].Time.Add(time.Second) }, [3]int{0, 0, 1},
			"before an attempt was on record"},
		"LeaseThatEndedUnnoticed": {
			func(p *plant) { p.effect().Unfinished = 1 }, [3]int{}, "only 0 were found out"},
		"ResendWithoutALook": {
			func(p *plant) { p.effect().Resent = true }, [3]int{}, "the provider was never asked"},
		"SecondDecision":      {func(p *plant) { p.run().Decisions = 2 }, [3]int{}, "2 policy decisions"},
		"SecondAuthorization": {func(p *plant) { p.run().Authorizations = 2 }, [3]int{}, "2 authorizations"},
		"SecondClaim":         {func(p *plant) { p.run().Claims = 2 }, [3]int{}, "2 claims"},
		"EndThatWasToldTwice": {func(p *plant) { p.run().Endings = 2 }, [3]int{}, "2 events that tell of its end"},
		"EndThatWasNotTold":   {func(p *plant) { p.run().Endings = 0 }, [3]int{}, "0 events that tell of its end"},
		"EndWithoutAudit":     {func(p *plant) { p.run().EndingAudits = 0 }, [3]int{}, "0 audit rows of its end"},
		"CallNotMade":         {func(p *plant) { p.uncalled = 2 }, [3]int{}, "whoever asked for it was never called"},
		"EventLeftBehind":     {func(p *plant) { p.queued = 3 }, [3]int{}, "3 events are committed and were never"},
		"OtherEndThanTheCaseIsFor": {
			func(p *plant) {
				p.run().State, p.effect().State = ledger.RunFailedTerminal, ledger.EffectFailed
				p.writes = p.writes[1:]
			}, [3]int{}, "ended as failed_terminal"},
		"EffectThatShouldHaveBeenWithheld": {
			func(p *plant) { p.expected[0].ends = withheld }, [3]int{}, "not held for the operator"},
	} {
		t.Run(name+"IsFound", func(t *testing.T) {
			t.Parallel()
			p := newPlant()
			c.plant(p)
			found := check(p.expected, p.facts)
			counts := [3]int{found.duplicateWrites, found.lostRuns, found.unauthorisedEffects}
			require.Equal(t, c.counts, counts, found.broken)
			require.Contains(t, strings.Join(found.broken, "\n"), c.tells)
		})
	}

	t.Run("HeldEffectWithItsReasonIsAtRest", func(t *testing.T) {
		t.Parallel()
		p := newPlant()
		p.inState(ledger.RunApproved, ledger.EffectHeld)
		p.effect().HoldReason = ledger.HoldDisputed
		p.expected[0].ends = withheld
		require.Equal(t, findings{}, check(p.expected, p.facts))
	})

	t.Run("ParkedMessageIsNotLost", func(t *testing.T) {
		t.Parallel()
		p := newPlant()
		p.expected = append(p.expected, expected{name: "third", key: "key-3", run: uuid.New(), ends: parked})
		p.parked = []string{"key-3 no JSON"}
		require.Equal(t, findings{}, check(p.expected, p.facts))
		require.True(t, settled(p.expected, p.facts))
	})
}

func TestSettled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plant){
		"RunOnItsWay":          func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectSending) },
		"EventThatIsNotHere":   func(p *plant) { p.runs = p.runs[1:] },
		"EventInTheOutbox":     func(p *plant) { p.queued = 1 },
		"CallNobodyTook":       func(p *plant) { p.uncalled = 1 },
		"EffectAheadOfItsRun":  func(p *plant) { p.inState(ledger.RunApproved, ledger.EffectCompleted) },
		"RunThatNobodyDecided": func(p *plant) { p.inState(ledger.RunProcessing, "") },
	} {
		t.Run(name+"IsWaitedFor", func(t *testing.T) {
			t.Parallel()
			p := newPlant()
			change(p)
			require.False(t, settled(p.expected, p.facts))
		})
	}
}
