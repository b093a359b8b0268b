package dispatcher

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// bench is a dispatcher in its world, driven by hand: request hands it the events, poll has it look at what is due, and
// both return when every call has ended and is recorded.
type bench struct {
	*servicetest.World
	*Dispatcher

	t *testing.T
}

func setup(t *testing.T, options ...servicetest.Option) *bench {
	t.Helper()
	w := servicetest.New(t, options...)
	return &bench{World: w, Dispatcher: another(t, w), t: t}
}

// another is one more dispatcher in the same world, perhaps with another configuration.
func another(t *testing.T, w *servicetest.World, changes ...func(*config.Tenant)) *Dispatcher {
	t.Helper()
	env := w.Env(ledger.Dispatcher)
	if len(changes) > 0 {
		env.Config = w.Configuration(changes...)
	}
	d, err := New(t.Context(), env, Settings{Enabled: true})
	require.NoError(t, err)
	d.heard.hear(0) // this bus has heard of no mark
	t.Cleanup(func() {
		d.inFlight.Wait()
		d.confirm.Close()
		d.outcomes.Close()
	})
	return d
}

// with is the same bench with another dispatcher.
func (b *bench) with(changes ...func(*config.Tenant)) *bench {
	b.t.Helper()
	return &bench{World: b.World, Dispatcher: another(b.t, b.World, changes...), t: b.t}
}

// forCase is a dispatcher of its own for one case of a test whose cases share the world.
func (b *bench) forCase(t *testing.T) *bench {
	t.Helper()
	w := b.For(t)
	return &bench{World: w, Dispatcher: another(t, w), t: t}
}

// request delivers the events that ask for the effects of these keys, or of all, and requires that all are
// acknowledged.
func (b *bench) request(keys ...string) {
	b.t.Helper()
	b.take(keys...)
	b.inFlight.Wait()
}

// take is request without waiting for the calls.
func (b *bench) take(keys ...string) {
	b.t.Helper()
	items := slices.DeleteFunc(b.Items(contracts.SubjectEffectRequested), func(item bus.Item) bool {
		return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool {
			return bytes.Contains(item.Data, []byte(servicetest.Effect(key).OperationID()))
		})
	})
	for _, verdict := range b.handle(b.t.Context(), items) {
		require.Equal(b.t, bus.Ack, verdict)
	}
}

// due ends the backoff of one effect: other cases share the database.
func (b *bench) due(key string) {
	b.t.Helper()
	b.Exec(`update effects set next_check_at = clock_timestamp() where run_id = $1`, servicetest.Effect(key).RunID)
}

// again makes every effect due and polls.
func (b *bench) again() {
	b.t.Helper()
	b.DueNow()
	b.look()
}

// look polls for what is due.
func (b *bench) look() {
	b.t.Helper()
	b.pollNow()
	b.inFlight.Wait()
}

// pollNow is look without waiting for the calls.
func (b *bench) pollNow() {
	b.t.Helper()
	_, err := b.poll(b.t.Context())
	require.NoError(b.t, err)
}

// beforeLeave has something happen when an attempt asks leave to send: after all checks, before the first byte.
func (b *bench) beforeLeave(happens func(ledger.Fence)) {
	b.t.Helper()
	real := b.confirm
	real.Close()
	b.confirm = ledger.NewGroup(ledger.GroupConfig[ledger.Fence, ledger.Leave]{
		Run: func(ctx context.Context, fences []ledger.Fence) ([]ledger.Leave, error) {
			for _, f := range fences {
				happens(f)
			}
			return b.env.Ledger.Confirm(ctx, fences)
		},
	})
}

// maybeSent gives the effect of a key an attempt whose answer was lost, and has it wait to be sent again, as a same-key
// retry does.
func (b *bench) maybeSent(key string) {
	b.t.Helper()
	b.request(key)
	require.Equal(b.t, ledger.EffectUnknown, b.Look(key).State)
	b.repeat(key)
}

// alerts are the lines at level error that name the effect of a key.
func (b *bench) alerts(key string) []string {
	return slices.DeleteFunc(b.Logs.Errors(), func(line string) bool {
		return !strings.Contains(line, servicetest.Effect(key).OperationID())
	})
}

// repeat is what the reconciler does for a same-key retry.
func (b *bench) repeat(key string) {
	b.t.Helper()
	b.Settle(b.Reconciler, "record_lookups", ledger.Settlement{
		EffectKey: servicetest.Effect(key), Move: "retry_same_key", MaybeSent: true,
	})
}

// requireNothingSent requires that the sandbox knows nothing of the effect of a key.
func (b *bench) requireNothingSent(key string) {
	b.t.Helper()
	require.Empty(b.t, b.Writes(key))
	for _, attempt := range b.Attempts(key) {
		require.False(b.t, attempt.Sent, "attempt %d", attempt.Attempt)
	}
}
