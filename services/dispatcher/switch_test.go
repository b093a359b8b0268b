package dispatcher

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

func (b *bench) set(scope, key string, closed bool) {
	b.t.Helper()
	_, err := b.Operator.SetSwitch(b.t.Context(), ledger.Switch{Scope: scope, Key: key, Closed: closed, ChangedBy: "ann",
		Reason: "a test"})
	require.NoError(b.t, err)
}

// scopes are the switches that cover a contact's effect.
var scopes = map[string]struct{ scope, key string }{
	"Global":     {ledger.ScopeGlobal, ""},
	"Tenant":     {ledger.ScopeTenant, ledgertest.Tenant},
	"ActionType": {ledger.ScopeActionType, ledgertest.Tenant + "/crm.contact.update"},
	"Connector":  {ledger.ScopeConnector, ledgertest.Tenant + "/" + servicetest.CRM},
}

// TestKillSwitch is D9.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	for name, s := range scopes {
		t.Run("Closed"+name+"LeasesNothing", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Authorize(b.Contact("new"), b.Contact("tried"))
			b.Fault(updates, sandbox.Fault{Kind: sandbox.RateLimit})
			b.request("tried")
			b.Heal()
			b.set(s.scope, s.key, true)
			b.request()
			b.again()
			require.Empty(t, b.Attempts("new"))
			require.Len(t, b.Attempts("tried"), 1, "what is retried is covered as well")
			require.Equal(t, ledger.EffectPending, b.Look("new").State)
			b.set(s.scope, s.key, false)
			b.again()
			require.Len(t, b.Writes("new"), 1)
			require.Len(t, b.Writes("tried"), 1)
		})

		t.Run("Closed"+name+"RightBeforeTheFirstByteSendsNothing", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Authorize(b.Contact("k"))
			b.beforeLeave(func(ledger.Fence) { b.set(s.scope, s.key, true) })
			b.request()
			attempts := b.Attempts("k")
			require.Equal(t, string(outcome.NotSent), attempts[0].Class)
			require.Contains(t, attempts[0].Detail, "kill switch is closed")
			require.Contains(t, attempts[0].Detail, "ann: a test")
			b.requireNothingSent("k")
			require.Equal(t, ledger.EffectPending, b.Look("k").State)
			require.False(t, b.Look("k").MaybeSent)
		})
	}

	t.Run("SwitchesOfOthersStopNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.set(ledger.ScopeTenant, "other", true)
		b.set(ledger.ScopeActionType, "demo/payment.refund", true)
		b.set(ledger.ScopeConnector, "demo/"+servicetest.Payments, true)
		b.Authorize(b.Contact("k"), b.Refund("r"))
		b.request()
		require.Len(t, b.Writes("k"), 1)
		require.Empty(t, b.Writes("r"))
	})

	t.Run("ASwitchThatCannotBeReadWhenLeasingIsClosed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.Exec(`revoke select on kill_switches from holdpoint_dispatcher`)
		require.Error(t, b.lease(t.Context(), ledger.LeaseRequest{Requested: []ledger.EffectKey{servicetest.Effect("k")}}))
		require.Empty(t, b.Attempts("k"))
		b.Exec(`grant select on kill_switches to holdpoint_dispatcher`)
		b.request()
		require.Len(t, b.Writes("k"), 1, "its slot was given back")
	})

	t.Run("ASwitchThatCannotBeReadBeforeTheFirstByteIsClosed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.beforeLeave(func(ledger.Fence) { b.Exec(`revoke select on kill_switches from holdpoint_dispatcher`) })
		b.request()
		require.Contains(t, b.Attempts("k")[0].Detail, "cannot be read, so nothing is sent")
		b.requireNothingSent("k")
	})

	t.Run("LookupsAndOutcomesGoOn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		id := b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: ms(2000)})
		b.take()
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), id, 1))
		b.set(ledger.ScopeGlobal, "", true)
		drain, err := b.Operator.Drain(t.Context(), ledger.Switch{Scope: ledger.ScopeGlobal})
		require.NoError(t, err)
		require.Equal(t, ledger.Drain{InFlight: 1}, drain, "closing says what is in flight")
		b.inFlight.Wait()
		require.Equal(t, ledger.EffectCompleted, b.Look("k").State, "what was in flight is recorded")
	})

	t.Run("WithoutAIActionsEnabledOnlyTheInboxIsWritten", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.settings.Enabled = false
		b.Authorize(b.Contact("k"))
		b.request()
		b.again()
		require.Empty(t, b.Attempts("k"))
		require.Equal(t, ledger.EffectPending, b.Look("k").State)
		require.Equal(t, 1, b.Count(`select count(*) from inbox where consumer = 2`))
		b.with().again()
		require.Len(t, b.Writes("k"), 1, "it is sent when it is enabled")
	})

	t.Run("TheZeroSettingsSendNothing", func(t *testing.T) {
		t.Parallel()
		w := servicetest.New(t)
		d, err := New(t.Context(), w.Env(ledger.Dispatcher), Settings{})
		require.NoError(t, err)
		w.Authorize(w.Contact("k"))
		w.DueNow()
		_, err = d.poll(t.Context())
		require.NoError(t, err)
		require.Empty(t, w.Attempts("k"))
		require.Contains(t, w.Logs.String(), "AI_ACTIONS_ENABLED is not true")
	})
}

