package intake_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/intake"
)

// How long a test waits for what others do, and how often it looks.
const (
	patience  = 30 * time.Second
	pollEvery = 3 * time.Millisecond
)

// The two tenants of these tests. Both have the same sources.
const (
	demo = "demo"
	acme = "acme"
)

// sources of both tenants: one for each way to find a key, and one for each way to bring a proposal.
const sources = `sources:
  - id: inline
    mode: inline
    schema: crm-enrichment.json
    max_bytes: 20000
    proposal: /proposal
    correlation_id: /event_id
    rules: [{version: 1, key: {header: Idempotency-Key}}]
  - id: drafts
    mode: worker
    max_bytes: 20000
    correlation_id: /task
    lease: {duration: 30s, max_lifetime: 10m}
    rules: [{version: 1, key: {header: Idempotency-Key}, hash: {exclude: [/delivered_at]}}]
  - id: cloud-events
    mode: worker
    rules: [{version: 1, key: {cloud_event: true}}]
  - id: pointers
    mode: worker
    rules: [{version: 1, key: {pointers: [/order/id, /line]}}]
  - id: pointer
    mode: worker
    rules: [{version: 1, key: {pointers: [/id]}}]
  - id: expression
    mode: worker
    rules: [{version: 1, key: {cel: 'headers["x-system"] + ":" + body.id'}}]
`

// keyOf is an API key with all scopes; keyOf(tenant)+"-read" may only read.
func keyOf(tenant string) string { return "hp-" + tenant }

// tenantFile declares the API keys of a tenant.
func tenantFile(tenant string) string {
	digest := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:])
	}
	return "display_name: " + tenant + "\nworkflow_versions: [crm-enrichment@3, contact-notes@1]\napi_keys:\n" +
		"  - {name: all, sha256: " + digest(keyOf(tenant)) + ", scopes: [publish, work, read]}\n" +
		"  - {name: reader, sha256: " + digest(keyOf(tenant)+"-read") + ", scopes: [read]}\n"
}

// configured is the example's actions and policy for two tenants, with these sources.
func configured(t testing.TB, sources string) *config.Config {
	t.Helper()
	files := fstest.MapFS{}
	example := deploy.Example()
	require.NoError(t, fs.WalkDir(example, "tenants/demo", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(example, path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	}))
	files["tenants/demo/sources.yaml"] = &fstest.MapFile{Data: []byte(sources)}
	for path, file := range maps.Clone(files) {
		files[strings.Replace(path, "/demo/", "/acme/", 1)] = file
	}
	for _, tenant := range []string{demo, acme} {
		files["tenants/"+tenant+"/tenant.yaml"] = &fstest.MapFile{Data: []byte(tenantFile(tenant))}
	}
	cfg, err := config.Load(files)
	require.NoError(t, err)
	return cfg
}

// world is one test's Postgres, broker, and clients. Replicas of intake are started in it.
type world struct {
	t      testing.TB
	db     *postgrestest.DB
	sql    *pgxpool.Pool // works as the database's owner
	bus    *bustest.Bus
	nc     *nats.Conn // an integrator's
	js     jetstream.JetStream
	config *config.Config
	logs   *logbook
	meters *metric.ManualReader
	meter  *metric.MeterProvider
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t), config: configured(t, sources), logs: &logbook{},
		meters: metric.NewManualReader()}
	w.meter = metric.NewMeterProvider(metric.WithReader(w.meters))
	w.sql = w.db.Pool("")
	w.bus = bustest.New(t, demo, acme)
	var err error
	w.nc, err = nats.Connect(w.bus.URL())
	require.NoError(t, err)
	t.Cleanup(w.nc.Close)
	w.js, err = jetstream.New(w.nc)
	require.NoError(t, err)
	return w
}

// replica is a running intake.
type replica struct {
	*world
	url  string
	in   *intake.Intake
	pool *pgxpool.Pool
	// stop ends its context, as SIGTERM does, and waits for its end.
	stop func() error
}

// start runs a replica as it is configured at this moment.
func (w *world) start() *replica { return w.startOn(w.db.URL) }

// startOn runs a replica that reaches Postgres at another address.
func (w *world) startOn(databaseURL string) *replica {
	w.t.Helper()
	in, pool, err := w.make(databaseURL)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	r := &replica{world: w, url: "http://" + in.Addr(), in: in, pool: pool}
	r.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		pool.Close()
		return err
	})
	w.t.Cleanup(func() { _ = r.stop() })
	return r
}

// make is an intake that has yet to run, and its pool.
func (w *world) make(databaseURL string) (*intake.Intake, *pgxpool.Pool, error) {
	w.t.Helper()
	pool, err := postgres.Open(w.t.Context(), postgres.PoolConfig{URL: databaseURL, Role: "holdpoint_intake",
		ApplicationName: "intake"})
	require.NoError(w.t, err)
	l, err := ledger.New(ledger.Config{Pool: pool, Service: ledger.Intake})
	require.NoError(w.t, err)
	env := &service.Env{Service: ledger.Intake, Log: slog.New(w.logs), Pool: pool, Ledger: l,
		Bus:    bustest.Connect(w.t, w.bus.URL()),
		Config: w.config, Meter: w.meter.Meter("test")}
	in, err := intake.New(w.t.Context(), env, intake.Settings{Addr: "127.0.0.1:0"}.Quick())
	return in, pool, err
}

// as is the same replica for a case that shares it and reports to t.
func (r *replica) as(t testing.TB) *replica {
	w := *r.world
	w.t = t
	return &replica{world: &w, url: r.url, in: r.in, pool: r.pool, stop: r.stop}
}

// count counts rows.
func (w *world) count(query string, args ...any) int { return one[int](w, query, args...) }

// exec changes rows as no service may, such as moving a deadline into the past.
func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	_, err := w.sql.Exec(context.WithoutCancel(w.t.Context()), statement, args...)
	require.NoError(w.t, err)
}

// one reads one value.
func one[T any](w *world, query string, args ...any) (value T) {
	w.t.Helper()
	require.NoError(w.t, w.sql.QueryRow(context.WithoutCancel(w.t.Context()), query, args...).Scan(&value))
	return value
}

// await waits until a condition over rows is true.
func (w *world) await(condition string, args ...any) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return one[bool](w, "select "+condition, args...) }, patience, pollEvery,
		condition)
}

// stored is how many rows there are that a taken event or a parked message leaves.
func (w *world) stored() int {
	return w.count(`select (select count(*) from runs) + (select count(*) from run_payloads)
+ (select count(*) from run_conflicts) + (select count(*) from intents) + (select count(*) from event_log) + (select count(*) from pending)
+ (select count(*) from parked_messages) + (select count(*) from audit_events)`)
}

// logbook keeps what was logged.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (*logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *logbook) WithGroup(string) slog.Handler          { return l }

// Handle writes a line of level, message and attributes.
func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// text is the whole log.
func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
