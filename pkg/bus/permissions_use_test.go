package bus_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
		mine, err := g.acme.SubscribeSync(bus.InboxPrefix("acme") + ".here")
		require.NoError(t, err)
		theirs, err := g.other.SubscribeSync(bus.InboxPrefix("other") + ".>")
		require.NoError(t, err)
		require.NoError(t, g.other.Flush())
		publish := func(reply string) {
			msg := nats.NewMsg(bus.IngressSubject("acme", "crm"))
			msg.Header.Set(bus.HeaderReply, reply)
			require.NoError(t, g.acme.PublishMsg(msg))
		}
		stolen := []string{bus.InboxPrefix("other") + ".1", "_INBOX.1", "_INBOX_acme2.1", "_R_.1",
			bus.IngressSubject("other", "crm")}
		for _, reply := range stolen {
			publish(reply)
		}
		publish(mine.Subject)

		refused := make(chan error, 10)
		stop := consume(t, g.us, bus.ConsumeConfig{Service: "intake", Stream: bus.IngressStream("acme"),
			Durable: bus.IntakeConsumer, Handle: func(_ context.Context, items []bus.Item) []bus.Verdict {
				for _, item := range items {
					if len(item.Header) != 1 {
						refused <- fmt.Errorf("headers that the publisher did not send: %v", item.Header)
					}
					if err := g.us.Reply("acme", item.ReplySubject, []byte("accepted")); err != nil {
						refused <- err
					}
				}
				return ackAll(items)
			}})
		answer, err := mine.NextMsg(waitLimit)
		require.NoError(t, err)
		require.Equal(t, "accepted", string(answer.Data))
		stop() // all are handled
		require.Len(t, refused, len(stolen))
		require.ErrorContains(t, <-refused, "answered on its own inboxes alone, under _INBOX_acme")
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
						handled = append(handled, string(r.Data)+strings.Join(slices.Collect(maps.Keys(r.Header)), " "))
						return bus.Reply{Data: []byte("a lease")}
					}}}})
		}()
		claim := bus.APISubject("acme", "claim.crm")
		require.Eventually(t, func() bool {
			answer, err := g.acme.Request(claim, []byte("own"), waitLimit)
			return err == nil && string(answer.Data) == "a lease"
		}, waitLimit, pollEvery)
		require.NoError(t, g.acme.Publish(claim, []byte("unheard")))
		_, err := g.acme.Request(claim, []byte("own again"), waitLimit)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-ended)
		require.ElementsMatch(t, []string{"own", "own again"}, handled, "one that nobody waits for is not looked at")
		require.Empty(t, g.acmeRefusals)
	})

	for name, v2 := range map[string]bool{"ToReadItsStreams": false, "ToReadItsStreamsWithTheNewAcknowledgements": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, func(o *server.Options) {
				o.FeatureFlags = map[string]bool{server.FeatureFlagJsAckFormatV2: v2}
			})
			g.hearEvents(t)
			g.read(t, bus.EventsStream("acme"), bus.EventSubject("acme", "run", "completed"))
			g.read(t, bus.ExecStream("acme"), bus.ExecSubject("acme", "crm"))
			require.Empty(t, g.acmeRefusals)
		})
	}
}

// hearEvents hears an event as it happens.
func (g *guarded) hearEvents(t *testing.T) {
	t.Helper()
	live, err := g.acme.SubscribeSync("holdpoint.events.acme.run.*")
	require.NoError(t, err)
	require.NoError(t, g.acme.Flush())
	_, err = g.ours.Publish(t.Context(), bus.EventSubject("acme", "run", "failed"), []byte("{}"))
	require.NoError(t, err)
	msg, err := live.NextMsg(waitLimit)
	require.NoError(t, err)
	require.Equal(t, bus.EventSubject("acme", "run", "failed"), msg.Subject)
}

// read reads a stream of acme's in every way that there is.
func (g *guarded) read(t *testing.T, name, subject string) {
	t.Helper()
	const count = 3
	for i := range count {
		_, err := g.ours.Publish(t.Context(), subject, fmt.Append(nil, i))
		require.NoError(t, err)
	}
	js, err := jetstream.New(g.acme)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	require.GreaterOrEqual(t, stream.CachedInfo().State.Msgs, uint64(count))
	reader, err := stream.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "sync",
		FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
		Metadata: map[string]string{"for": "crm"}})
	require.NoError(t, err)
	require.Equal(t, time.Minute, reader.CachedInfo().Config.AckWait)
	require.Equal(t, "crm", reader.CachedInfo().Config.Metadata["for"])
	event, err := reader.Next(jetstream.FetchMaxWait(waitLimit))
	require.NoError(t, err)
	require.Equal(t, subject, event.Subject())
	require.NoError(t, event.DoubleAck(t.Context()))
	batch, err := reader.Fetch(count-1, jetstream.FetchMaxWait(waitLimit))
	require.NoError(t, err)
	for event := range batch.Messages() { // several answers to one request
		require.NoError(t, event.DoubleAck(t.Context()))
	}
	require.NoError(t, batch.Error())
	info, err := reader.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumPending+uint64(info.NumAckPending))

	ordered, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	require.NoError(t, err)
	event, err = ordered.Next(jetstream.FetchMaxWait(waitLimit))
	require.NoError(t, err)
	require.Equal(t, "0", string(event.Data()))
	var names []string
	for name := range stream.ConsumerNames(t.Context()).Name() {
		names = append(names, name)
	}
	require.Contains(t, names, "sync")
	require.NoError(t, stream.DeleteConsumer(t.Context(), "sync"))
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
