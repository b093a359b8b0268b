package reconciler

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/intent"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// bench is a reconciler in its world, driven by hand: look has it take up what is due, and returns when all is settled.
type bench struct {
	*servicetest.World
	*Reconciler

	t testing.TB
}

func setup(t testing.TB, changes ...func(*config.Tenant)) *bench {
	t.Helper()
	w := servicetest.New(t, servicetest.WithConfig(func(c *config.Tenant) {
		for _, change := range changes {
			change(c)
		}
	}))
	return &bench{World: w, Reconciler: another(t, w), t: t}
}

func another(t testing.TB, w *servicetest.World) *Reconciler {
	t.Helper()
	r, err := New(t.Context(), w.Env(ledger.Reconciler), Settings{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(func() { r.received.Close(); _ = r.listener.Close() }) // where it does not run
	return r
}

func (b *bench) forCase(t testing.TB) *bench {
	t.Helper()
	w := b.For(t)
	return &bench{World: w, Reconciler: another(t, w), t: t}
}

// look takes up what is due.
func (b *bench) look() {
	b.t.Helper()
	_, err := b.scan(b.t.Context())
	require.NoError(b.t, err)
	b.working.Wait()
}

// after lets time pass for the effect of a key, by the database's clock, and has the reconciler look.
func (b *bench) after(key string, d time.Duration) {
	b.t.Helper()
	id := servicetest.Effect(key).RunID
	b.Exec(`update effects set unknown_since = unknown_since - $2::interval, first_sent_at = first_sent_at - $2::interval,
  lease_expires_at = lease_expires_at - $2::interval where run_id = $1`, id, d)
	b.Exec(`update effect_attempts set started_at = started_at - $2::interval where run_id = $1`, id, d)
	b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1 and state <> 'held'`, id)
	b.look()
}

// lease takes the effect of a key for sending, as a dispatcher does.
func (b *bench) lease(key string) ledger.Leased {
	b.t.Helper()
	leased, err := b.World.Dispatcher.Lease(b.t.Context(), ledger.LeaseRequest{
		Owner: uuid.New(), Duration: time.Minute, Requested: []ledger.EffectKey{servicetest.Effect(key)},
		Free: map[string]int{"demo/" + servicetest.CRM: 9, "demo/" + servicetest.Payments: 9},
	})
	require.NoError(b.t, err)
	require.Len(b.t, leased, 1)
	return leased[0]
}

// write makes the one write of a leased effect, as a dispatcher does.
func (b *bench) write(e ledger.Leased) connector.Result {
	b.t.Helper()
	s, err := intent.Read(e.Canonical, e.IntentHash)
	require.NoError(b.t, err)
	action, _ := s.Tree.Pointer("/actions/0")
	conn := b.targets[e.TenantID+"/"+e.Connector].conn.(*connector.Connector)
	request, err := conn.Prepare(b.t.Context(), connector.Operation{Name: e.Operation, Action: action,
		OperationID:    e.OperationID(),
		IdempotencyKey: e.OperationID(), TenantID: e.TenantID})
	require.NoError(b.t, err)
	result := conn.Execute(b.t.Context(), request, func() error { return nil })
	require.Equal(b.t, outcome.Succeeded, result.Class, result.Detail)
	return result
}

// lost is an attempt whose answer was lost, after the provider wrote or before.
func (b *bench) lost(key string, wrote bool) {
	b.t.Helper()
	e := b.lease(key)
	if wrote {
		b.write(e)
	}
	b.report(e, ledger.Settlement{Move: "lose", MaybeSent: true}, outcome.Ambiguous)
}

// report is what a dispatcher says of its attempt.
func (b *bench) report(e ledger.Leased, s ledger.Settlement, class outcome.Class) bool {
	b.t.Helper()
	s.EffectKey, s.Attempt, s.Owner, s.RunKey, s.CorrelationID = e.EffectKey, e.Attempt, e.Owner, e.RunKey, e.CorrelationID
	s.Outcome = &ledger.AttemptOutcome{Attempt: e.Attempt, Owner: e.Owner, Class: string(class), Sent: true,
		ExternalID: s.ExternalID}
	moved, err := b.World.Dispatcher.Settle(b.t.Context(), "record_outcomes", []ledger.Settlement{s})
	require.NoError(b.t, err)
	return moved[0]
}

// lookups counts the lookups of the effect of a key with this verdict.
func (b *bench) lookups(key, verdict string) int {
	b.t.Helper()
	return b.Count(`select count(*) from lookups where run_id = $1 and verdict = $2`, servicetest.Effect(key).RunID,
		verdict)
}
