package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
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

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/demoidp"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

const deployed = "../../deploy"

// TestServicesRunApart runs every service as a process of its own, with the settings that its manifest under deploy
// gives it, the logins of logins.sql, the broker of nats.conf and the demo sign-in beside approval: what the cluster
// runs, without the cluster.
func TestServicesRunApart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	migrate := run(t, []string{"HOLDPOINT_DATABASE_URL=" + c.database}, "migrate")
	require.Equal(t, 0, migrate.wait(t), migrate.err.String())

	running := []*program{run(t, nil, c.demoSignIn(t)...)}
	for _, s := range roster.Services {
		running = append(running, run(t, c.environment(t, s.Name), s.Name))
	}
	c.publish(t, "crm-enrichment", "apart", demoEvent("c-1001"))
	c.awaitExecuted(t, "apart")
	c.publish(t, "support-refunds", "asks", largeRefund())
	c.approve(t, "asks")
	c.awaitExecuted(t, "asks")

	for _, p := range running {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range running {
		require.Equal(t, 0, p.wait(t), "%v: %s", p.cmd.Args, p.err)
		require.Empty(t, loud(p.err.String()), "%v", p.cmd.Args)
	}
}

func TestDemoSignInIsRefusedWhereItWouldBeExposedOrUseless(t *testing.T) {
	t.Parallel()
	for complaint, args := range map[string][]string{
		"loopback":              {"--addr", "0.0.0.0:0", "--redirect", "http://127.0.0.1:7075/callback"},
		"--redirect is missing": {"--addr", "127.0.0.1:0"},
	} {
		p := run(t, nil, append([]string{"demo-sign-in"}, args...)...)
		require.Equal(t, 1, p.wait(t), complaint)
		require.Contains(t, p.err.String(), complaint)
	}
}

// cluster is what the manifests stand on.
type cluster struct {
	database, broker string
	sandbox          sandboxReady
	pages, provider  string // host:port of approval's pages and of the demo sign-in
	secrets          map[string]map[string]string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{database: postgrestest.New(t).URL, secrets: map[string]map[string]string{}}
	c.pages, c.provider = freeAddress(t), freeAddress(t)
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
		text, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(text, &c.sandbox) == nil
	}, patience, 10*time.Millisecond)
	return c
}

// freeAddress is one that nobody listens on. Links and the sign-in's redirect name it before anybody does.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
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
		"HOLDPOINT_DATABASE_URL":                   c.login(t, name),
		"HOLDPOINT_APPROVAL_OPERATOR_DATABASE_URL": c.login(t, "operator"),
		"HOLDPOINT_NATS_URL":                       strings.Replace(c.secrets["holdpoint-nats"]["url"], "nats:4222", c.broker, 1),
		"HOLDPOINT_CONFIG_DIR":                     filepath.Join(deployed, "config/example"),
		"HOLDPOINT_OPS_ADDR":                       "127.0.0.1:0",
		"HOLDPOINT_INTAKE_ADDR":                    "127.0.0.1:0",
		"HOLDPOINT_APPROVAL_ADDR":                  c.pages,
		"HOLDPOINT_RECONCILER_ADDR":                "127.0.0.1:0",
		"HOLDPOINT_APPROVAL_CLIENT_SECRET":         c.secrets["holdpoint-sign-in"]["client-secret"],
		"AI_ACTIONS_ENABLED":                       "true", // as the local overlay says
	}
	env := []string{"HOLDPOINT_SANDBOX_URL=" + c.sandbox.URL, "HOLDPOINT_SANDBOX_SMTP=" + c.sandbox.SMTP}
	declared := containers(t, "services/"+name+".yaml")
	if name == ledger.Approval {
		declared = append(declared, containers(t, signInPatch)...)
	}
	for _, container := range declared {
		for _, v := range container.Env {
			if replaced, ok := here[v.Name]; ok {
				v.Value = replaced
			}
			require.NotEmpty(t, v.Value, v.Name)
			env = append(env, v.Name+"="+c.localized(v.Value))
		}
	}
	require.Greater(t, len(env), 5, "the manifest of %s", name)
	return env
}

// signInPatch says where reviewers sign in on a cluster on one's own machine.
const signInPatch = "local/sign-in.yaml"

