package reconciler

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestPostcondition is R7: what a provider says is done counts when its target holds it.
func TestPostcondition(t *testing.T) {
	t.Parallel()
	world := setup(t, servicetest.Verified)
	run := func(name string, test func(*bench, string)) {
		t.Run(name, func(t *testing.T) { // one after the other: a scan takes up whatever is due
			b := world.forCase(t)
			b.Heal()
			b.Authorize(b.Contact(name))
			test(b, name)
		})
	}
	stored := func(b *bench, key, column string) string {
		return b.Text(`select coalesce(`+column+`, '') from effects where run_id = $1`, servicetest.Effect(key).RunID)
	}

	run("WhatTheTargetHoldsCompletesTheRun", func(b *bench, key string) {
		b.done(key)
		require.Equal(b.t, ledger.RunApproved, b.World.Run(key).State, "the provider's word alone completes nothing")
		b.look()
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Equal(b.t, "matched 2", stored(b, key, "postcondition || ' ' || postcondition_version"))
		require.Equal(b.t, 1, b.lookups(key, "matched"), "the read is kept as evidence")
		require.Equal(b.t, ledger.OutcomeExecuted, b.World.Run(key).Outcome)
		told := b.Text(`select convert_from(payload, 'UTF8') from event_log where run_id = $1 and subject like '%.run.completed'`,
			servicetest.Effect(key).RunID)
		require.Contains(b.t, told, `"postcondition":"matched","record_version":"2"`)
	})

	run("WhatDiffersIsHeldAndNeverSentAgain", func(b *bench, key string) {
		b.reported(key, "1") // the provider says yes, and has not written
		b.look()
		e := b.Look(key)
		require.Equal(b.t, ledger.EffectAccepted, e.State, "one look may be at a replica that lags")
		require.Equal(b.t, 1, e.Absences)
		b.after(key, servicetest.IndexLag)
		e = b.Look(key)
		require.Equal(b.t, []string{ledger.EffectHeld, ledger.HoldMismatch}, []string{e.State, e.HoldReason})
		require.Equal(b.t, "differs", stored(b, key, "postcondition"))
		require.Equal(b.t, ledger.RunApproved, b.World.Run(key).State, "it is not told to be executed")
		require.Zero(b.t, b.Count(`select count(*) from event_log where run_id = $1 and subject like '%.run.completed'`, e.RunID))
		require.Contains(b.t, b.Logs.String(), "its target does not hold it")
		require.Contains(b.t, b.Text(`select evidence from lookups where run_id = $1 and lookup = 2`, e.RunID), "/fields/")
		operator := ledger.Settlement{EffectKey: e.EffectKey, Move: "confirm_not_done", Actor: "operator otto", Note: "again"}
		moved, err := b.Operator.Settle(b.t.Context(), "resolve", []ledger.Settlement{operator})
		require.NoError(b.t, err)
		require.Equal(b.t, []bool{false}, moved, "not even by an operator")
		require.Empty(b.t, b.Writes(key))
	})

	run("ALaggingReplicaIsLookedAtAgain", func(b *bench, key string) {
		e := b.lease(key)
		b.report(e, ledger.Settlement{Move: "verify", MaybeSent: true, ExternalID: "upd_1", RecordVersion: "2"}, outcome.Succeeded)
		b.look()
		require.Equal(b.t, ledger.EffectAccepted, b.Look(key).State)
		b.write(e) // the replica has caught up
		b.after(key, servicetest.IndexLag)
		require.Equal(b.t, "matched", stored(b, key, "postcondition"))
	})

	run("ALaterVersionIsSomebodyElses", func(b *bench, key string) {
		b.done(key)
		b.edits(key, "Faro")
		b.look()
		b.after(key, servicetest.IndexLag)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Equal(b.t, "moved_on 3", stored(b, key, "postcondition || ' ' || postcondition_version"))
		require.Equal(b.t, 2, b.lookups(key, "moved_on"))
	})

	run("WhatCannotBeReadIsDoneByTheProvidersWordInTheEnd", func(b *bench, key string) {
		b.Fault(sandbox.Match{System: sandbox.CRM, Operation: sandbox.Read}, sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: 500})
		b.done(key)
		b.look()
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectAccepted, b.Look(key).State)
		require.Equal(b.t, 2, b.lookups(key, "unclear"))
		b.Exec(`update effects set succeeded_at = succeeded_at - $2::interval where run_id = $1`, servicetest.Effect(key).RunID,
			outcome.AcceptedDeadline)
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Equal(b.t, "unread", stored(b, key, "postcondition"))
		require.Contains(b.t, b.Logs.String(), "could not be read in time")
	})

	run("WhatIsFoundByReadingIsVerifiedToo", func(b *bench, key string) {
		b.lost(key, true)
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectAccepted, b.Look(key).State)
		require.NotEmpty(b.t, b.Look(key).ExternalID)
		b.after(key, time.Second)
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		require.Equal(b.t, "matched", stored(b, key, "postcondition"))
		require.Len(b.t, b.Writes(key), 1)
	})

	run("NothingElseIsSentToTheTargetMeanwhile", func(b *bench, key string) { // R8
		b.done(key)
		other := b.Authorize(b.Contact(key+"-other", func(p *servicetest.Proposal) { p.Target["record_id"] = "c-" + key }))
		require.Empty(b.t, b.Lease(time.Minute, other...))
		b.look()
		require.Equal(b.t, ledger.EffectCompleted, b.Look(key).State)
		b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, other[0].RunID)
		require.Len(b.t, b.Lease(time.Minute, other...), 1)
	})
}

