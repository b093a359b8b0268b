package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func change(t *testing.T, b *ledgertest.Bench, scope, key string, closed bool) int64 {
	t.Helper()
	epoch, err := b.Operator.SetSwitch(t.Context(), ledger.Switch{Scope: scope, Key: key, Closed: closed, ChangedBy: "olga", Reason: "a test"})
	require.NoError(t, err)
	return epoch
}

func TestKillSwitch(t *testing.T) { // D9
	t.Parallel()

	for name, c := range map[string]struct {
		scope, key string
		stops      bool
	}{
		"GlobalStopsAll":             {ledger.ScopeGlobal, "", true},
		"TenantStopsItsOwn":          {ledger.ScopeTenant, ledgertest.Tenant, true},
		"AnotherTenantStopsNothing":  {ledger.ScopeTenant, "other", false},
		"ActionTypeStopsItsOwn":      {ledger.ScopeActionType, ledgertest.Tenant + "/" + ledgertest.ActionType, true},
		"AnotherActionType":          {ledger.ScopeActionType, ledgertest.Tenant + "/mail.send", false},
		"ActionTypeOfAnotherTenant":  {ledger.ScopeActionType, "other/" + ledgertest.ActionType, false},
		"ConnectorStopsItsOwn":       {ledger.ScopeConnector, target, true},
		"AnotherConnector":           {ledger.ScopeConnector, ledgertest.Tenant + "/mail", false},
		"ConnectorIsNotAnActionType": {ledger.ScopeActionType, target, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ledgertest.New(t)
			sent := b.Lease(time.Minute, b.Approved("sent")...)[0]
			effects := b.Approved("k1")
			before, err := b.Dispatcher.Switches(t.Context())
			require.NoError(t, err)
			epoch := change(t, b, c.scope, c.key, true)
			require.Equal(t, before.Epoch+1, epoch)

			after, err := b.Dispatcher.Switches(t.Context())
			require.NoError(t, err)
			require.Equal(t, epoch, after.Epoch)
			stops := after.Stops(ledgertest.Tenant, ledgertest.ActionType, ledgertest.Connector)
			require.Equal(t, c.stops, stops != nil)
			leaves, err := b.Dispatcher.Confirm(t.Context(), []ledger.Fence{{EffectKey: sent.EffectKey, Attempt: 1, Owner: sent.Owner}})
			require.NoError(t, err)
			require.Equal(t, !c.stops, leaves[0].Granted, "nor does a first byte leave that has a lease")
			drain, err := b.Operator.Drain(t.Context(), ledger.Switch{Scope: c.scope, Key: c.key})
			require.NoError(t, err)
			if !c.stops {
				require.Zero(t, drain)
				require.Len(t, b.Lease(time.Minute, effects...), 1)
				return
			}
			require.Equal(t, ledger.Drain{Stopped: 1, InFlight: 1}, drain)
			require.Equal(t, "olga: a test", stops.ChangedBy+": "+stops.Reason)
			require.Contains(t, leaves[0].Reason, "olga: a test")
			require.Empty(t, b.Lease(time.Minute, effects...))
			require.Zero(t, b.Count(`select count(*) from effect_attempts where run_id = $1`, effects[0].RunID))

			change(t, b, c.scope, c.key, false)
			leased := b.Lease(time.Minute, effects...)
			require.Len(t, leased, 1)
			require.Equal(t, epoch+1, leased[0].Epoch, "the lease carries the epoch that it saw")
		})
	}

	t.Run("EveryChangeIsKeptWithWhoAndWhy", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		for _, s := range []ledger.Switch{{Scope: ledger.ScopeGlobal, ChangedBy: "olga"}, {Scope: ledger.ScopeGlobal, Reason: "x"}} {
			_, err := b.Operator.SetSwitch(t.Context(), s)
			require.ErrorContains(t, err, "somebody")
		}
		change(t, b, ledger.ScopeGlobal, "", true)
		change(t, b, ledger.ScopeGlobal, "", false)
		require.Equal(t, "true,false", b.Text(`select string_agg(closed::text, ',' order by epoch) from kill_switch_changes where changed_by = 'olga'`))
	})

	t.Run("SwitchOfAnUnknownScopeOrWithoutAKeyIsRefused", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		for _, s := range []ledger.Switch{{Scope: "planet", Key: "x"}, {Scope: ledger.ScopeTenant}, {Scope: ledger.ScopeGlobal, Key: "x"}} {
			s.ChangedBy, s.Reason = "olga", "test"
			_, err := b.Operator.SetSwitch(t.Context(), s)
			require.Error(t, err)
			require.NotErrorIs(t, err, ledger.ErrUnavailable)
		}
		require.Equal(t, 1, b.Count(`select epoch from kill_switch_epoch`))
	})
}

