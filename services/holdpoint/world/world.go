package world

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/postgres"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
	"github.com/holdpoint/holdpoint/pkg/service"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

// Tenant is the example tenant.
const Tenant = "demo"

// World is one test's installation. Its methods may be called from several goroutines, except those that start, stop
// and break.
type World struct {
	DB      *postgrestest.DB
	Sandbox *sandbox.Client
	// Ledger is an operator's: it explains runs, and opens and closes kill switches.
	Ledger *ledger.Ledger

	t        testing.TB
	settings settings
	config   *config.Config // as the next service will have it; nil where it must be read
	dice     *dice
	log      *journal
	pool     *pgxpool.Pool // the superuser's, past all links
	health   *service.Health
	database *atomic.Value // host:port of Postgres
	broker   *broker
	tenant   *nats.Conn // the example tenant's own connection, past all misfortune
	events   *follower
	keys     atomic.Int64

	intakes atomic.Value // []string: base URLs of the intakes that run
	gates   atomic.Value // []string: base URLs of the approval services that run
	next    atomic.Int64 // round robin over them

	mu      sync.Mutex
	running []*running
	zombies []*running // crashed, and still ending
}

// New makes a world with all services up; everything ends with the test.
func New(t testing.TB, options ...Option) *World {
	t.Helper()
	w := &World{t: t, settings: defaults(), database: &atomic.Value{}}
	for _, option := range options {
		option(&w.settings)
	}
	w.log = newJournal(t)
	w.dice = newDice(w.settings.luck, w.seed())
	w.openDatabase()
	w.Sandbox = sandboxtest.New(t, w.settings.sandbox...)
	w.broker = startBroker(t, w.log)
	w.startHealth()
	w.intakes.Store([]string{})
	w.gates.Store([]string{})
	w.events = w.follow()
	t.Cleanup(w.end)
	for _, row := range roster.Services {
		for range w.settings.replicas[row.Name] {
			w.Start(row.Name)
		}
	}
	w.awaitStreams()
	return w
}

func (w *World) openDatabase() {
	w.DB = postgrestest.New(w.t)
	at, err := url.Parse(w.DB.URL)
	require.NoError(w.t, err)
	w.database.Store(at.Host)
	w.pool = w.open("", 3)
	operators := w.open("holdpoint_"+ledger.Operator, 2)
	w.Ledger, err = ledger.New(ledger.Config{Pool: operators, Service: ledger.Operator})
	require.NoError(w.t, err)
}

func (w *World) open(role string, most int32) *pgxpool.Pool {
	pool, err := postgres.Open(context.Background(),
		postgres.PoolConfig{URL: w.DB.URL, Role: role, MaxConns: most, ApplicationName: "world"})
	require.NoError(w.t, err)
	w.t.Cleanup(pool.Close)
	return pool
}

// startHealth answers /readyz for all services of the world.
func (w *World) startHealth() {
	health, err := service.NewHealth("127.0.0.1:0")
	require.NoError(w.t, err)
	w.health = health
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- health.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		require.NoError(w.t, <-ended)
	})
}

// awaitStreams waits until the relay has made the streams; the tenant's events are the last of them.
func (w *World) awaitStreams() {
	w.t.Helper()
	if w.settings.replicas[ledger.Relay] == 0 {
		return
	}
	w.Until("the streams", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), apiWait)
		defer cancel()
		_, err := w.events.js.Stream(ctx, bus.EventsStream(Tenant))
		return err == nil
	})
}

// end stops everything, and holds the services to a clean end where nothing was broken on purpose.
func (w *World) end() {
	w.mu.Lock()
	running, zombies := w.running, w.zombies
	w.running, w.zombies = nil, nil
	w.mu.Unlock()
	for _, r := range running {
		r.stop()
	}
	for _, r := range running {
		if err := r.wait(); err != nil && w.settings.luck == (Luck{}) && !w.broker.down {
			w.t.Errorf("%s did not stop cleanly: %v", r.name, err)
		}
	}
	for _, r := range zombies {
		go func() { _ = r.wait() }() // it reaches nobody, and may take its time to give up
	}
	w.events.stop()
	w.broker.close()
	w.log.report()
}

// Until polls until the condition holds, which is the one way in which tests wait for Postgres and the sandbox. It
// fails the test when patience ends.
func (w *World) Until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	turns := time.NewTicker(pollEvery)
	defer turns.Stop()
	for !holds() {
		select {
		case <-turns.C:
		case <-deadline.C:
			w.t.Fatalf("waited %s in vain: %s\n%s", patience, what, w.standing())
		}
	}
}

// Patience of every wait, and how often it looks. A shared two-core machine may be slow.
const (
	patience  = 60 * time.Second
	pollEvery = 30 * time.Millisecond
)

// standing is where every run is that has not ended, for the report of a failed wait.
func (w *World) standing() string {
	rows, err := w.pool.Query(context.Background(), `
select concat_ws(' ', r.idempotency_key, r.state, r.outcome, r.next_check_at, string_agg(concat_ws(' ',
    'effect', e.state, e.hold_reason, 'attempts', e.attempts, 'lookups', e.lookups, e.next_check_at), ', '))
from runs r left join effects e using (tenant_id, run_id)
where r.state <> 'completed' group by r.run_id, r.tenant_id limit 20`)
	if err != nil {
		return err.Error()
	}
	text := ""
	var line string
	for rows.Next() {
		if rows.Scan(&line) == nil {
			text += line + "\n"
		}
	}
	return fmt.Sprintf("%sevents waiting in the outbox: %d", text, w.Count("select count(*) from pending"))
}
