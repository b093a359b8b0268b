package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func person(id string) ledger.Reviewer {
	return ledger.Reviewer{Issuer: "https://id.example", Subject: "sub-" + id, ID: id, Authority: []byte(`{"roles":["operator"]}`)}
}

// resolution is a person's, as they would fill it in.
func resolution(e ledger.EffectKey, move string) ledger.Resolution {
	r := ledger.Resolution{CommandID: uuid.New(), EffectKey: e, Move: move, Reason: "The provider's desk says so.",
		By: person("otto"), Channel: "web"}
	if move == "confirm_done" {
		r.ExternalID = "re_1"
	}
	return r
}

func resolve(b *ledgertest.Bench, t testing.TB, r ledger.Resolution) ledger.Resolved {
	t.Helper()
	done, err := b.Operator.Resolve(t.Context(), r)
	require.NoError(t, err)
	return done
}

func TestResolve(t *testing.T) { // R6
	t.Parallel()
	b := ledgertest.New(t)
	unknown := func(t *testing.T) ledger.EffectKey { return stuck(b, t, "250", "EUR", lost, t.Name())[0] }

	for move, c := range map[string]struct{ state, run, event string }{
		"confirm_done":     {ledger.EffectCompleted, ledger.RunCompleted, contracts.TypeRunCompleted},
		"confirm_not_done": {ledger.EffectPending, ledger.RunApproved, ""},
		"dispute":          {ledger.EffectHeld, ledger.RunApproved, ""},
		"give_up":          {ledger.EffectFailed, ledger.RunFailedTerminal, contracts.TypeRunEnded},
	} {
		t.Run(move+"IsStoredWithWhoAndWhy", func(t *testing.T) {
			t.Parallel()
			e := unknown(t)
			r := resolution(e, move)
			r.PageDigest, r.Evidence = []byte{1, 2}, "https://desk.example/1"
			done := resolve(b, t, r)
			require.Equal(t, []any{ledger.ResolvedMade, c.state}, []any{done.Result, done.State})
			require.Equal(t, c.run, b.Run(t.Name()).State)
			require.Equal(t, move+" otto sub-otto The provider's desk says so. web 0102 operator https://desk.example/1", b.Text(`
select concat_ws(' ', move, by_id, by_subject, reason, channel, encode(page_digest, 'hex'), authority->'roles'->>0, evidence)
from resolutions where run_id = $1 and made_at is not null`, e.RunID))
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = $2 and actor = 'otto'
and detail->>'note' = 'The provider''s desk says so.'`, e.RunID, move))
			if c.event != "" {
				require.Equal(t, 1, eventsOf(b, e.RunID, c.event))
			}
			require.Equal(t, ledger.ResolvedMade, resolve(b, t, r).Result, "the same command again is answered as before")
			require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = $2`, e.RunID, move))
		})
	}

	t.Run("OfFiftyAtOnceOneIsMadeAndTheOthersAreToldWhatStands", func(t *testing.T) {
		t.Parallel()
		e := unknown(t)
		results := make([]ledger.Resolved, 50)
		var group errgroup.Group
		for i := range results {
			group.Go(func() (err error) {
				r := resolution(e, []string{"confirm_done", "give_up"}[i%2])
				r.By, r.Seen = person("p"+string(rune('a'+i))), "unknown.1"
				results[i], err = b.Operator.Resolve(t.Context(), r)
				return err
			})
		}
		require.NoError(t, group.Wait())
		made := map[string]int{}
		for _, r := range results {
			made[r.Result]++
			require.NotNil(t, r.Stands)
			require.Equal(t, results[0].Stands.By, r.Stands.By)
		}
		require.Equal(t, map[string]int{ledger.ResolvedMade: 1, ledger.ResolvedSettled: 49}, made)
		require.Equal(t, 1, b.Count(`select count(*) from resolutions where run_id = $1`, e.RunID))
	})

	t.Run("TheReconcilerAndAnOperatorSettleItOnce", func(t *testing.T) {
		t.Parallel()
		e := unknown(t)
		var group errgroup.Group
		var moved []bool
		var done ledger.Resolved
		group.Go(func() (err error) {
			moved, err = b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e, Move: "find",
				MaybeSent: true, RunKey: t.Name(), CorrelationID: "c",
				ExternalID: "re_found", NextCheck: ledger.Never, Looked: &ledger.Looked{Verdict: "found", ExternalID: "re_found"}}})
			return err
		})
		group.Go(func() (err error) {
			done, err = b.Operator.Resolve(t.Context(), resolution(e, "confirm_not_done"))
			return err
		})
		require.NoError(t, group.Wait())
		require.NotEqual(t, moved[0], done.Made())
		if moved[0] {
			require.Equal(t, []string{ledger.ResolvedSettled, ledger.EffectCompleted, "re_found"}, []string{done.Result, done.State,
				done.ExternalID})
		}
	})

	t.Run("WhatHasChangedSinceItWasShownIsNotResolved", func(t *testing.T) {
		t.Parallel()
		r := resolution(unknown(t), "confirm_not_done")
		r.Seen = "unknown.0"
		done := resolve(b, t, r)
		require.Equal(t, []string{ledger.ResolvedChanged, ledger.EffectUnknown}, []string{done.Result, done.State})
	})

	t.Run("WhatItsTargetDoesNotHoldIsNeverSentAgain", func(t *testing.T) { // R7
		t.Parallel()
		e := unknown(t)
		b.Exec(`update effects set state = 'held', hold_reason = 'mismatch', unknown_since = null where run_id = $1`, e.RunID)
		require.Equal(t, ledger.ResolvedNeverResent, resolve(b, t, resolution(e, "confirm_not_done")).Result)
		require.True(t, resolveMade(b, t, resolution(e, "confirm_done")))
	})

	t.Run("WhatPeopleDecideAgainIsNotTheDesks", func(t *testing.T) {
		t.Parallel()
		e := unknown(t)
		b.Exec(`update effects set state = 'held', hold_reason = 'review', unknown_since = null where run_id = $1`, e.RunID)
		require.Equal(t, ledger.ResolvedSettled, resolve(b, t, resolution(e, "give_up")).Result)
	})

	t.Run("NoOtherServiceMayResolve", func(t *testing.T) { // D1
		t.Parallel()
		e := unknown(t)
		require.Panics(t, func() { _, _ = b.Approval.Resolve(t.Context(), resolution(e, "give_up")) })
		pool := b.DB.Pool("holdpoint_approval")
		_, err := pool.Exec(t.Context(), `update effects set external_id = 'x' where run_id = $1`, e.RunID)
		require.ErrorContains(t, err, "permission denied")
		_, err = pool.Exec(t.Context(), `delete from resolutions`)
		require.ErrorContains(t, err, "permission denied")
	})

	t.Run("AnUnknownOperationIsToldAsSuch", func(t *testing.T) {
		t.Parallel()
		e := unknown(t)
		e.TenantID = "another"
		_, err := b.Operator.Resolve(t.Context(), resolution(e, "give_up"))
		require.ErrorIs(t, err, ledger.ErrNoOperation)
	})
}

