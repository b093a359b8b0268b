package dispatcher

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// authorized makes n runs whose effect waits, and returns their operation ids.
func (b *bench) authorized(n int, name string, claim func(*servicetest.World, string) ledger.Claim) []string {
	b.t.Helper()
	claims := make([]ledger.Claim, n)
	operations := make([]string, n)
	for i := range claims {
		key := fmt.Sprintf("%s-%d", name, i)
		claims[i], operations[i] = claim(b.World, key), servicetest.Effect(key).OperationID()
	}
	b.Authorize(claims...)
	return operations
}

func contact(w *servicetest.World, key string) ledger.Claim { return w.Contact(key) }
func refund(w *servicetest.World, key string) ledger.Claim  { return w.Refund(key) }

// TestSlots is D11: a connector takes what it can send at once, and nothing of another's.
func TestSlots(t *testing.T) {
	t.Parallel()

	t.Run("NoMoreIsLeasedThanCanBeSentAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c,
				servicetest.CRM).Concurrency = 2
		}))
		id := b.Fault(updates, sandbox.Fault{Kind: sandbox.Delay, Duration: ms(1000)})
		operations := b.authorized(5, "c", contact)
		b.take()
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), id, 2))
		b.pollNow()
		require.Equal(t, 2, b.Count(`select count(*) from effects where state = 'sending'`), "the poll finds no free slot")
		b.inFlight.Wait()
		require.Len(t, b.wake, 1, "a freed slot wakes the poll, because more was waiting")
		for range 2 {
			b.look()
		}
		check, err := b.Sandbox.Check(t.Context(), operations)
		require.NoError(t, err)
		require.Zero(t, check.Missing, "what found no slot was due at once")
		require.Empty(t, check.Duplicates)
	})

	t.Run("WithNothingWaitingNobodyIsWoken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authorized(3, "c", contact)
		b.request()
		require.Empty(t, b.wake)
	})

	t.Run("AHangingConnectorDoesNotTakeTheOthers", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			payments := servicetest.Connector(c, servicetest.Payments)
			payments.Concurrency, payments.Timeout = 2, 2*time.Second
			servicetest.Connector(c, servicetest.CRM).Concurrency = 2
		}))
		b.authorized(6, "r", refund)
		hanging := b.Fault(sandbox.Match{System: sandbox.Payments}, sandbox.Fault{Kind: sandbox.HangBeforeAccept})
		b.take()
		require.NoError(t, b.Sandbox.AwaitFault(t.Context(), hanging, 2))
		operations := b.authorized(8, "c", contact)
		b.take()
		require.Eventually(t, func() bool {
			b.pollNow()
			require.LessOrEqual(t, b.Count(`select count(*) from effects where state = 'sending' and connector = $1`,
				servicetest.Payments), 2)
			check, err := b.Sandbox.Check(t.Context(), operations)
			return err == nil && check.Missing == 0
		}, servicetest.Patience, 5*time.Millisecond)
		require.Equal(t, 6, b.Count(`select count(*) from effects where open and connector = $1`, servicetest.Payments))
		require.Zero(t, b.Count(`select count(*) from pg_stat_activity where datname = current_database()
  and state = 'idle in transaction' and state_change < clock_timestamp() - interval '1 second'`),
			"no call is made inside a transaction (DSP-14)")
	})

	t.Run("ALeaseThatFailsGivesItsSlotsBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
			servicetest.Connector(c,
				servicetest.CRM).Concurrency = 1
		}))
		operations := b.authorized(2, "c", contact)
		b.Exec(`revoke insert on effect_attempts from holdpoint_dispatcher`)
		for range 3 {
			require.Error(t, b.lease(t.Context(), ledger.LeaseRequest{Requested: []ledger.EffectKey{servicetest.Effect("c-0")}}))
		}
		b.Exec(`grant insert on effect_attempts to holdpoint_dispatcher`)
		b.again()
		b.again()
		check, err := b.Sandbox.Check(t.Context(), operations)
		require.NoError(t, err)
		require.Zero(t, check.Missing)
		require.Zero(t, b.slots.taken["demo/"+servicetest.CRM])
	})
}

// TestReplicas: two dispatchers share the work and send nothing twice.
func TestReplicas(t *testing.T) {
	t.Parallel()
	b := setup(t, servicetest.WithConfig(func(c *config.Tenant) {
		servicetest.Connector(c,
			servicetest.CRM).Concurrency = 3
	}))
	b.forget()
	first, second := b.with(), b.with()
	var sent [2]atomic.Int32
	for i, d := range []*bench{first, second} {
		d.beforeLeave(func(ledger.Fence) { sent[i].Add(1) })
	}
	operations := b.authorized(60, "c", contact)
	b.DueNow()
	var both sync.WaitGroup
	for _, d := range []*bench{first, second} {
		both.Go(func() {
			for i := 0; i < 60 && b.Count(`select count(*) from effects where open`) > 0; i++ {
				d.look()
			}
		})
	}
	both.Wait()
	check, err := b.Sandbox.Check(t.Context(), operations)
	require.NoError(t, err)
	require.Zero(t, check.Missing)
	require.Empty(t, check.Duplicates)
	require.Equal(t, 60, b.Count(`select count(*) from effect_attempts`), "each was leased once")
	require.Positive(t, sent[0].Load(), "the first took part")
	require.Positive(t, sent[1].Load(), "the second took part")
	require.Empty(t, b.Logs.Errors())
}

// TestOneTarget is R8: while an effect on a target is unknown, no other is sent to it.
func TestOneTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	same := func(p *servicetest.Proposal) { p.Target["record_id"] = "shared" }
	b.Fault(sandbox.Match{Operation: sandbox.Update, Nth: 1}, sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
	b.Authorize(b.Contact("a", same))
	b.request("a")
	b.Authorize(b.Contact("b", same), b.Contact("free"))
	b.request()
	require.Empty(t, b.Attempts("b"))
	require.Len(t, b.Writes("free"), 1)
	b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{EffectKey: servicetest.Effect("a"), Move: "incident",
		HoldReason: ledger.HoldIncident})
	b.again()
	require.Len(t, b.Writes("b"), 1)
}
