package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// TestAstray has the broker carry acme's messages to where acme may not publish: the broker looks at the publisher's
// rights alone. Other's reader must tell them from its own (B7).
func TestAstray(t *testing.T) {
	t.Parallel()

	type testBundle struct {
		*guarded
		target string // other's ingress
		events jetstream.Stream
		// next is the next message of other's ingress, and whether it is astray.
		next func() (bus.Item, bool)
	}
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		t.Parallel()
		b := &testBundle{guarded: guard(t), target: bus.IngressSubject("other", "crm")}
		_, err := b.ours.Publish(t.Context(), bus.EventSubject("acme", "run", "completed"), []byte(`{"id":"e-1"}`))
		require.NoError(t, err)
		js, err := jetstream.New(b.acme)
		require.NoError(t, err)
		b.events, err = js.Stream(t.Context(), bus.EventsStream("acme"))
		require.NoError(t, err)
		items := make(chan bus.Item, 10)
		consume(t, b.us, bus.ConsumeConfig{Service: "intake", Stream: bus.IngressStream("other"), Durable: bus.IntakeConsumer,
			Handle: func(_ context.Context, got []bus.Item) []bus.Verdict {
				for _, item := range got {
					items <- item
				}
				return ackAll(got)
			}})
		b.next = func() (bus.Item, bool) {
			select {
			case item := <-items:
				return item, item.Astray(bus.IngressSubject("other", ""))
			case <-time.After(waitLimit):
				require.Fail(t, "nothing reached the other tenant's reader")
				return bus.Item{}, false
			}
		}
		return b
	}

	t.Run("AnAcknowledgementIs", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.acme.PublishRequest(bus.IngressSubject("acme", "crm"), b.target, []byte("{}")))
		item, astray := b.next()
		require.Equal(t, b.target, item.Subject)
		require.True(t, astray, string(item.Data))
	})

	t.Run("AnAnswerOfTheManagementInterfaceIs", func(t *testing.T) {
		b := setup(t)
		_, err := b.events.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "r",
			Description: "what acme wants", Metadata: map[string]string{"id": "e-2"}})
		require.NoError(t, err)
		require.NoError(t, b.acme.PublishRequest("$JS.API.CONSUMER.INFO."+bus.EventsStream("acme")+".r", b.target, nil))
		item, astray := b.next()
		require.Equal(t, b.target, item.Subject)
		require.Contains(t, string(item.Data), "what acme wants")
		require.True(t, astray, string(item.Data))
	})

	t.Run("AnEventThatWasAskedForIs", func(t *testing.T) {
		b := setup(t)
		_, err := b.events.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "r"})
		require.NoError(t, err)
		require.NoError(t, b.acme.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+bus.EventsStream("acme")+".r", b.target, []byte("1")))
		item, astray := b.next()
		require.JSONEq(t, `{"id":"e-1"}`, string(item.Data))
		require.True(t, astray, item.Subject)
	})

	t.Run("WhatItsOwnerPublishesIsNot", func(t *testing.T) {
		b := setup(t)
		for _, body := range []string{
			"", "{}", "HOLDPOINT_", `{"stream":"HOLDPOINT_`, `{"stream":"orders","seq":1}`, `{"stream":"HOLDPOINT_EVENTS_OTHER"}`,
			`{"type":"order.paid","note":"io.nats.jetstream.api."}`,
		} {
			require.NoError(t, b.other.Publish(b.target, []byte(body)))
			item, astray := b.next()
			require.Equal(t, body, string(item.Data))
			require.False(t, astray, body)
		}
	})
}