// demoSignIn is how the patch starts the demo identity provider.
func (c *cluster) demoSignIn(t *testing.T) []string {
	t.Helper()
	var args []string
	for _, arg := range containers(t, signInPatch)[1].Args {
		args = append(args, c.localized(arg))
	}
	require.Equal(t, "demo-sign-in", args[0])
	return args
}

// localized has this test's addresses in place of those that ports are forwarded to.
func (c *cluster) localized(text string) string {
	return strings.NewReplacer("127.0.0.1:7075", c.pages, "127.0.0.1:7076", c.provider).Replace(text)
}

// awaitExecuted waits until a run's effect has taken place.
func (c *cluster) awaitExecuted(t *testing.T, key string) {
	t.Helper()
	operator := "HOLDPOINT_DATABASE_URL=" + c.login(t, "operator")
	require.Eventually(t, func() bool {
		explain := run(t, []string{operator}, "explain", key, "--tenant", "demo")
		return explain.wait(t) == 0 && strings.Contains(explain.out.String(), "completed, executed")
	}, patience, 100*time.Millisecond)
}

// largeRefund is one that the example's rules leave to a support lead.
func largeRefund() string {
	return `{"ticket_id":"t-1","requested_by":"rita@example.test","proposal":{"action_type":"payment.refund",` +
		`"target":{"system":"payments","record_id":"p-1"},` +
		`"proposed_change":{"payment_id":"p-1","amount":150.00,"currency":"EUR"},` +
		`"evidence":[{"source":"payments","version":"1","observed_at":"` + time.Now().UTC().Format(time.RFC3339) + `"}],` +
		`"workflow_version":"support-refunds@2"}}`
}

// approve signs Nora in on the pages, as the browser does, and approves by the API what waits under a key.
func (c *cluster) approve(t *testing.T, key string) {
	t.Helper()
	var queue *http.Response
	require.Eventually(t, func() (opened bool) {
		var err error
		queue, err = demoidp.NewBrowser("nora", demoidp.DemoPassword).Open(t.Context(), "http://"+c.pages)
		return err == nil && queue.Body.Close() == nil
	}, patience, 50*time.Millisecond)
	require.Equal(t, http.StatusOK, queue.StatusCode)
	require.Equal(t, c.pages, queue.Request.URL.Host, "signed in, the browser is back on the pages")

	tokens, err := demoidp.SignIn(t.Context(), demoidp.SignInConfig{Issuer: "http://" + c.provider,
		ClientID: "holdpoint-cli", RedirectURI: "http://127.0.0.1/callback", Login: "nora", Password: demoidp.DemoPassword})
	require.NoError(t, err)
	var list struct{ Approvals []contracts.Approval }
	require.Eventually(t, func() bool {
		c.ask(t, tokens.AccessToken, http.MethodGet, "/v1/approvals?key="+key, nil, &list)
		return len(list.Approvals) == 1
	}, patience, 50*time.Millisecond)
	path := "/v1/approvals/" + list.Approvals[0].ApprovalID
	var card contracts.ApprovalCard
	c.ask(t, tokens.AccessToken, http.MethodGet, path, nil, &card)
	var answer contracts.DecisionAnswer
	c.ask(t, tokens.AccessToken, http.MethodPost, path+"/decision", contracts.DecisionRequest{Decision: ledger.Approve,
		Reason: "the parcel was lost", IntentHash: card.IntentHash}, &answer)
	require.Equal(t, ledger.VoteApproved, answer.Result)
}

// ask calls the approval API with a person's own token.
func (c *cluster) ask(t *testing.T, token, method, path string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.pages+path, bytes.NewReader(text))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s %s", method, path)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
}

// publish sends an event as the tenant, as soon as the relay has made the streams.
func (c *cluster) publish(t *testing.T, source, key, event string) {
	t.Helper()
	conn, err := nats.Connect("nats://demo:"+c.secrets["local-servers"]["nats-demo"]+"@"+c.broker,
		nats.CustomInboxPrefix(bus.InboxPrefix("demo")))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	message := nats.NewMsg("holdpoint.ingress.demo." + source)
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
				Containers []container
			}
		}
	}
}

type container struct {
	Args []string
	Env  []struct{ Name, Value string }
}

// containers of all documents in a manifest.
func containers(t *testing.T, file string) []container {
	t.Helper()
	var all []container
	for _, document := range documents(t, file) {
		all = append(all, document.Spec.Template.Spec.Containers...)
	}
	return all
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
