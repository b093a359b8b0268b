package deploy_test

import (
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// readNATS reads nats.conf as nats-server does, in the environment that the local manifest gives it.
func readNATS(t *testing.T, m *manifests) *server.Options {
	t.Helper()
	m.load(t, m.workloads["nats"])
	options, err := server.ProcessConfigFile("nats/nats.conf")
	require.NoError(t, err)
	return options
}

func TestNATS(t *testing.T) {
	m := readManifests(t)
	options := readNATS(t, m)
	nats := m.workloads["nats"]

	t.Run("IsReachedWhereTheManifestSays", func(t *testing.T) {
		require.Equal(t, options.Port, nats.container().port("client"))
		require.Equal(t, options.HTTPPort, nats.container().port("monitor"))
		require.Equal(t, []string{"--config", "/etc/nats/nats.conf"}, nats.container().Args)
		url := "nats://holdpoint:" + options.Users[0].Password + "@nats:4222"
		require.Equal(t, url, m.secrets["holdpoint-nats"].StringData["url"])
	})

	t.Run("IsNewEnough", func(t *testing.T) {
		version, ok := strings.CutPrefix(nats.container().Image, "nats:2.")
		require.True(t, ok)
		require.GreaterOrEqual(t, version, "14", "older servers skip messages after a stream has lost its tail")
	})

	// One list in two places: what a tenant may do here is what it may do under `holdpoint up` (B7).
	t.Run("LetsEachUserDoWhatItMayUnderUp", func(t *testing.T) {
		wanted := roster.BrokerUsers("local-nats", "demo", "demo")
		require.Len(t, options.Users, len(wanted))
		for i, want := range wanted {
			have := options.Users[i]
			require.Equal(t, want.Name, have.Username)
			require.Equal(t, want.Password, have.Password)
			if want.Publish == nil {
				require.Nil(t, have.Permissions)
				continue
			}
			require.ElementsMatch(t, want.Publish, have.Permissions.Publish.Allow)
			require.ElementsMatch(t, want.Subscribe, have.Permissions.Subscribe.Allow)
		}
	})

	t.Run("KeepsItsStreamsOnAVolumeThatHoldsThem", func(t *testing.T) {
		require.Equal(t, 2*time.Second, options.SyncInterval)
		mount := nats.container().VolumeMounts[0]
		require.True(t, options.StoreDir == mount.MountPath || strings.HasPrefix(options.StoreDir, mount.MountPath+"/"))
		volume := nats.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"]
		require.Greater(t, bytesOf(t, volume), options.JetStreamMaxStore)
	})

	t.Run("HasRoomForTheStreamsOfADozenTenants", func(t *testing.T) {
		tenants := []string{"demo"}
		for tenant := 'b'; len(tenants) < 12; tenant++ {
			tenants = append(tenants, "tenant-"+string(tenant))
		}
		running := *options
		running.StoreDir, running.Port, running.HTTPPort = path.Join(t.TempDir(), "jetstream"), server.RANDOM_PORT, 0
		running.NoSigs, running.NoLog = true, true
		s, err := server.NewServer(&running)
		require.NoError(t, err)
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		require.True(t, s.ReadyForConnections(10*time.Second))
		conn, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: "nats://holdpoint:local-nats@" + s.Addr().String(),
			Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		require.NoError(t, bus.Provision(t.Context(), conn, bus.NewTopology(tenants)))
	})
}
