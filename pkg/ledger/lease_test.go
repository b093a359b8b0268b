package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

const target = ledgertest.Tenant + "/" + ledgertest.Connector

// settle makes the move of a lease holder.
func settle(t *testing.T, b *ledgertest.Bench, e ledger.Leased, move string, next time.Duration) bool {
	t.Helper()
	s := succeed(e, "ext-1")
	s.Move, s.NextCheck = move, next
	moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
	require.NoError(t, err)
	return moved[0]
}

func TestLease(t *testing.T) {
	t.Parallel()
	shared := ledgertest.New(t)

	t.Run("AttemptIsStoredWithTheLease", func(t *testing.T) { // D3
		t.Parallel()
		b := shared.For(t)
		effects := b.Approved("attempt")
		leased := b.Lease(time.Minute, effects...)
		require.Len(t, leased, 1)
		e := leased[0]
		require.Equal(t, effects[0], e.EffectKey)
		require.Equal(t, 1, e.Attempt)
		require.Equal(t, 1, b.Count(`select count(*) from effect_attempts where run_id = $1 and attempt = 1 and owner = $2
and switch_epoch = $3 and class is null`, e.RunID, e.Owner, e.Epoch))
		require.Equal(t, "60", b.Text(`select round(extract(epoch from lease_expires_at - updated_at))::text from effects where run_id = $1`, e.RunID))
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where run_id = $1 and move = 'lease' and actor = 'dispatcher'`, e.RunID))
	})

	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		t.Run("AttemptIsDurableWhereTheDatabaseIsSetTo_"+set, func(t *testing.T) { // D3
			t.Parallel()
			b := ledgertest.New(t)
			b.Exec(`create table seen (setting text)`)
			b.Exec(`create function see() returns trigger language plpgsql security definer as $$ begin
  insert into public.seen values (current_setting('synchronous_commit')); return new; end $$`)
			b.Exec(`create trigger see before insert on effect_attempts for each row execute function see()`)
			b.Exec(`do $$ begin execute format('alter database %I set synchronous_commit = ` + set + `', current_database()); end $$`)
			effects := b.Approved("durable")
			leased, err := b.Replica(ledger.Dispatcher).Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
				Requested: effects, Free: map[string]int{target: 1}})
			require.NoError(t, err)
			require.Len(t, leased, 1)
			require.Equal(t, want, b.Text(`select setting from seen`))
		})
	}

	t.Run("EffectComesWithAllThatSendingNeeds", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		e := b.Lease(time.Minute, b.Approved("whole")...)[0]
		intent := ledgertest.Intent("whole", "c-whole")
		require.Equal(t, intent.Canonical, e.Canonical)
		require.Equal(t, intent.Hash, e.IntentHash)
		require.Equal(t, []string{"whole", "corr-whole", ledgertest.ActionType, ledgertest.Connector, "update", "crm", "c-whole", ledgertest.PolicyVersion},
			[]string{e.RunKey, e.CorrelationID, e.ActionType, e.Connector, e.Operation, e.TargetSystem, e.TargetRecord, e.PolicyVersion})
		require.False(t, e.MaybeSent)
		require.Zero(t, e.FirstSentAt)
		require.WithinDuration(t, e.Now.Add(time.Hour), e.ExecuteBy, time.Minute)
	})

	t.Run("LeasedEffectIsNotLeasedAgain", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.Approved("once")
		require.Len(t, b.Lease(time.Minute, effects...), 1)
		require.Empty(t, b.Lease(time.Minute, effects...))
	})

	t.Run("RedeliveredEventDoesNotCutTheBackoffShort", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := b.Approved("backoff")
		e := b.Lease(time.Minute, effects...)[0]
		require.True(t, settle(t, b, e, "retry", time.Hour))
		require.Empty(t, b.Lease(time.Minute, effects...))
		b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, e.RunID)
		again := b.Lease(time.Minute, effects...)
		require.Len(t, again, 1)
		require.Equal(t, 2, again[0].Attempt)
	})

	for name, c := range map[string]struct{ stop, start string }{
		"PastItsExecuteBy":           {`execute_by = clock_timestamp()`, `execute_by = clock_timestamp() + interval '1 hour'`},
		"WithAnUnreadOutcome":        {`unread_outcome = true`, `unread_outcome = false`}, // D7
		"ThatSomebodyHolds":          {`state = 'held', hold_reason = 'recalled'`, `state = 'pending', hold_reason = null`},
		"ThatNobodyKnowsTheEndOf":    {`state = 'unknown'`, `state = 'pending'`},
		"ThatTheProviderIsWorkingOn": {`state = 'accepted'`, `state = 'pending'`},
	} {
		t.Run("NoEffect"+name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			effects := b.Approved(name)
			b.Exec(`update effects set `+c.stop+` where run_id = $1`, effects[0].RunID)
			require.Empty(t, b.Lease(time.Minute, effects...))
			require.Zero(t, b.Count(`select count(*) from effect_attempts where run_id = $1`, effects[0].RunID))
			b.Exec(`update effects set `+c.start+` where run_id = $1`, effects[0].RunID)
			require.Len(t, b.Lease(time.Minute, effects...), 1)
		})
	}

	t.Run("EventsAreHandledWhateverIsLeased", func(t *testing.T) { // B2
		t.Parallel()
		b := shared.For(t)
		events := []uuid.UUID{newID(), newID()}
		_, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Events: events})
		require.NoError(t, err)
		require.Equal(t, 2, b.Count(`select count(*) from inbox where consumer = 2 and event_id in ($1, $2)`, events[0], events[1]))
	})
}

// sameTarget makes approved effects that write the same record.
func sameTarget(b *ledgertest.Bench, record string, keys ...string) []ledger.EffectKey {
	effects := b.Approved(keys...)
	for _, e := range effects {
		b.Exec(`update effects set target_record = $2 where run_id = $1`, e.RunID, record)
	}
	return effects
}

func TestOneEffectOfATargetAtATime(t *testing.T) { // R8
	t.Parallel()
	shared := ledgertest.New(t)

	for name, c := range map[string]struct {
		settle func(t *testing.T, b *ledgertest.Bench, e ledger.Leased)
		free   bool
	}{
		"NotWhileItIsSent":    {func(*testing.T, *ledgertest.Bench, ledger.Leased) {}, false},
		"NotWhileItIsUnknown": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) { require.True(t, settle(t, b, e, "lose", 0)) }, false},
		"NotWhileItWaitsToBeSentAgainUnderItsKey": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			require.True(t, settle(t, b, e, "lose", 0))
			moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey,
				Move: "retry_same_key", MaybeSent: true, NextCheck: time.Hour, RunKey: e.RunKey, CorrelationID: e.CorrelationID}})
			require.NoError(t, err)
			require.True(t, moved[0])
		}, false},
		"WhenItWasProvenAbsent": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			require.True(t, settle(t, b, e, "lose", 0))
			moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey,
				Move: "prove_absent", NextCheck: time.Hour, RunKey: e.RunKey, CorrelationID: e.CorrelationID}})
			require.NoError(t, err)
			require.True(t, moved[0])
		}, true},
		"WhenItIsDone": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			require.True(t, settle(t, b, e, "succeed", 0))
		}, true},
		"WhenItHasFailed": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			require.True(t, settle(t, b, e, "refuse", 0))
		}, true},
		"WhenItGoesBackToWaiting": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			s := succeed(e, "")
			s.Move, s.NextCheck, s.MaybeSent = "retry", time.Hour, false
			s.Outcome.Class, s.Outcome.Sent = "not_sent", false
			moved, err := b.Dispatcher.Settle(t.Context(), "record_outcomes", []ledger.Settlement{s})
			require.NoError(t, err)
			require.True(t, moved[0])
		}, true},
		"WhenItWasFoundOut": {func(t *testing.T, b *ledgertest.Bench, e ledger.Leased) {
			require.True(t, settle(t, b, e, "lose", 0))
			moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: e.EffectKey, Move: "find",
				NextCheck: ledger.Never, RunKey: e.RunKey, CorrelationID: e.CorrelationID}})
			require.NoError(t, err)
			require.True(t, moved[0])
		}, true},
	} {
		t.Run("TheSecondIsLeased"+name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			effects := sameTarget(b, name, name+"-1", name+"-2")
			first := b.Lease(time.Minute, effects[0])
			require.Len(t, first, 1)
			c.settle(t, b, first[0])
			if second := b.Lease(time.Minute, effects[1]); c.free {
				require.Len(t, second, 1)
			} else {
				require.Empty(t, second)
			}
		})
	}

	t.Run("SeveralThatMayHaveBeenSentDoNotWaitForEachOther", func(t *testing.T) { // as after a restore
		t.Parallel()
		b := shared.For(t)
		effects := sameTarget(b, "doubted", "doubted-1", "doubted-2", "doubted-new")
		for _, e := range effects[:2] {
			b.Exec(`update effects set maybe_sent = true, first_sent_at = clock_timestamp() where run_id = $1`, e.RunID)
		}
		for range effects[:2] {
			require.Empty(t, b.Lease(time.Minute, effects[2]))
			leased := b.Lease(time.Minute, effects...)
			require.Len(t, leased, 1)
			require.NotEqual(t, effects[2], leased[0].EffectKey)
			require.True(t, settle(t, b, leased[0], "succeed", 0))
		}
		require.Len(t, b.Lease(time.Minute, effects[2]), 1)
	})

	t.Run("OneOfABatchIsLeased", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := sameTarget(b, "batch", "batch-1", "batch-2", "batch-3")
		require.Len(t, b.Lease(time.Minute, effects...), 1)
		require.Empty(t, b.Lease(time.Minute, effects...))
	})

	t.Run("StoppedEffectDoesNotHoldUpAnotherOfItsTarget", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := sameTarget(b, "stopped", "stopped-1", "stopped-2")
		b.Exec(`update effects set execute_by = clock_timestamp() where run_id = $1`, effects[0].RunID)
		leased := b.Lease(time.Minute, effects...)
		require.Len(t, leased, 1)
		require.Equal(t, effects[1], leased[0].EffectKey)
	})

	t.Run("SameRecordOfAnotherSystemOrTenantIsAnotherTarget", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		effects := sameTarget(b, "other", "other-1", "other-2")
		b.Exec(`update effects set target_system = 'billing' where run_id = $1`, effects[1].RunID)
		require.Len(t, b.Lease(time.Minute, effects...), 2)
	})
}

func TestLeaseRace(t *testing.T) {
	t.Parallel()

	t.Run("NoEffectIsLeasedTwice", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = fmt.Sprintf("k%d", i)
		}
		effects := b.Approved(keys...)
		b.Exec(`update effects set next_check_at = clock_timestamp()`)
		dispatchers := []*ledger.Ledger{b.Dispatcher, b.Replica(ledger.Dispatcher), b.Replica(ledger.Dispatcher), b.Replica(ledger.Dispatcher)}
		var mu sync.Mutex
		owners := map[ledger.EffectKey]int{}
		var group errgroup.Group
		for i := range 24 {
			group.Go(func() error {
				request := ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Free: map[string]int{target: 30}, Due: i%2 == 0}
				if i%2 == 1 {
					request.Requested = effects[i*8 : i*8+16]
				}
				leased, err := dispatchers[i%4].Lease(t.Context(), request)
				mu.Lock()
				defer mu.Unlock()
				for _, e := range leased {
					owners[e.EffectKey]++
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		for len(owners) < len(effects) { // what a racer had locked when another looked
			leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
				Free: map[string]int{target: 30}, Due: true})
			require.NoError(t, err)
			require.NotEmpty(t, leased)
			for _, e := range leased {
				owners[e.EffectKey]++
			}
		}
		for e, n := range owners {
			require.Equal(t, 1, n, e.OperationID())
		}
		require.Equal(t, len(effects), b.Count(`select count(*) from effect_attempts`))
	})

	t.Run("OneTargetIsLeasedOnceWhoeverAsks", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := sameTarget(b, "hot", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8")
		var mu sync.Mutex
		total := 0
		var group errgroup.Group
		for _, e := range effects {
			l := b.Replica(ledger.Dispatcher)
			group.Go(func() error {
				leased, err := l.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
					Requested: []ledger.EffectKey{e}, Free: map[string]int{target: 1}})
				mu.Lock()
				defer mu.Unlock()
				total += len(leased)
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.LessOrEqual(t, total, 1)
		require.Equal(t, total, b.Count(`select count(*) from effects where state = 'sending'`))
	})
}

func TestLeaseByTime(t *testing.T) { // B4: the dispatcher needs no event
	t.Parallel()
	due := func(t *testing.T, b *ledgertest.Bench, free int) []ledger.Leased {
		t.Helper()
		leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
			Free: map[string]int{target: free}, Due: true})
		require.NoError(t, err)
		return leased
	}

	t.Run("EffectWhoseTimeHasComeNeedsNoEvent", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Approved("k1", "k2")
		b.Exec(`update effects set next_check_at = clock_timestamp() + interval '1 hour' where run_id = $1`, ledger.RunID(ledgertest.Tenant, "k2"))
		leased := due(t, b, 10)
		require.Len(t, leased, 1)
		require.Equal(t, "k1", leased[0].RunKey, "due from its insertion")
	})

	t.Run("NoMoreAreLeasedThanTheConnectorCanTake", func(t *testing.T) { // D11
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.Approved("k1", "k2", "k3", "k4", "k5")
		leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Requested: effects,
			Free: map[string]int{target: 2}})
		require.NoError(t, err)
		require.Len(t, leased, 2)
		require.Len(t, due(t, b, 2), 2, "what found no free slot is due at once")
		require.Empty(t, due(t, b, 0))
		require.Len(t, due(t, b, 2), 1)
	})

	t.Run("AFloodOfOneTenantLeavesAnotherItsShare", func(t *testing.T) { // D11
		t.Parallel()
		b := ledgertest.New(t)
		const other = "other"
		keys := make([]string, 500)
		for i := range keys {
			keys[i] = fmt.Sprintf("k%d", i)
		}
		flood := b.Approved(keys...)
		_, err := b.Intake.ActivateRules(t.Context(), other, ledgertest.Source, 1)
		require.NoError(t, err)
		b.PolicyVersion = b.ActivatePolicy(other, []byte("other")) + "/test"
		claim := ledgertest.Proposal("k0")
		claim.TenantID = other
		b.Claim(claim)
		b.Decide(config.RouteAuto, claim)
		effect := ledger.EffectKey{TenantID: other, RunID: ledger.RunID(other, "k0"), Revision: 1, Ordinal: 1}
		tenants := func(request ledger.LeaseRequest) map[string]int {
			request.Owner, request.Duration = uuid.New(), time.Minute
			request.Free = map[string]int{target: 4, other + "/" + ledgertest.Connector: 4}
			leased, err := b.Dispatcher.Lease(t.Context(), request)
			require.NoError(t, err)
			counts := map[string]int{}
			for _, e := range leased {
				counts[e.TenantID]++
			}
			return counts
		}
		want := map[string]int{ledgertest.Tenant: 4, other: 1}
		require.Equal(t, want, tenants(ledger.LeaseRequest{Requested: append(flood, effect)}), "by events")
		b.Exec(`update effects set state = 'pending', lease_owner = null, lease_expires_at = null, next_check_at = clock_timestamp()
  where state = 'sending' and tenant_id = $1`, other)
		require.Equal(t, want, tenants(ledger.LeaseRequest{Due: true}), "by time")
	})

	t.Run("ConnectorThatIsNotNamedTakesNothing", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.Approved("k1")
		leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute, Requested: effects,
			Free: map[string]int{ledgertest.Tenant + "/another": 5}})
		require.NoError(t, err)
		require.Empty(t, leased)
	})

	t.Run("WhatCannotBeSentNowIsLookedAtLater", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		b.Approved("k1")
		b.Exec(`update effects set next_check_at = clock_timestamp() - interval '1 minute', unread_outcome = true`)
		require.Empty(t, due(t, b, 10))
		require.Equal(t, 1, b.Count(`select count(*) from effects where next_check_at > clock_timestamp()`))
	})
}

func TestLeaveToSend(t *testing.T) { // D9, D15
	t.Parallel()
	shared := ledgertest.New(t)
	confirm := func(t *testing.T, b *ledgertest.Bench, f ledger.Fence) ledger.Leave {
		t.Helper()
		leaves, err := b.Dispatcher.Confirm(t.Context(), []ledger.Fence{f})
		require.NoError(t, err)
		return leaves[0]
	}
	for name, c := range map[string]struct {
		change func(b *ledgertest.Bench, f *ledger.Fence)
		reason string
	}{
		"IsGrantedToTheOwner":     {func(*ledgertest.Bench, *ledger.Fence) {}, ""},
		"IsNotAnotherOwners":      {func(_ *ledgertest.Bench, f *ledger.Fence) { f.Owner = uuid.New() }, "another's"},
		"IsNotForAnotherAttempt":  {func(_ *ledgertest.Bench, f *ledger.Fence) { f.Attempt++ }, "another's"},
		"IsNotForAnUnknownEffect": {func(_ *ledgertest.Bench, f *ledger.Fence) { f.Ordinal++ }, "another's"},
		"EndsASecondBeforeTheLease": {func(b *ledgertest.Bench, f *ledger.Fence) {
			b.Exec(`update effects set lease_expires_at = clock_timestamp() + interval '1 second' where run_id = $1`, f.RunID)
		}, "has ended"},
		"EndsWithTheSettlement": {func(b *ledgertest.Bench, f *ledger.Fence) {
			b.Exec(`update effects set state = 'unknown', lease_owner = null, lease_expires_at = null where run_id = $1`, f.RunID)
		}, "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shared.For(t)
			e := b.Lease(time.Minute, b.Approved(name)...)[0]
			fence := ledger.Fence{EffectKey: e.EffectKey, Attempt: e.Attempt, Owner: e.Owner}
			c.change(b, &fence)
			leave := confirm(t, b, fence)
			require.Equal(t, c.reason == "", leave.Granted)
			require.Contains(t, leave.Reason, c.reason)
		})
	}

	t.Run("AnswersComeInTheOrderOfTheQuestions", func(t *testing.T) {
		t.Parallel()
		b := shared.For(t)
		leased := b.Lease(time.Minute, b.Approved("order-1", "order-2", "order-3")...)
		fences := make([]ledger.Fence, len(leased))
		for i, e := range leased {
			fences[i] = ledger.Fence{EffectKey: e.EffectKey, Attempt: e.Attempt, Owner: e.Owner}
		}
		fences[1].Owner = uuid.New()
		leaves, err := b.Dispatcher.Confirm(t.Context(), fences)
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, true}, []bool{leaves[0].Granted, leaves[1].Granted, leaves[2].Granted})
	})
}
