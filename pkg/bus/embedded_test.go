package bus_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, cfg bus.EmbeddedConfig) *bus.EmbeddedServer {
		t.Helper()
		t.Parallel()
		if cfg.Dir == "" {
			cfg.Dir = t.TempDir()
		}
		server, err := bus.Embedded(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(server.Close)
		return server
	}
	without := func(t *testing.T, server *bus.EmbeddedServer) string {
		t.Helper()
		nc, err := nats.Connect(server.URL())
		require.NoError(t, err)
		defer nc.Close()
		return "nats://" + nc.ConnectedAddr()
	}

	t.Run("PasswordIsNeeded", func(t *testing.T) {
		server := setup(t, bus.EmbeddedConfig{Users: []bus.User{{Name: "us", Password: "secret"}}})
		_, err := nats.Connect(without(t, server))
		require.ErrorIs(t, err, nats.ErrAuthorization)
	})

	t.Run("TokenIsNeeded", func(t *testing.T) {
		server := setup(t, bus.EmbeddedConfig{Token: "secret"})
		_, err := nats.Connect(without(t, server))
		require.ErrorIs(t, err, nats.ErrAuthorization)
	})

	t.Run("TenantReachesItsOwnSubjectsAlone", func(t *testing.T) {
		server := setup(t, bus.EmbeddedConfig{Users: []bus.User{
			{Name: "us", Password: "secret"}, {Name: "acme", Password: "a", Tenant: "acme"},
		}})
		topology := bus.NewTopology([]string{"acme", "other"})
		require.NoError(t, bus.Provision(t.Context(), bustest.Connect(t, server.URL()), topology))
		acme, err := bus.Connect(t.Context(), bus.ConnectConfig{
			URL: "nats://acme:a@" + without(t, server)[len("nats://"):], PublishTimeout: 300 * time.Millisecond,
		})
		require.NoError(t, err)
		defer acme.Close()
		results := acme.NewPublisher("test").PublishBatch(t.Context(), []bus.Message{
			{Subject: bus.IngressSubject("acme", "crm")},
			{Subject: bus.IngressSubject("other", "crm")},
			{Subject: "$JS.API.STREAM.DELETE." + bus.InternalStream},
		})
		require.NoError(t, results[0].Err)
		require.ErrorIs(t, results[1].Err, context.DeadlineExceeded)
		require.ErrorIs(t, results[2].Err, context.DeadlineExceeded)
	})

	t.Run("StreamsSurviveARestart", func(t *testing.T) {
		dir := t.TempDir()
		first := setup(t, bus.EmbeddedConfig{Dir: dir})
		conn := bustest.Connect(t, first.URL())
		require.NoError(t, bus.Provision(t.Context(), conn, bus.NewTopology([]string{"acme"})))
		publish(t, conn, bus.Message{Subject: bus.IngressSubject("acme", "crm")})
		before, err := conn.StreamInfo(t.Context(), bus.IngressStream("acme"))
		require.NoError(t, err)
		require.EqualValues(t, 1, before.LastSeq)
		first.Close()

		second, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: dir})
		require.NoError(t, err)
		defer second.Close()
		after, err := bustest.Connect(t, second.URL()).StreamInfo(t.Context(), bus.IngressStream("acme"))
		require.NoError(t, err)
		require.Equal(t, before, after)
	})

	t.Run("TakenPortIsTold", func(t *testing.T) {
		t.Parallel()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		_, err = bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: t.TempDir(), Port: taken.Addr().(*net.TCPAddr).Port})
		require.ErrorContains(t, err, "address already in use")
	})

	t.Run("UnusableDirectoryIsTold", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Dir: file})
		require.ErrorContains(t, err, file)
	})

	t.Run("IncompleteConfigurationIsRefusedWithAllComplaints", func(t *testing.T) {
		t.Parallel()
		_, err := bus.Embedded(t.Context(), bus.EmbeddedConfig{Port: -1, Token: "t", Users: []bus.User{{Name: "a"}}})
		for _, complaint := range []string{"Dir is empty", "port -1", "exclude each other", `user "a" needs`} {
			require.ErrorContains(t, err, complaint)
		}
	})
}