// TestOpeningInStages: the share of effects that may go grows, and it is the same ones for everybody (D15).
func TestOpeningInStages(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	effects := b.Approved(keys...)
	set := func(s ledger.Switch) {
		t.Helper()
		s.Scope, s.Key, s.ChangedBy, s.Reason = ledger.ScopeTenant, ledgertest.Tenant, "olga", "a test"
		_, err := b.Operator.SetSwitch(t.Context(), s)
		require.NoError(t, err)
	}
	leased := func() int {
		b.Exec(`update effects set next_check_at = clock_timestamp()`)
		return len(b.Lease(time.Minute, effects...))
	}
	set(ledger.Switch{Closed: true})
	require.Zero(t, leased())
	set(ledger.Switch{Ramp: 100 * time.Hour})
	require.Less(t, leased(), 5, "at first hardly any")
	state, err := b.Dispatcher.Switches(t.Context())
	require.NoError(t, err)
	require.Empty(t, state.Closed)
	require.Equal(t, 100*time.Hour, state.Opening[0].Ramp)
	aged := func(d string) {
		b.Exec(`update kill_switches set changed_at = changed_at - $1::interval, open_at = open_at - $1::interval`, d)
	}
	aged("50 hours")
	half := leased()
	require.InDelta(t, 100, half, 40, "then about half")
	require.Zero(t, leased(), "the same ones are held back, whoever asks")
	aged("51 hours")
	leased()
	require.Equal(t, 200, b.Count(`select count(*) from effects where state = 'sending'`), "and all in the end")
	_, err = b.Operator.SetSwitch(t.Context(), ledger.Switch{Scope: ledger.ScopeGlobal, Closed: true, Ramp: time.Hour, ChangedBy: "o", Reason: "r"})
	require.ErrorContains(t, err, "closing is at once")
}

func TestClosingASwitch(t *testing.T) { // D15
	t.Parallel()

	t.Run("WaitsForALeaseUnderWay", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		effects := b.Approved("k1", "k2")
		// The lease gets as far as its attempt row, and waits there.
		holder, err := b.Owner.Begin(t.Context())
		require.NoError(t, err)
		defer holder.Rollback(t.Context())
		_, err = holder.Exec(t.Context(), `lock table effect_attempts in exclusive mode`)
		require.NoError(t, err)
		order := make(chan string, 3)
		var group errgroup.Group
		group.Go(func() error {
			leased, err := b.Dispatcher.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
				Requested: effects[:1], Free: map[string]int{target: 5}})
			order <- fmt.Sprintf("leased %d", len(leased))
			return err
		})
		b.AwaitBlocked(1)
		group.Go(func() error {
			_, err := b.Operator.SetSwitch(t.Context(), ledger.Switch{Scope: ledger.ScopeGlobal, Closed: true, ChangedBy: "olga", Reason: "test"})
			order <- fmt.Sprintf("closed over %d", b.Count(`select count(*) from effects where state = 'sending'`))
			return err
		})
		b.AwaitBlocked(2)
		// A lease that comes later queues behind the switch.
		group.Go(func() error {
			leased, err := b.Replica(ledger.Dispatcher).Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
				Requested: effects[1:], Free: map[string]int{target: 5}})
			order <- fmt.Sprintf("late %d", len(leased))
			return err
		})
		b.AwaitBlocked(3)
		require.Empty(t, order)
		require.NoError(t, holder.Rollback(t.Context()))
		require.NoError(t, group.Wait())
		close(order)
		var seen []string
		for s := range order {
			seen = append(seen, s)
		}
		require.ElementsMatch(t, []string{"leased 1", "closed over 1", "late 0"}, seen)
		drain, err := b.Operator.Drain(t.Context(), ledger.Switch{Scope: ledger.ScopeGlobal})
		require.NoError(t, err)
		require.Equal(t, ledger.Drain{Stopped: 1, InFlight: 1}, drain)
	})

	t.Run("NoLeaseCommitsAfterIt", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		keys := make([]string, 120)
		for i := range keys {
			keys[i] = fmt.Sprintf("k%d", i)
		}
		effects := b.Approved(keys...)
		var group errgroup.Group
		var mu sync.Mutex
		leasedSome := sync.NewCond(&mu)
		leased := 0
		for i := range 4 {
			l := b.Replica(ledger.Dispatcher)
			group.Go(func() error {
				for _, e := range effects[i*30 : i*30+30] {
					got, err := l.Lease(t.Context(), ledger.LeaseRequest{Owner: uuid.New(), Duration: time.Minute,
						Requested: []ledger.EffectKey{e}, Free: map[string]int{target: 5}})
					if err != nil {
						return err
					}
					mu.Lock()
					leased += len(got)
					leasedSome.Broadcast()
					mu.Unlock()
				}
				return nil
			})
		}
		mu.Lock()
		for leased < 20 {
			leasedSome.Wait()
		}
		mu.Unlock()
		epoch := change(t, b, ledger.ScopeGlobal, "", true)
		inFlight := b.Count(`select count(*) from effects where state = 'sending'`)
		require.NoError(t, group.Wait())
		require.Equal(t, inFlight, b.Count(`select count(*) from effects where state = 'sending'`))
		require.Less(t, inFlight, len(effects), "the switch closed while leases were being taken")
		require.Zero(t, b.Count(`select count(*) from effect_attempts where switch_epoch >= $1`, epoch))
	})
}