// TestFence is D3 and D15: a first byte leaves under a committed attempt, a valid lease and fresh leave, or not at all.
func TestFence(t *testing.T) {
	t.Parallel()

	t.Run("TheAttemptIsCommittedBeforeTheFirstByte", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		seen := make(chan int, 1)
		hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			seen <- b.Count(`select count(*) from effects e join effect_attempts a using (run_id) where e.state = 'sending'
  and e.lease_owner = a.owner and e.lease_expires_at > clock_timestamp() and a.attempt = 1 and a.class is null
  and a.switch_epoch = 1`)
		}))
		t.Cleanup(hook.Close)
		b.Fault(updates, sandbox.Fault{Kind: sandbox.Signal, URL: hook.URL})
		b.Authorize(b.Contact("k"))
		b.request()
		require.Equal(t, 1, <-seen)
	})

	t.Run("ALeaseThatWasLostSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.beforeLeave(func(ledger.Fence) {
			b.Exec(`update effects set state = 'unknown', lease_owner = null, lease_expires_at = null, maybe_sent = true,
  first_sent_at = clock_timestamp(), unknown_since = clock_timestamp()`)
		})
		b.request()
		b.requireNothingSent("k")
		require.Equal(t, string(outcome.NotSent), b.Attempts("k")[0].Class,
			"what became of the attempt is recorded all the same")
		require.Equal(t, ledger.EffectUnknown, b.Look("k").State, "a stale owner moves nothing")
		require.Contains(t, b.Logs.String(), "an outcome came after the effect had been taken from this attempt")
	})

	t.Run("ALeaseOfAnotherSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.beforeLeave(func(ledger.Fence) { b.Exec(`update effects set lease_owner = $1, attempts = 2`, uuid.New()) })
		b.request()
		b.requireNothingSent("k")
		require.Equal(t, ledger.EffectSending, b.Look("k").State)
	})

	t.Run("ALeaseThatIsAboutToEndSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.beforeLeave(func(ledger.Fence) {
			b.Exec(`update effects set lease_expires_at = clock_timestamp() + interval '900 milliseconds'`)
		})
		b.request()
		b.requireNothingSent("k")
	})

	t.Run("LeaveThatHasGrownOldSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.confirm.Close()
		b.confirm = ledger.NewGroup(ledger.GroupConfig[ledger.Fence, ledger.Leave]{
			Run: func(ctx context.Context, fences []ledger.Fence) ([]ledger.Leave, error) {
				leaves, err := b.env.Ledger.Confirm(ctx, fences)
				for i := range leaves {
					leaves[i].AskedAt = leaves[i].AskedAt.Add(-sendWithin) // as if the process had been frozen since
				}
				return leaves, err
			},
		})
		b.request()
		require.Contains(t, b.Attempts("k")[0].Detail, "a first byte leaves within 1s or not at all")
		b.requireNothingSent("k")
	})

	t.Run("LeaveThatDoesNotComeWithinASecondSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		tx, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		b.beforeLeave(func(ledger.Fence) {
			_, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock($1)`, 0x686f6c64) // a switch is being closed, and hangs
			require.NoError(t, err)
		})
		b.request()
		require.NoError(t, tx.Rollback(t.Context()))
		require.Contains(t, b.Attempts("k")[0].Detail, "nothing is sent")
		b.requireNothingSent("k")
	})

	t.Run("AnExecuteByThatPassesMeanwhileSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := &attempt{Leased: ledger.Leased{Now: time.Now(), ExecuteBy: time.Now()}, taken: time.Now()}
		b.confirm.Close()
		b.confirm = ledger.NewGroup(ledger.GroupConfig[ledger.Fence, ledger.Leave]{
			Run: func(_ context.Context, fences []ledger.Fence) ([]ledger.Leave, error) {
				return []ledger.Leave{{Granted: true, AskedAt: time.Now()}}, nil
			},
		})
		require.ErrorContains(t, b.leave(t.Context(), a), "execute-by has passed")
		a.ExecuteBy = a.ExecuteBy.Add(time.Minute)
		require.NoError(t, b.leave(t.Context(), a))
		require.True(t, a.granted)
	})

	t.Run("APanicAfterLeaveIsTakenForSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := &attempt{Leased: ledger.Leased{EffectKey: servicetest.Effect("k")}, granted: true,
			target: b.targets["demo/"+servicetest.CRM]}
		s := b.panicked(a, "boom")
		require.Equal(t, "lose", s.Move)
		require.True(t, s.MaybeSent)
		require.Equal(t, string(outcome.Ambiguous), s.Outcome.Class)
	})
}

// outlived is an attempt on the effect of key k that is still on its way when its lease has ended.
func outlived(t *testing.T) (*bench, ledger.Open) {
	t.Helper()
	b := setup(t)
	b.Authorize(b.Contact("k"))
	id := b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: ms(3000)})
	b.take()
	require.NoError(t, b.Sandbox.AwaitFault(t.Context(), id, 1))
	e := b.Look("k")
	b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: e.EffectKey, Move: "expire_lease",
		Attempt: e.Attempt, Owner: e.Owner, MaybeSent: true})
	return b, e
}

// TestLateOutcome is D7: what a stale owner learns is kept, and nobody sends before it was read.
func TestLateOutcome(t *testing.T) {
	t.Parallel()
	b, _ := outlived(t)
	b.repeat("k") // the next attempt waits while the first is still on its way
	b.inFlight.Wait()

	first := b.Attempts("k")[0]
	require.Equal(t, string(outcome.Succeeded), first.Class)
	require.Equal(t, b.Writes("k")[0].UpdateID, first.ExternalID)
	late := b.Look("k")
	require.True(t, late.UnreadOutcome)
	require.Equal(t, ledger.EffectUnknown, late.State, "it waits for the reader")
	require.Equal(t, string(outcome.Succeeded), late.ReportedClass)
	b.again()
	require.Len(t, b.Attempts("k"), 1)
}

// TestLateSuccessOfWhatHasEnded is D7: the write is there, and the effect was given up meanwhile. What has ended stays so, and somebody
// is told.
func TestLateSuccessOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	b, e := outlived(t)
	b.Settle(b.Operator, "resolve", ledger.Settlement{EffectKey: e.EffectKey, Move: "give_up", Actor: "ann", RunKey: e.RunKey,
		CorrelationID: e.CorrelationID})
	b.inFlight.Wait()

	require.Equal(t, ledger.EffectFailed, b.Look("k").State)
	first := b.Attempts("k")[0]
	require.Equal(t, string(outcome.Succeeded), first.Class)
	require.Equal(t, b.Writes("k")[0].UpdateID, first.ExternalID)
	require.Len(t, b.alerts("k"), 1)
	require.Contains(t, b.alerts("k")[0], first.ExternalID)
}
