package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

const deployed = "../../deploy"

// TestServicesRunApart runs every service as a process of its own, with the settings that its manifest under deploy
// gives it, the logins of logins.sql and the broker of nats.conf: what the cluster runs, without the cluster.
func TestServicesRunApart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	migrate := run(t, []string{"HOLDPOINT_DATABASE_URL=" + c.database}, "migrate")
	require.Equal(t, 0, migrate.wait(t), migrate.err.String())

	var running []*program
	for _, s := range roster.Services {
		running = append(running, run(t, c.environment(t, s.Name), s.Name))
	}
	c.publish(t, "apart", demoEvent("c-1001"))
	operator := "HOLDPOINT_DATABASE_URL=" + c.login(t, "operator")
	require.Eventually(t, func() bool {
		explain := run(t, []string{operator}, "explain", "apart", "--tenant", "demo")
		return explain.wait(t) == 0 && strings.Contains(explain.out.String(), "completed, executed")
	}, patience, 100*time.Millisecond)

	for _, p := range running {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range running {
		require.Equal(t, 0, p.wait(t), "%v: %s", p.cmd.Args, p.err)
		require.Empty(t, loud(p.err.String()), "%v", p.cmd.Args)
	}
}

// cluster is what the manifests stand on.
type cluster struct {
	database, broker, sandbox string
	secrets                   map[string]map[string]string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{database: postgrestest.New(t).URL, secrets: map[string]map[string]string{}}
	for _, document := range documents(t, "local/secrets.yaml") {
		c.secrets[document.Metadata.Name] = document.StringData
	}
	config, err := pgx.ParseConfig(c.database)
	require.NoError(t, err)
	config.RuntimeParams["holdpoint.passwords"] = c.secrets["local-servers"]["postgres-logins"]
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	logins, err := os.ReadFile(filepath.Join(deployed, "postgres/logins.sql"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), string(logins))
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	c.broker = startNATS(t, c.secrets["local-servers"])

	ready := filepath.Join(t.TempDir(), "sandbox.json")
	run(t, nil, "sandbox", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--ready-file", ready)
	require.Eventually(t, func() bool {
		var at struct{ URL string }
		text, err := os.ReadFile(ready)
		if err == nil && json.Unmarshal(text, &at) == nil {
			c.sandbox = at.URL
		}
		return c.sandbox != ""
	}, patience, 10*time.Millisecond)
	return c
}

func startNATS(t *testing.T, passwords map[string]string) (hostPort string) {
	t.Helper()
	// Not t.Setenv, which would keep this test from running beside the others. Nobody else here reads these two.
	require.NoError(t, os.Setenv("NATS_HOLDPOINT_PASSWORD", passwords["nats-holdpoint"]))
	require.NoError(t, os.Setenv("NATS_DEMO_PASSWORD", passwords["nats-demo"]))
	options, err := server.ProcessConfigFile(filepath.Join(deployed, "nats/nats.conf"))
	require.NoError(t, err)
	options.StoreDir, options.Host, options.Port, options.HTTPPort = t.TempDir(), "127.0.0.1", server.RANDOM_PORT, 0
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s.Addr().String()
}

// login is the address of a service's own login. The test's Postgres asks for no password; deploy's tests do.
func (c *cluster) login(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(c.database)
	require.NoError(t, err)
	u.User = url.User("holdpoint_" + name + "_login")
	return u.String()
}

// environment is what a service's manifest gives it, with this machine's addresses in place of the cluster's.
func (c *cluster) environment(t *testing.T, name string) []string {
	t.Helper()
	here := map[string]string{
		"HOLDPOINT_DATABASE_URL": c.login(t, name),
		"HOLDPOINT_NATS_URL":     strings.Replace(c.secrets["holdpoint-nats"]["url"], "nats:4222", c.broker, 1),
		"HOLDPOINT_CONFIG_DIR":   filepath.Join(deployed, "config/example"),
		"HOLDPOINT_OPS_ADDR":     "127.0.0.1:0",
		"HOLDPOINT_INTAKE_ADDR":  "127.0.0.1:0",
		"AI_ACTIONS_ENABLED":     "true", // as the local overlay says
	}
	env := []string{"HOLDPOINT_SANDBOX_URL=" + c.sandbox}
	for _, document := range documents(t, "services/"+name+".yaml") {
		for _, container := range document.Spec.Template.Spec.Containers {
			for _, v := range container.Env {
				if replaced, ok := here[v.Name]; ok {
					v.Value = replaced
				}
				require.NotEmpty(t, v.Value, v.Name)
				env = append(env, v.Name+"="+v.Value)
			}
		}
	}
	require.Greater(t, len(env), 5, "the manifest of %s", name)
	return env
}

// publish sends an event as the tenant, as soon as the relay has made the streams.
func (c *cluster) publish(t *testing.T, key, event string) {
	t.Helper()
	conn, err := nats.Connect("nats://demo:" + c.secrets["local-servers"]["nats-demo"] + "@" + c.broker)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	message := nats.NewMsg("holdpoint.ingress.demo.crm-enrichment")
	message.Header.Set("Idempotency-Key", key)
	message.Data = []byte(event)
	require.Eventually(t, func() bool {
		_, err := js.PublishMsg(t.Context(), message)
		return err == nil
	}, patience, 50*time.Millisecond)
}

// document is the little of a manifest that this test reads; deploy's tests read all of it.
type document struct {
	Metadata   struct{ Name string }
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct{ Name, Value string }
				}
			}
		}
	}
}

func documents(t *testing.T, file string) []document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, "kubernetes", file))
	require.NoError(t, err)
	var all []document
	for _, part := range strings.Split(string(text), "\n---\n") {
		var d document
		require.NoError(t, yaml.Unmarshal([]byte(part), &d), file)
		all = append(all, d)
	}
	return all
}

// loud are the lines of a log that somebody should look at, but for the wait for the relay's streams at the first
// start.
func loud(log string) []string {
	var lines []string
	for _, line := range strings.Split(log, "\n") {
		warns := strings.Contains(line, `"level":"WARN"`) && !strings.Contains(line, "does not exist")
		if warns || strings.Contains(line, `"level":"ERROR"`) {
			lines = append(lines, line)
		}
	}
	return lines
}