func resolveMade(b *ledgertest.Bench, t testing.TB, r ledger.Resolution) bool {
	t.Helper()
	done := resolve(b, t, r)
	return done.Made()
}

func TestResolveByTwo(t *testing.T) { // R6
	t.Parallel()
	b := ledgertest.New(t)
	proposed := func(t *testing.T) ledger.Resolution {
		t.Helper()
		r := resolution(stuck(b, t, "250", "EUR", lost, t.Name())[0], "confirm_not_done")
		r.TwoPeople = true
		done := resolve(b, t, r)
		require.Equal(t, []string{ledger.ResolvedProposed, ledger.EffectUnknown}, []string{done.Result, done.State})
		return r
	}
	second := func(first ledger.Resolution, id string) ledger.Resolution {
		r := resolution(first.EffectKey, first.Move)
		r.TwoPeople, r.Confirms, r.By = true, first.CommandID, person(id)
		return r
	}

	t.Run("ASecondPersonMakesIt", func(t *testing.T) {
		t.Parallel()
		first := proposed(t)
		require.Equal(t, ledger.ResolvedWaits, resolve(b, t, func() ledger.Resolution {
			r := second(first, "sam")
			r.Confirms = uuid.Nil
			return r
		}()).Result, "one proposal at a time")
		require.Equal(t, ledger.ResolvedSamePerson, resolve(b, t, second(first, "otto")).Result)
		r := second(first, "sam")
		done := resolve(b, t, r)
		require.Equal(t, []string{ledger.ResolvedMade, ledger.EffectPending, "otto", "sam"},
			[]string{done.Result, done.State, done.Stands.By, *done.Stands.Second})
		require.Equal(t, ledger.ResolvedMade, resolve(b, t, r).Result, "the same command again is answered as before")
		require.Equal(t, ledger.ResolvedSettled, resolve(b, t, second(first, "nora")).Result)
		require.Equal(t, "otto and sam", b.Text(`select actor from audit_events where run_id = $1 and move = 'confirm_not_done'`, first.RunID))
	})

	t.Run("OneCommandCanNameBoth", func(t *testing.T) {
		t.Parallel()
		r := resolution(stuck(b, t, "250", "EUR", lost, t.Name())[0], "confirm_not_done")
		other := person("sam")
		r.TwoPeople, r.Second = true, &other
		done := resolve(b, t, r)
		require.Equal(t, []string{ledger.ResolvedMade, "sam"}, []string{done.Result, *done.Stands.Second})
	})

	t.Run("AWithdrawnOneIsNotConfirmed", func(t *testing.T) {
		t.Parallel()
		first := proposed(t)
		for range 2 { // the second time is the same wish
			gone, err := b.Operator.WithdrawResolution(t.Context(), first.EffectKey, first.CommandID, "sam")
			require.NoError(t, err)
			require.True(t, gone)
		}
		gone, err := b.Operator.WithdrawResolution(t.Context(), first.EffectKey, first.CommandID, "otto")
		require.NoError(t, err)
		require.False(t, gone)
		require.Equal(t, ledger.ResolvedNoProposal, resolve(b, t, second(first, "sam")).Result)
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'withdraw_resolution'`, first.RunID))
	})

	t.Run("ALapsedOneIsNotConfirmed", func(t *testing.T) {
		t.Parallel()
		first := proposed(t)
		require.Equal(t, "01:00:00", b.Text(`select (lapses_at - proposed_at)::text from resolutions where run_id = $1`, first.RunID))
		b.Exec(`update resolutions set lapses_at = clock_timestamp() where run_id = $1`, first.RunID)
		require.Equal(t, ledger.ResolvedNoProposal, resolve(b, t, second(first, "sam")).Result)
	})

	t.Run("OneAboutAnEarlierAttemptIsNotConfirmed", func(t *testing.T) {
		t.Parallel()
		first := proposed(t)
		b.Exec(`update effects set attempts = attempts + 1 where run_id = $1`, first.RunID)
		require.Equal(t, ledger.ResolvedNoProposal, resolve(b, t, second(first, "sam")).Result)
	})
}
