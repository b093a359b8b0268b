package world

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// processEnv says to a test binary which service it is, as JSON of apart.
const processEnv = "HOLDPOINT_WORLD_PROCESS"

// apart is what a service in a process of its own has to know.
type apart struct {
	Service, Database, Broker, Sandbox, SMTP string
}

// Process is one service in a process of its own.
type Process struct {
	w    *World
	cmd  *exec.Cmd
	said bytes.Buffer // read when it has ended
	once sync.Once
}

// StartProcess starts a service in a process of its own, as the world's others are but for its options about configuration and luck: a
// test that kills it leaves nothing of it behind, no deferred call, no closed connection. The test's TestMain calls ServeProcess.
func (w *World) StartProcess(name string) *Process {
	w.t.Helper()
	smtp, err := w.Sandbox.SMTPAddr(context.Background())
	require.NoError(w.t, err)
	said, err := json.Marshal(apart{name, w.DB.URL, w.broker.url, w.Sandbox.URL(), smtp})
	require.NoError(w.t, err)
	p := &Process{w: w, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(said))
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	require.NoError(w.t, p.cmd.Start())
	w.t.Cleanup(p.Kill)
	return p
}

// Kill ends the process as a machine that loses its power does (SIGKILL), once.
func (p *Process) Kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if p.w.t.Failed() {
			p.w.t.Logf("the process said:\n%s", p.said.String())
		}
		require.Equal(p.w.t, -1, p.cmd.ProcessState.ExitCode(), "it ended by itself: %s", p.said.String())
	})
}

// ServeProcess is a service in a process of its own, for as long as that lives, where StartProcess made this process. Otherwise it
// returns at once.
func ServeProcess() {
	said, ok := os.LookupEnv(processEnv)
	if !ok {
		return
	}
	var a apart
	must(json.Unmarshal([]byte(said), &a))
	ctx := context.Background()
	log := service.NewLogger(slog.LevelInfo)
	row, err := roster.Named(a.Service)
	must(err)
	cfg, err := config.LoadEnv(deploy.Example(), sandboxAt(a.Sandbox, a.SMTP))
	must(err)
	quick(cfg)
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: a.Broker, Name: "holdpoint-" + a.Service, PublishTimeout: quickPublish, Logger: log})
	must(err)
	health, err := service.NewHealth("127.0.0.1:0")
	must(err)
	ready, err := row.Open(ctx, service.Needs{DatabaseURL: a.Database, MaxConns: defaults().maxConns, Bus: conn, Config: cfg, Log: log,
		Health: health}, quickChoices())
	must(err)
	must(ready.Run(ctx))
	os.Exit(0)
}

// must is for a process that can only say why it ends.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// quickChoices are those of every service of a world.
func quickChoices() roster.Choices {
	return roster.Choices{IntakeAddr: "127.0.0.1:0", WebhookAddr: "127.0.0.1:0", EnableActions: true, LeaseMargin: quickLeaseMargin,
		AckWait: quickAckWait}
}

// sandboxAt is the environment of the example configuration.
func sandboxAt(url, smtp string) func(string) (string, bool) {
	at := map[string]string{"HOLDPOINT_SANDBOX_URL": url, "HOLDPOINT_SANDBOX_SMTP": smtp}
	return func(name string) (string, bool) {
		value, ok := at[name]
		return value, ok
	}
}
