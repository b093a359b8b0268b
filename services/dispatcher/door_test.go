package dispatcher

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// TestUnreadableEvents is B5: they are parked with their reason and block nobody.
func TestUnreadableEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Authorize(b.Contact("k"))
	good := b.Items(contracts.SubjectEffectRequested)[0]
	other := b.Items(contracts.SubjectIntentSubmitted)[0]
	event := func(kind, data string) bus.Item {
		return bus.Item{Subject: contracts.SubjectEffectRequested, NumDelivered: 3, Data: fmt.Appendf(nil,
			`{"specversion":"1.0","id":%q,"source":"/tenants/demo","type":%q,"subject":"x",`+
				`"time":"2026-01-01T00:00:00Z","data":%s}`,
			uuid.Must(uuid.NewV7()), kind, data)}
	}
	items := []bus.Item{
		{Subject: good.Subject, Data: []byte(`{`), NumDelivered: 1},
		{Subject: good.Subject, Data: []byte("\xff\x00"), NumDelivered: 1},
		{Subject: good.Subject, NumDelivered: 1},
		event("holdpoint.effect.requested.v9", `{}`),
		event("holdpoint.effect.imagined.v1", `{}`),
		event(contracts.TypeEffectRequested, `{"tenant_id":"demo"}`),
		other,
		good,
	}
	for i, verdict := range b.handle(t.Context(), items) {
		require.Equal(t, bus.Ack, verdict, "item %d", i)
	}
	b.inFlight.Wait()
	require.Len(t, b.Writes("k"), 1, "the good one is sent")
	require.Equal(t, 7, b.Count(`select count(*) from parked_messages where consumer = 'dispatcher' and state = 'parked'`))
	for _, reason := range []string{"malformed event", "unknown event type", "unknown version",
		"is not for the dispatcher"} {
		require.Positive(t, b.Count(`select count(*) from parked_messages where reason like 'unprocessable%'||$1||'%'`,
			reason), reason)
	}
	require.Positive(t, b.Count(`select count(*) from inbox where consumer = 2 and parked`))
	require.NotEmpty(t, b.Logs.Errors())
}

func TestRequestedAgain(t *testing.T) {
	t.Parallel()

	t.Run("ARepeatedEventSendsOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.forget()
		b.Authorize(b.Contact("k"))
		b.request()
		b.request()
		b.Exec(`delete from inbox`) // state guards the move, also without an inbox (B2)
		b.request()
		require.Len(t, b.Writes("k"), 1)
		require.Len(t, b.Attempts("k"), 1)
	})

	t.Run("AnEventOfAnUnknownEffectIsDone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		items := b.Items(contracts.SubjectEffectRequested)
		b.Exec(`delete from effects`)
		require.Equal(t, []bus.Verdict{bus.Ack}, b.handle(t.Context(), items))
	})

	t.Run("AnEffectThatNoEventToldOfIsSentAllTheSame", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.look()
		require.Len(t, b.Writes("k"), 1)
	})

	t.Run("WhilePostgresDoesNotLeaseEventsStayWithTheBroker", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Authorize(b.Contact("k"))
		b.Exec(`revoke insert on inbox from holdpoint_dispatcher`)
		items := append(b.Items(contracts.SubjectEffectRequested), bus.Item{Data: []byte(`{`)})
		b.Exec(`revoke insert on parked_messages from holdpoint_dispatcher`)
		require.Equal(t, []bus.Verdict{bus.Retry, bus.Retry}, b.handle(t.Context(), items))
		require.Zero(t, b.Count(`select count(*) from parked_messages`), "an outage parks nothing")
	})
}

// TestOverJetStream runs the service on a real broker.
func TestOverJetStream(t *testing.T) {
	t.Parallel()
	broker := bustest.New(t, ledgertest.Tenant)
	b := setup(t, servicetest.WithBus(broker.Conn))
	b.forget()
	stop := b.Start(b.Dispatcher)
	b.Authorize(b.Contact("k"), b.Contact("l"))
	publisher := broker.Conn.NewPublisher("test")
	for generation := range 3 {
		var messages []bus.Message
		for i, item := range b.Items(contracts.SubjectEffectRequested) {
			messages = append(messages, bus.Message{Subject: item.Subject, ID: fmt.Sprintf("%d:%d", i, generation),
				Data: item.Data})
		}
		messages = append(messages, bus.Message{Subject: contracts.SubjectEffectRequested,
			ID: fmt.Sprintf("bad:%d", generation), Data: []byte(`nonsense`)})
		for _, result := range publisher.PublishBatch(t.Context(), messages) {
			require.NoError(t, result.Err)
		}
	}
	b.Eventually(func() bool {
		return b.Count(`select count(*) from effects where state = 'completed'`) == 2 &&
			b.Count(`select count(*) from parked_messages`) >= 3
	}, "the effects are sent and the nonsense is parked")
	require.NoError(t, stop())
	require.Len(t, b.Writes("k"), 1)
	require.Len(t, b.Writes("l"), 1)
	require.Equal(t, ledger.RunCompleted, b.World.Run("k").State)
}
