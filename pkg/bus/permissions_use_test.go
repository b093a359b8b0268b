package bus_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
)

// TestTenantRightsSuffice does all that an integrator does, with a tenant's rights and no others.
func TestTenantRightsSuffice(t *testing.T) {
	t.Parallel()

	t.Run("ToPublishAndHearTheBrokersAcknowledgement", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		js, err := jetstream.New(g.acme)
		require.NoError(t, err)
		ack, err := js.Publish(t.Context(), bus.IngressSubject("acme", "crm"), []byte("{}"), jetstream.WithMsgID("1"))
		require.NoError(t, err)
		require.Equal(t, bus.IngressStream("acme"), ack.Stream)
		require.Empty(t, g.acmeRefusals)
	})

	// K14: a publisher names its own inbox for the answer. Naming another's gets nobody an answer.
	t.Run("ToBeAnsweredWhereThePublisherAsks", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		mine, err := g.acme.SubscribeSync(g.acme.NewInbox())
		require.NoError(t, err)
		theirs, err := g.other.SubscribeSync(bus.InboxPrefix("other") + ".>")
		require.NoError(t, err)
		require.NoError(t, g.other.Flush())
		publish := func(reply string) {
			msg := nats.NewMsg(bus.IngressSubject("acme", "crm"))
			msg.Header.Set(bus.HeaderReply, reply)
			require.NoError(t, g.acme.PublishMsg(msg))
		}
		stolen := bus.InboxPrefix("other") + ".1"
		publish(stolen)
		publish(mine.Subject)

		refused := make(chan error, 10)
		stop := consume(t, g.us, bus.ConsumeConfig{Service: "intake", Stream: bus.IngressStream("acme"),
			Durable: bus.IntakeConsumer, Handle: func(_ context.Context, items []bus.Item) []bus.Verdict {
				for _, item := range items {
					if err := g.us.Reply("acme", item.ReplySubject, []byte("accepted")); err != nil {
						refused <- err
					}
				}
				return ackAll(items)
			}})
		answer, err := mine.NextMsg(waitLimit)
		require.NoError(t, err)
		require.Equal(t, "accepted", string(answer.Data))
		stop() // both are handled
		require.Len(t, refused, 1)
		require.ErrorContains(t, <-refused, stolen)
		require.NoError(t, g.other.Flush())
		pending, _, err := theirs.Pending()
		require.NoError(t, err)
		require.Zero(t, pending)
		require.Empty(t, g.acmeRefusals)
	})

	t.Run("ToCallTheRequestReplyInterface", func(t *testing.T) {
		t.Parallel()
		g := guard(t)
		var mu sync.Mutex
		var handled []string
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- bus.Serve(ctx, g.us, bus.ServeConfig{Name: "holdpoint-acme", Version: "1.0.0", Tenant: "acme",
				Endpoints: []bus.Endpoint{{Name: "claim", Subject: bus.APISubject("acme", "claim.*"),
					Handle: func(_ context.Context, r bus.Request) bus.Reply {
						mu.Lock()
						defer mu.Unlock()
						handled = append(handled, string(r.Data))
						return bus.Reply{Data: []byte("a lease")}
					}}}})
		}()
		claim := bus.APISubject("acme", "claim.crm")
		require.Eventually(t, func() bool {
			answer, err := g.acme.Request(claim, []byte("own"), waitLimit)
			return err == nil && string(answer.Data) == "a lease"
		}, waitLimit, pollEvery)
		require.NoError(t, g.acme.PublishRequest(claim, bus.InboxPrefix("other")+".1", []byte("stolen")))
		_, err := g.acme.Request(claim, []byte("own again"), waitLimit)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-ended)
		require.ElementsMatch(t, []string{"own", "own again"}, handled, "one that names another's inbox is not looked at")
		require.Empty(t, g.acmeRefusals)
	})

	for name, v2 := range map[string]bool{"ToReadItsEvents": false, "ToReadItsEventsWithTheNewAcknowledgements": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, func(o *server.Options) {
				o.FeatureFlags = map[string]bool{server.FeatureFlagJsAckFormatV2: v2}
			})
			readEvents(t, g)
		})
	}
}

// readEvents reads acme's events in every way that there is.
func readEvents(t *testing.T, g *guarded) {
	t.Helper()
	live, err := g.acme.SubscribeSync("holdpoint.events.acme.run.*")
	require.NoError(t, err)
	require.NoError(t, g.acme.Flush())
	subject := bus.EventSubject("acme", "run", "completed")
	for range 2 {
		_, err := g.ours.Publish(t.Context(), subject, []byte("{}"))
		require.NoError(t, err)
	}
	msg, err := live.NextMsg(waitLimit)
	require.NoError(t, err)
	require.Equal(t, subject, msg.Subject)

	js, err := jetstream.New(g.acme)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), bus.EventsStream("acme"))
	require.NoError(t, err)
	require.EqualValues(t, 2, stream.CachedInfo().State.Msgs)
	reader, err := stream.CreateOrUpdateConsumer(t.Context(),
		jetstream.ConsumerConfig{Durable: "crm-sync", FilterSubject: subject})
	require.NoError(t, err)
	for range 2 {
		event, err := reader.Next(jetstream.FetchMaxWait(waitLimit))
		require.NoError(t, err)
		require.NoError(t, event.DoubleAck(t.Context()))
	}
	info, err := reader.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumPending+uint64(info.NumAckPending))

	ordered, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	event, err := ordered.Next(jetstream.FetchMaxWait(waitLimit))
	require.NoError(t, err)
	require.Equal(t, subject, event.Subject())
	names := stream.ConsumerNames(t.Context())
	require.Contains(t, []string{<-names.Name(), <-names.Name()}, "crm-sync")
	require.NoError(t, stream.DeleteConsumer(t.Context(), "crm-sync"))
	require.Empty(t, g.acmeRefusals)
}

func TestAuthorizationIsRefused(t *testing.T) {
	t.Parallel()
	text, err := bus.Authorization([]string{"acme", `x" } { user: "evil`, "holdpoint", "acme", "UPPER", ""})
	require.Empty(t, text)
	for _, complaint := range []string{`tenant "x\" } { user: \"evil" is not`, `"holdpoint" has the name of`, `"acme" is there twice`,
		`tenant "UPPER" is not`, `tenant "" is not`} {
		require.ErrorContains(t, err, complaint)
	}
	require.Equal(t, "NATS_A_1_PASSWORD", bus.PasswordVariable("a-1"))
}
