package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/migrations"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// tenant is the example configuration's, with a key of its that the whole world knows.
const (
	tenant = "demo"
	apiKey = "hp_demo_key_for_local_use_only"
)

// startPatience bounds the start of everything on a busy machine.
const startPatience = 90 * time.Second

// world is everything that the suite runs: what it kills, and what it does not.
type world struct {
	dir, binary string
	flow        *flow
	edits       []Edit // of the example configuration
	log         *slog.Logger

	postgres *postgres.Server
	db       *pgxpool.Pool // the owner's, to look and to let time pass
	nats     *bus.EmbeddedServer
	natsPort int
	conn     *nats.Conn
	js       jetstream.JetStream
	sandbox  *process
	provider *sandbox.Client
	control  *control
	gate     gate

	webhookAddr string // where the reconciler takes providers' webhooks

	intakeAddr string
	proxies    map[string]*proxy   // by service
	services   map[string]*process // that run or ran last, by name
	started    []*process          // all that were ever started, the operator's commands too
	closers    []func()
}

// newWorld starts everything, with more edits of the configuration after the suite's own, and waits until it works. Close it,
// also after an error.
func newWorld(ctx context.Context, dir, binary string, f *flow, log *slog.Logger, more ...Edit) (*world, error) {
	w := &world{dir: dir, binary: binary, flow: f, edits: slices.Concat(edits, more), log: log,
		proxies: map[string]*proxy{}, services: map[string]*process{}}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, start := range []func(context.Context) error{
		w.startControl, w.startPostgres, w.startBroker, w.startSandbox, w.startGate, w.startProxies, w.startServices,
	} {
		if err := start(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// close stops everything, last first.
func (w *world) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

func (w *world) onClose(f func()) { w.closers = append(w.closers, f) }

func (w *world) startControl(context.Context) (err error) {
	w.control, err = newControl()
	if err == nil {
		w.onClose(w.control.close)
	}
	return err
}

func (w *world) startPostgres(ctx context.Context) error {
	server, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: filepath.Join(w.dir, "postgres"),
		Fetch: postgres.FetchBinaries(filepath.Join(w.dir, "postgres-binaries")), Logger: w.log})
	if err != nil {
		return err
	}
	w.postgres = server
	w.onClose(func() {
		stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = server.Stop(stopping) // its data is thrown away
		_ = os.RemoveAll(server.DataDir)
	})
	if err := postgres.Migrate(ctx, server.URL(), migrations.FS); err != nil {
		return err
	}
	w.db, err = postgres.Open(ctx, postgres.PoolConfig{URL: server.URL(), ApplicationName: "holdpoint-crash"})
	if err == nil {
		w.onClose(w.db.Close)
	}
	return err
}

// startBroker starts the broker in this process: it is no service of ours, and what it loses is lost on purpose.
func (w *world) startBroker(ctx context.Context) error {
	if err := w.runBroker(ctx); err != nil {
		return err
	}
	w.onClose(func() { w.nats.Close() })
	conn, err := nats.Connect(w.nats.URL(), nats.Name("holdpoint-crash"), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	w.onClose(conn.Close)
	w.conn = conn
	w.js, err = jetstream.New(conn)
	return err
}

func (w *world) runBroker(ctx context.Context) error {
	server, err := bus.Embedded(ctx,
		bus.EmbeddedConfig{Dir: w.brokerDir(), Port: w.natsPort, Token: "crash", Logger: w.log})
	if err != nil {
		return err
	}
	at, err := url.Parse(server.URL())
	if err != nil {
		return fmt.Errorf("read the broker's address: %w", err)
	}
	w.nats = server
	w.natsPort, err = strconv.Atoi(at.Port())
	return err
}

func (w *world) brokerDir() string { return filepath.Join(w.dir, "nats") }

func (w *world) startSandbox(ctx context.Context) error {
	ready := filepath.Join(w.dir, "sandbox-ready.json")
	process, err := w.launch("sandbox", []string{"sandbox", "--addr", "127.0.0.1:0", "--ready-file", ready,
		"--data", filepath.Join(w.dir, "sandbox")})
	if err != nil {
		return err
	}
	w.sandbox = process
	w.onClose(process.kill)
	var at struct{ URL string }
	err = poll(ctx, "the sandbox provider to listen", func() (bool, error) {
		text, err := os.ReadFile(ready)
		if err != nil {
			return false, whileRunning(process)
		}
		return true, json.Unmarshal(text, &at)
	})
	w.provider = sandbox.NewClient(at.URL)
	return err
}

// startProxies gives each service a login of its own, a member of its role alone, and a way of its own to Postgres.
func (w *world) startProxies(ctx context.Context) error {
	at, err := url.Parse(w.postgres.URL())
	if err != nil {
		return fmt.Errorf("read Postgres's address: %w", err)
	}
	for _, name := range append([]string{operator}, w.flow.services...) {
		login := fmt.Sprintf("create role crash_%[1]s login in role holdpoint_%[1]s", name)
		if _, err := w.db.Exec(ctx, login); err != nil {
			return fmt.Errorf("make a login for %s: %w", name, err)
		}
		p, err := newProxy(at.Host)
		if err != nil {
			return err
		}
		w.proxies[name] = p
		w.onClose(p.close)
	}
	return nil
}

// databaseURL is Postgres as a service reaches it.
func (w *world) databaseURL(service string) string {
	return fmt.Sprintf("postgres://crash_%s@%s/%s?sslmode=disable",
		service, w.proxies[service].addr(), databaseOf(w.postgres.URL()))
}

func databaseOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return "" // it has been read before
	}
	return strings.TrimPrefix(at.Path, "/")
}

// launch starts the program as a process whose output goes to a file.
func (w *world) launch(name string, args []string, env ...string) (*process, error) {
	output, err := os.OpenFile(w.logFile(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("keep what %s says: %w", name, err)
	}
	defer output.Close() // the child has its own
	p, err := startProcess(command{name: name, binary: w.binary, args: args, env: env, output: output})
	if err == nil {
		w.started = append(w.started, p)
	}
	return p, err
}

func (w *world) logFile(name string) string { return filepath.Join(w.dir, name+".log") }

// freeAddr is an address that nobody listens on now.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// whileRunning is an error where the process has ended.
func whileRunning(p *process) error {
	if p.running() {
		return nil
	}
	return fmt.Errorf("%s has ended: %s", p.name, statusText(p.status))
}

// poll asks again and again until it is so. What is waited for is in other processes, which tell nobody.
func poll(ctx context.Context, what string, once func() (bool, error)) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := once()
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}

var example = deploy.Example()
