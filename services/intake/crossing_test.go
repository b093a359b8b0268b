package intake_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// TestNATSKeepsTenantsApart is B7 between the broker and us: our rights are wider than a tenant's, and so are the
// broker's own. Here tenants have their own credentials, and what they know of NATS.
func TestNATSKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start()
	as := func(tenant string) (*nats.Conn, jetstream.JetStream) {
		nc, err := nats.Connect(r.bus.TenantURL(tenant))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		return nc, js
	}
	demoNC, demoJS := as(demo)
	acmeNC, _ := as(acme)

	t.Run("AnAnswerGoesToThePublishersOwnInboxAlone", func(t *testing.T) {
		heard := make(chan *nats.Msg, 10)
		listen := func(nc *nats.Conn, subject string) {
			sub, err := nc.ChanSubscribe(subject, heard)
			require.NoError(t, err)
			require.NoError(t, nc.Flush())
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		own := bus.InboxPrefix(demo) + ".1"
		listen(demoNC, own)
		listen(acmeNC, bus.InboxPrefix(acme)+".>")
		listen(acmeNC, "_INBOX.>")
		listen(r.nc, "holdpoint.internal.test")
		listen(r.nc, "_INBOX.1")
		replies := []string{bus.InboxPrefix(acme) + ".1", "_INBOX.1", "holdpoint.internal.test", own}
		for _, reply := range replies {
			msg := nats.NewMsg(bus.IngressSubject(demo, "drafts"))
			msg.Header.Set("Idempotency-Key", "reply-"+reply)
			msg.Header.Set(bus.HeaderReply, reply)
			msg.Data = []byte(`{}`)
			_, err := demoJS.PublishMsg(t.Context(), msg)
			require.NoError(t, err)
		}
		// Later answers come later on one connection: when the last is here, none is on its way.
		r.awaitSettled(demo)
		require.Equal(t, own, (<-heard).Subject)
		for _, nc := range []*nats.Conn{r.nc, acmeNC} {
			require.NoError(t, nc.Flush())
		}
		require.Empty(t, heard)
		require.Equal(t, len(replies), r.count("select count(*) from runs where idempotency_key like 'reply-%'"))
		require.Equal(t, len(replies), r.count(`select count(*) from run_payloads
where headers ? 'holdpoint-reply' and not headers ? 'nats-request-info'`))
	})

	// Both doors answer where demo says, in demo's account.
	t.Run("NoAnswerBecomesAnothersEvent", func(t *testing.T) {
		theirs := bus.IngressSubject(acme, "pointer")
		require.NoError(t, demoNC.PublishRequest(bus.IngressSubject(demo, "drafts"), theirs, []byte(`{}`)))
		require.NoError(t, demoNC.PublishRequest(bus.APISubject(demo, "claim.pointer"), theirs, []byte(`{"id":"1"}`)))
		msg := &nats.Msg{Subject: bus.APISubject(demo, "claim.pointer"), Data: []byte(`{"id":"1"}`)}
		require.Eventually(t, func() bool {
			answer, err := demoNC.RequestMsg(msg, patience)
			return err == nil && decode(r.world, answer.Data, 0, answer.Header).result() == "duplicate"
		}, patience, pollEvery)
		stream, err := r.js.Stream(t.Context(), bus.IngressStream(acme))
		require.NoError(t, err)
		require.Zero(t, stream.CachedInfo().State.LastSeq)
		require.Zero(t, r.count("select count(*) from runs where tenant_id = 'acme'")+
			r.count("select count(*) from parked_messages where tenant_id = 'acme'"))
	})
}
