package deploy_test

import (
	"cmp"
	"log/slog"
	"path"
	"slices"
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

// userOf finds a user; nats-server reads accounts in any order.
func userOf(t *testing.T, options *server.Options, name string) *server.User {
	t.Helper()
	at := slices.IndexFunc(options.Users, func(u *server.User) bool { return u.Username == name })
	require.GreaterOrEqual(t, at, 0, name)
	return options.Users[at]
}

// serveNATS runs a server with these options, but for its directory and its ports.
func serveNATS(t *testing.T, options *server.Options) *server.Server {
	t.Helper()
	running := options.Clone()
	running.StoreDir, running.Port, running.HTTPPort = path.Join(t.TempDir(), "jetstream"), server.RANDOM_PORT, 0
	running.NoSigs, running.NoLog = true, true
	s, err := server.NewServer(running)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s
}

func TestNATS(t *testing.T) {
	m := readManifests(t)
	options := readNATS(t, m)
	nats := m.workloads["nats"]

	t.Run("IsReachedWhereTheManifestSays", func(t *testing.T) {
		require.Equal(t, options.Port, nats.container().port("client"))
		require.Equal(t, options.HTTPPort, nats.container().port("monitor"))
		require.Equal(t, []string{"--config", "/etc/nats/nats.conf"}, nats.container().Args)
		url := "nats://holdpoint:" + userOf(t, options, bus.ServicesUser).Password + "@nats:4222"
		require.Equal(t, url, m.secrets["holdpoint-nats"].StringData["url"])
	})

	t.Run("IsNewEnough", func(t *testing.T) {
		version, ok := strings.CutPrefix(nats.container().Image, "nats:2.")
		require.True(t, ok)
		require.GreaterOrEqual(t, version, "15.3", "older servers let a client have itself answered on their own subjects")
	})

	// What they may do there is what the embedded broker reads too, printed by `holdpoint nats-config` (B7).
	t.Run("LetsInWhoIsLetInUnderUpEachIntoItsOwnAccount", func(t *testing.T) {
		wanted := roster.BrokerUsers("local-nats", "demo", "demo")
		require.Len(t, options.Users, len(wanted))
		for _, want := range wanted {
			have := userOf(t, options, want.Name)
			require.Equal(t, want.Password, have.Password)
			require.Equal(t, cmp.Or(want.Tenant, bus.ServicesAccount), have.Account.Name)
			require.Equal(t, want.Tenant == "", have.Permissions == nil)
		}
	})

	t.Run("KeepsTenantsInAccountsWithoutJetStreamOfTheirOwn", func(t *testing.T) {
		s := serveNATS(t, options)
		services, err := s.LookupAccount(bus.ServicesAccount)
		require.NoError(t, err)
		require.True(t, services.JetStreamEnabled())
		tenant, err := s.LookupAccount("demo")
		require.NoError(t, err)
		require.False(t, tenant.JetStreamEnabled())
		require.NotNil(t, s.SystemAccount())
		require.NotContains(t, []string{bus.ServicesAccount, "demo"}, s.SystemAccount().Name)
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
		s := serveNATS(t, options)
		conn, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: "nats://holdpoint:local-nats@" + s.Addr().String(),
			Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		require.NoError(t, bus.Provision(t.Context(), conn, bus.NewTopology(tenants)))
	})
}
