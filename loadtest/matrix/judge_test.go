package matrix

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/crash"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func profileNamed(t *testing.T, name string) profile {
	t.Helper()
	for _, p := range profiles {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no profile %s", name)
	return profile{}
}

func faultNamed(t *testing.T, name string) misbehaviour {
	t.Helper()
	for _, m := range misbehaviours {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no fault %s", name)
	return misbehaviour{}
}

// sentAgain are the facts of an effect whose first answer was lost, that was looked for in vain, and sent again.
func sentAgain() *facts {
	digest := []byte{1}
	return &facts{
		state: ledger.EffectCompleted, externalID: "upd_1", written: []string{"upd_1"}, requests: 2, fired: true,
		attempts: []attempt{
			{Number: 1, Started: began, Finished: began.Add(time.Second), Class: string(outcome.Ambiguous), Digest: digest},
			{Number: 2, Started: began.Add(5 * time.Second), Class: string(outcome.Succeeded), Digest: digest},
		},
		lookups: []lookup{{At: began.Add(3 * time.Second), Verdict: "absent", Conclusive: true}},
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const lookedUp = "create_lookup"

	for name, c := range map[string]struct {
		profile string
		plant   func(*facts)
	}{
		"SentAgainAfterProofOfAbsence": {lookedUp, func(*facts) {}},
		"ReplayAfterALookupThatSaidNothing": {"create_replay_lookup", func(f *facts) {
			f.lookups[0].Verdict, f.lookups[0].Conclusive = "unclear", false
		}},
		"ReplayWhereThereIsNoLookup": {"create_replay", func(f *facts) { f.lookups = nil }},
		"SentAgainAfterAnAttemptThatSentNothing": {"create_bare", func(f *facts) {
			f.attempts[0].Class, f.lookups, f.requests = string(outcome.NotSent), nil, 1
		}},
		"LateLookupAfterAnAttemptThatSentNothing": {"create_bare", func(f *facts) {
			f.attempts[1].Class, f.lookups, f.requests = string(outcome.NotSent), nil, 1
		}},
		"RequestOfADeadSenderThatNobodyCanTellOf": {lookedUp, func(f *facts) {
			f.attempts[0].Class, f.attempts[0].Digest, f.attempts[0].Finished = "", nil, time.Time{}
		}},
	} {
		t.Run(name+"IsFine", func(t *testing.T) {
			t.Parallel()
			f := sentAgain()
			c.plant(f)
			require.Equal(t, verdict{writes: 1}, judge(profileNamed(t, c.profile), faultNamed(t, "accept_then_reset"), death{}, f))
		})
	}

	for name, c := range map[string]struct {
		profile                   string
		plant                     func(*facts)
		tells                     string
		duplicates, blind, adrift int
	}{
		"SecondWrite": {lookedUp, func(f *facts) { f.written = []string{"upd_1", "upd_2"} }, "2 writes of one operation", 1, 0, 0},
		"ResendWithoutALookup": {lookedUp, func(f *facts) { f.lookups = nil },
			"attempt 2 was made blindly after attempt 1", 0, 1, 0},
		"ResendWithoutALookupUnderAKey": {"create_replay_lookup", func(f *facts) { f.lookups = nil }, "made blindly", 0, 1, 0},
		"ResendBeforeTheLookup": {lookedUp, func(f *facts) { f.lookups[0].At = began.Add(6 * time.Second) },
			"made blindly", 0, 1, 0},
		"ResendAfterALookupThatProvedNothing": {lookedUp, func(f *facts) { f.lookups[0].Conclusive = false },
			"made blindly", 0, 1, 0},
		"ResendOfWhatWasFound":             {lookedUp, func(f *facts) { f.lookups[0].Verdict = "found" }, "made blindly", 0, 1, 0},
		"ResendWithNeitherLookupNorReplay": {"create_bare", func(f *facts) { f.lookups = nil }, "made blindly", 0, 1, 0},
		"ResendAfterASenderThatDied": {"create_bare", func(f *facts) {
			f.attempts[0].Class, f.attempts[0].Digest, f.lookups = "", nil, nil
		}, "made blindly", 0, 1, 0},
		"ResendThatWasNeverReported": {"create_bare", func(f *facts) {
			f.attempts[1].Class, f.attempts[1].Digest, f.lookups = "", nil, nil
		}, "made blindly", 0, 1, 0},
		"ThirdAttemptAfterADoubtfulFirst": {lookedUp, func(f *facts) {
			f.attempts = append(f.attempts, f.attempts[1])
			f.attempts[1].Class, f.attempts[2].Number = string(outcome.NotSent), 3
			f.lookups = nil
		}, "attempt 3 was made blindly after attempt 1", 0, 1, 0},
		"EffectThatIsStillSent":   {lookedUp, func(f *facts) { f.state = ledger.EffectSending }, "not come to rest", 0, 0, 1},
		"EffectThatIsStillSought": {lookedUp, func(f *facts) { f.state = ledger.EffectUnknown }, "not come to rest", 0, 0, 1},
		"UnknownThatNobodyIsTold": {"create_replay", func(f *facts) {
			f.state, f.rests, f.lookups = ledger.EffectUnknown, true, nil
		}, "no operator is told", 0, 0, 1},
		"EventWithoutAnEffect": {lookedUp, func(f *facts) { *f = facts{fired: true} }, "not come to rest", 0, 0, 1},
		"CompletionWithoutAWrite": {lookedUp, func(f *facts) { f.written = nil },
			"counts as completed, and the provider has no write", 0, 0, 0},
		"FailureWithAWrite": {lookedUp, func(f *facts) { f.state = ledger.EffectFailed },
			"counts as failed, and the provider has the write", 0, 0, 0},
		"OtherRequest": {lookedUp, func(f *facts) { f.attempts[1].Digest = []byte{2} }, "asked for something else", 0, 0, 0},
		"RequestOffTheRecord": {lookedUp, func(f *facts) { f.requests = 3 },
			"asked 3 times to write, and 2 attempts are on record", 0, 0, 0},
		"RequestOfAnAttemptThatSentNothing": {lookedUp, func(f *facts) { f.attempts[0].Class = string(outcome.NotSent) },
			"asked 2 times to write, and 1 attempts are on record", 0, 0, 0},
		"SharedExternalID":  {lookedUp, func(f *facts) { f.sharers = 1 }, "1 other effects have its external id", 0, 0, 0},
		"WrongExternalID":   {lookedUp, func(f *facts) { f.externalID = "upd_9" }, "is none of the provider's", 0, 0, 0},
		"FaultThatNeverWas": {lookedUp, func(f *facts) { f.fired = false }, "never misbehaved", 0, 0, 0},
		"HarnessFailure":    {lookedUp, func(f *facts) { f.failure = "no answer" }, "could not be run: no answer", 0, 0, 0},
	} {
		t.Run(name+"IsFound", func(t *testing.T) {
			t.Parallel()
			f := sentAgain()
			c.plant(f)
			v := judge(profileNamed(t, c.profile), faultNamed(t, "accept_then_reset"), death{}, f)
			require.Contains(t, strings.Join(v.broken, "\n"), c.tells)
			require.Equal(t, []int{c.duplicates, c.blind, c.adrift}, []int{v.duplicateWrites, v.blindResends, count(v.unresolved)})
		})
	}

	for name, plant := range map[string]func(*facts){
		"Held":             func(f *facts) { f.state, f.holdReason = ledger.EffectHeld, ledger.HoldIncident },
		"UnknownLookedFor": func(f *facts) { f.state, f.rests = ledger.EffectUnknown, true },
		"UnknownNoted": func(f *facts) {
			f.state, f.rests, f.noted, f.lookups, f.attempts, f.requests = ledger.EffectUnknown, true, true, nil, f.attempts[:1], 1
		},
	} {
		t.Run(name+"IsForAnOperator", func(t *testing.T) {
			t.Parallel()
			f := sentAgain()
			plant(f)
			require.Equal(t, verdict{writes: 1, forOperator: true},
				judge(profileNamed(t, lookedUp), faultNamed(t, "accept_then_reset"), death{}, f))
		})
	}

	t.Run("DeathThatNeverCameIsFoundWhereTheProviderDoesWell", func(t *testing.T) {
		t.Parallel()
		p, dies := profileNamed(t, lookedUp), deaths[1]
		require.Contains(t, strings.Join(judge(p, faultNamed(t, "none"), dies, sentAgain()).broken, "\n"), "never died")
		require.Empty(t, judge(p, faultNamed(t, "accept_then_hang"), dies, sentAgain()).broken, "the fault may keep it from there")
	})
}

func TestReport(t *testing.T) {
	t.Parallel()
	p, m := profileNamed(t, "create_lookup"), faultNamed(t, "accept_then_reset")
	of := func(plant func(*facts)) *report {
		f := sentAgain()
		plant(f)
		return newReport(options{Options: crash.Options{Seed: 7}}, []group{{cells: []*cell{{profile: p, fault: m}}, became: []*facts{f}}})
	}

	require.True(t, of(func(*facts) {}).Held())
	for name, plant := range map[string]func(*facts){
		"duplicate":  func(f *facts) { f.written = append(f.written, "upd_2") },
		"blind":      func(f *facts) { f.lookups = nil },
		"unresolved": func(f *facts) { f.state = ledger.EffectSending },
	} {
		r := of(plant)
		require.False(t, r.Held(), name)
		require.Contains(t, r.Text(), "create_lookup/accept_then_reset/none (seed 7): ", name)
		require.Contains(t, r.Text(), "repeat it with --only 'create_lookup/accept_then_reset/none'", name)
	}
	document, err := of(func(*facts) {}).Document()
	require.NoError(t, err)
	var read struct {
		Cells           int          `json:"cells"`
		DuplicateWrites *int         `json:"duplicate_writes"`
		BlindResends    *int         `json:"blind_resends"`
		Unresolved      *int         `json:"unresolved"`
		ByCell          []cellReport `json:"by_cell"`
	}
	require.NoError(t, json.Unmarshal(document, &read))
	require.Equal(t, 1, read.Cells)
	require.Equal(t, []int{0, 0, 0}, []int{*read.DuplicateWrites, *read.BlindResends, *read.Unresolved})
	require.Equal(t, "create_lookup", read.ByCell[0].Profile)

	stray := newReport(options{}, []group{{broken: []string{"the provider has a write of op1-x, which belongs to no cell"}}})
	require.False(t, stray.Held())
}