// done is a write of which the dispatcher has recorded the provider's success.
func (b *bench) done(key string) {
	b.t.Helper()
	e := b.lease(key)
	result := b.write(e)
	b.report(e, ledger.Settlement{Move: "verify", MaybeSent: true, ExternalID: result.ExternalID, RecordVersion: result.RecordVersion},
		outcome.Succeeded)
}

// reported is a success at a version, of a provider that has written nothing.
func (b *bench) reported(key, version string) {
	b.t.Helper()
	b.report(b.lease(key), ledger.Settlement{Move: "verify", MaybeSent: true, ExternalID: "upd_1", RecordVersion: version}, outcome.Succeeded)
}

// edits is a change of the target by somebody else.
func (b *bench) edits(key, city string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPatch, b.Sandbox.URL()+"/crm/contacts/"+"c-"+key,
		strings.NewReader(`{"reference":"somebody-else","fields":{"city":"`+city+`"}}`))
	require.NoError(b.t, err)
	r.Header.Set("If-Match", "*")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(b.t, err)
	require.NoError(b.t, answer.Body.Close())
	require.Equal(b.t, http.StatusOK, answer.StatusCode)
}

func TestJudgeTarget(t *testing.T) {
	t.Parallel()
	op := &config.Operation{Kind: config.OperationUpdate, Lookup: &config.Lookup{IndexLag: lag}}
	said := func(v connector.Verdict) connector.LookupResult {
		return connector.LookupResult{Verdict: v, RecordVersion: "7"}
	}
	for name, c := range map[string]struct {
		absences int
		ago      time.Duration
		found    connector.Verdict
		move     string
		next     time.Duration
		left     string
	}{
		"Matched":         {0, 0, connector.Matched, "confirm", ledger.Never, contracts.PostconditionMatched},
		"DiffersOnce":     {0, 0, connector.Differs, "verify_again", lag, ""},
		"DiffersTwice":    {1, 0, connector.Differs, "mismatch", ledger.Never, ledger.PostconditionDiffers},
		"MovedOnOnce":     {0, 0, connector.MovedOn, "verify_again", lag, ""},
		"MovedOnTwice":    {1, 0, connector.MovedOn, "confirm", ledger.Never, contracts.PostconditionMovedOn},
		"Unclear":         {1, 0, connector.Unclear, "verify_again", time.Second, ""},
		"UnclearAtTheEnd": {0, outcome.AcceptedDeadline, connector.Unclear, "confirm", ledger.Never, contracts.PostconditionUnread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &ledger.Open{State: ledger.EffectAccepted, Absences: c.absences, SucceededAt: now.Add(-c.ago)}
			e.Now = now
			s := judgeTarget(e, op, said(c.found))
			require.Equal(t, []any{c.move, c.next, c.left}, []any{s.Move, s.NextCheck, s.Postcondition})
			require.Equal(t, c.left != "", s.PostconditionVersion == "7")
			require.Equal(t, string(c.found), s.Looked.Verdict)
		})
	}
}
