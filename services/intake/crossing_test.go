package intake_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// TestNATSKeepsTenantsApart is B7 where the broker cannot keep it: our rights are wider than a tenant's, and so are the
// broker's own.
func TestNATSKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()

	t.Run("AnAnswerGoesToThePublishersOwnInboxAlone", func(t *testing.T) {
		heard := make(chan string, 10)
		for _, inbox := range []string{bus.InboxPrefix(demo) + ".>", bus.InboxPrefix(acme) + ".>", "holdpoint.internal.test"} {
			sub, err := r.nc.Subscribe(inbox, func(m *nats.Msg) { heard <- m.Subject })
			require.NoError(t, err)
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		replies := []string{bus.InboxPrefix(acme) + ".1", "holdpoint.internal.test", bus.InboxPrefix(demo) + ".1"}
		for _, reply := range replies {
			msg := nats.NewMsg(bus.IngressSubject(demo, "drafts"))
			msg.Header.Set("Idempotency-Key", "reply-"+reply)
			msg.Header.Set(bus.HeaderReply, reply)
			msg.Data = []byte(`{}`)
			_, err := r.js.PublishMsg(t.Context(), msg)
			require.NoError(t, err)
		}
		// Later answers come later on one connection: when the last is here, none is on its way.
		r.awaitSettled(demo)
		require.Eventually(t, func() bool { return len(heard) > 0 }, patience, pollEvery)
		require.NoError(t, r.nc.Flush())
		require.Equal(t, bus.InboxPrefix(demo)+".1", <-heard)
		require.Empty(t, heard)
		require.Equal(t, len(replies), r.count("select count(*) from runs where idempotency_key like 'reply-%'"))
	})

	// The broker acknowledges what demo publishes on acme's ingress, where demo says it waits.
	t.Run("WhatTheBrokerWasMadeToCarryHereIsNoEvent", func(t *testing.T) {
		require.NoError(t, r.nc.PublishRequest(bus.IngressSubject(demo, "drafts"), bus.IngressSubject(acme, "pointer"), []byte("{}")))
		require.Eventually(t, func() bool {
			return r.count("select count(*) from parked_messages where tenant_id = 'acme' and reason like 'forbidden: %'") == 1
		}, patience, pollEvery)
		require.Zero(t, r.count("select count(*) from runs where tenant_id = 'acme'"))
	})
}
