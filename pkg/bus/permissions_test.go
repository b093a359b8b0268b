package bus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// guarded is a broker with the generated rules for the tenants acme and other, and connections of all three users.
type guarded struct {
	us           *bus.Conn
	ours         jetstream.JetStream // an operator's, with all rights
	acme, other  *nats.Conn
	acmeRefusals chan error
	server       *server.Server
	stopWatching func() // no readers are made after it
}

// guard starts nats-server from the text that Authorization prints, as an operator would.
func guard(t *testing.T, change ...func(*server.Options)) *guarded {
	t.Helper()
	text, err := bus.Authorization([]string{"acme", "other"})
	require.NoError(t, err)
	for _, user := range []string{bus.ServicesUser, "acme", "other"} {
		text = strings.ReplaceAll(text, "$"+bus.PasswordVariable(user), "pw-"+user)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	options, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	options.Host, options.Port, options.JetStream, options.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir()
	options.NoSigs, options.NoLog = true, true
	for _, c := range change {
		c(options)
	}
	s, err := server.NewServer(options)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(waitLimit))

	url := func(user string) string { return "nats://" + user + ":pw-" + user + "@" + s.Addr().String() }
	g := &guarded{us: bustest.Connect(t, url(bus.ServicesUser)), acmeRefusals: make(chan error, 16), server: s}
	g.provision(t, bus.NewTopology([]string{"acme", "other"}))
	connect := func(user string, options ...nats.Option) *nats.Conn {
		nc, err := nats.Connect(url(user), options...)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	g.ours, err = jetstream.New(connect(bus.ServicesUser))
	require.NoError(t, err)
	// No custom inboxes: what a client does by itself is enough.
	refusal := func(_ *nats.Conn, _ *nats.Subscription, err error) { g.acmeRefusals <- err }
	g.acme = connect("acme", nats.ErrorHandler(refusal))
	g.other = connect("other")
	// Readers are made as soon as somebody takes the requests.
	require.Eventually(t, func() bool {
		_, err := g.acme.Request("$JS.API.CONSUMER.CREATE."+bus.ExecStream("acme"), nil, waitLimit)
		return err == nil
	}, waitLimit, pollEvery)
	return g
}

// provision makes the streams and watches them, as the relay does, until the test ends.
func (g *guarded) provision(t *testing.T, topology bus.Topology) {
	t.Helper()
	for i := range topology.Streams {
		topology.Streams[i].MaxBytes = 1 << 20
	}
	require.NoError(t, bus.Provision(t.Context(), g.us, topology))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bus.Watch(ctx, g.us, topology, time.Hour) }()
	g.stopWatching = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(g.stopWatching)
}

// seed puts a first event into a stream and hands it to a reader, without acknowledging it.
func (g *guarded) seed(t *testing.T, stream, subject string) jetstream.Consumer {
	t.Helper()
	_, err := g.ours.Publish(t.Context(), subject, []byte(`{"id":"1"}`))
	require.NoError(t, err)
	reader, err := g.ours.CreateOrUpdateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "reader"})
	require.NoError(t, err)
	msg, err := reader.Next(jetstream.FetchMaxWait(waitLimit))
	require.NoError(t, err)
	require.NotEmpty(t, msg.Reply())
	return reader
}

// refused fails unless the broker says that acme may not do what it just did.
func (g *guarded) refused(t *testing.T, subject string) {
	t.Helper()
	require.NoError(t, g.acme.Flush())
	select {
	case err := <-g.acmeRefusals:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.Contains(t, err.Error(), `"`+subject+`"`)
	case <-time.After(waitLimit):
		t.Fatalf("nobody refused %s", subject)
	}
}

// TestTenantRights is B7 on the broker: what a tenant tries on another's subjects, on ours, and on the broker's.
func TestTenantRights(t *testing.T) {
	t.Parallel()
	g := guard(t)
	reader := g.seed(t, bus.EventsStream("other"), bus.EventSubject("other", "run", "completed"))

	t.Run("NothingCanBePublishedThatIsNotItsOwn", func(t *testing.T) {
		for _, subject := range foreign {
			require.NoError(t, g.acme.PublishRequest(subject, "_INBOX.1", nil), subject)
			g.refused(t, subject)
		}
	})

	t.Run("NothingCanBeHeardThatIsNotItsOwn", func(t *testing.T) {
		for _, subject := range overheard {
			sub, err := g.acme.SubscribeSync(subject)
			require.NoError(t, err, subject)
			g.refused(t, subject)
			_ = sub.Unsubscribe()
		}
		sub, err := g.acme.QueueSubscribeSync("holdpoint.api.other.>", "holdpoint-other")
		require.NoError(t, err)
		g.refused(t, "holdpoint.api.other.>")
		_ = sub.Unsubscribe()
	})

	// An answer may not be directed at the broker's own subjects either.
	t.Run("NoAnswerIssuesACommandOfTheBroker", func(t *testing.T) {
		for _, reply := range []string{
			"$JS.API.STREAM.PURGE." + bus.EventsStream("other"), "$JS.ACK." + bus.EventsStream("other") + ".reader.1.1.1.1.0",
			"_R_.made.up",
		} {
			require.NoError(t, g.acme.PublishRequest(bus.IngressSubject("acme", "crm"), reply, []byte("{}")))
			g.refused(t, reply)
		}
	})

	t.Run("TheOthersThingsAreAsTheyWere", func(t *testing.T) {
		info, err := reader.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, info.NumAckPending, "an acknowledgement was forged")
		stream, err := g.ours.Stream(t.Context(), bus.EventsStream("other"))
		require.NoError(t, err)
		require.EqualValues(t, 1, stream.CachedInfo().State.Msgs)
		require.Empty(t, g.acmeRefusals)
	})

	// The same things that acme tried, by who may: so the table above names what exists.
	t.Run("TheOwnerMay", func(t *testing.T) {
		events := bus.EventsStream("other")
		for _, subject := range []string{
			"$JS.API.STREAM.INFO." + events, "$JS.API.CONSUMER.INFO." + events + ".reader", "$JS.API.CONSUMER.NAMES." + events,
			"$JS.API.CONSUMER.LIST." + events, bus.IngressSubject("other", "crm"),
		} {
			answer, err := g.other.Request(subject, nil, waitLimit)
			require.NoError(t, err, subject)
			require.NotContains(t, string(answer.Data), `"error"`, subject)
		}
		require.NoError(t, g.other.Publish(fmt.Sprintf("$JS.ACK.%s.reader.1.1.1.1.0", events), []byte("+ACK")))
		require.NoError(t, g.other.Flush())
		require.Eventually(t, func() bool {
			info, err := reader.Info(t.Context())
			return err == nil && info.NumAckPending == 0
		}, waitLimit, pollEvery)
	})
}
