package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// bench is a relay in its world with a real broker.
type bench struct {
	*servicetest.World
	*Relay

	t *testing.T
}

func setup(t *testing.T) *bench {
	t.Helper()
	return on(t, bustest.New(t, ledgertest.Tenant).Conn)
}

// on is a bench over a connection.
func on(t *testing.T, conn *bus.Conn) *bench {
	t.Helper()
	w := servicetest.New(t, servicetest.WithBus(conn))
	b := &bench{World: w, t: t}
	b.Relay = b.another()
	return b
}

// another is one more relay of the same world. Its streams are small: many tests share a disk.
func (b *bench) another() *Relay {
	b.t.Helper()
	r, err := New(b.Env(ledger.Relay), Settings{EventLogDays: 7, InboxDays: 14})
	require.NoError(b.t, err)
	for i := range r.topology.Streams {
		r.topology.Streams[i].MaxBytes = 64 << 20
	}
	return r
}

// passes publishes all that is there.
func (b *bench) passes() {
	b.t.Helper()
	for again := true; again; {
		var err error
		again, err = b.pass(b.t.Context())
		require.NoError(b.t, err)
	}
}

func (b *bench) pending() int { return b.Count(`select count(*) from pending`) }

// arrivals are the events that a consumer of the internal stream has seen, by id, and how often.
type arrivals struct {
	mu   sync.Mutex
	seen map[string]int
}

func (a *arrivals) of(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[id]
}

func (a *arrivals) distinct() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// consume runs policy's consumer, which only notes what comes.
func (b *bench) consume() *arrivals {
	b.t.Helper()
	a := &arrivals{seen: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- bus.Consume(ctx, b.Bus, bus.ConsumeConfig{
			Service: "test", Stream: bus.InternalStream, Durable: bus.PolicyConsumer, Logger: slog.New(slog.DiscardHandler),
			IdleWait: 100 * time.Millisecond,
			Handle: func(_ context.Context, items []bus.Item) []bus.Verdict {
				verdicts := make([]bus.Verdict, len(items))
				for i := range items {
					verdicts[i] = bus.Ack
					if event, err := contracts.Decode(items[i].Data); err == nil {
						a.mu.Lock()
						a.seen[event.ID]++
						a.mu.Unlock()
					}
				}
				return verdicts
			},
		})
	}()
	b.t.Cleanup(func() { cancel(); <-ended })
	return a
}

// submitted are the ids of the committed events for policy.
func (b *bench) submitted() []string {
	b.t.Helper()
	var ids []string
	for _, item := range b.Items(contracts.SubjectIntentSubmitted) {
		event, err := contracts.Decode(item.Data)
		require.NoError(b.t, err)
		ids = append(ids, event.ID)
	}
	return ids
}

// TestKilledAtAnyInstant is B3: whatever the moment, every committed row arrives.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := b.consume()
	const writers, each = 4, 25
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				b.Claim(b.Contact(fmt.Sprintf("k-%d-%d", w, i)))
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	lives := 0
	for alive := true; alive; lives++ {
		stop := b.Start(b.another())
		b.Exec(`select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database()
  and query like '%from pending%' and pid <> pg_backend_pid()`)
		select {
		case <-written:
			alive = false
		default:
		}
		require.NoError(t, stop())
	}
	b.Start(b.another())
	b.Eventually(func() bool { return b.pending() == 0 && seen.distinct() == writers*each }, "all arrive")
	for _, id := range b.submitted() {
		require.Positive(t, seen.of(id))
	}
	require.Positive(t, lives)
}

func TestRhythm(t *testing.T) {
	t.Parallel()

	t.Run("APokeWakesIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		seen := b.consume()
		b.idle = time.Hour
		b.Start(b.Relay)
		b.Claim(b.Contact("first"))
		intake := b.Env(ledger.Intake)
		b.Eventually(func() bool { intake.WakeRelay(); return seen.distinct() == 1 }, "it listens, and publishes")
		b.Claim(b.Contact("second"))
		intake.WakeRelay()
		b.Eventually(func() bool { return seen.distinct() == 2 }, "one poke is enough")
	})

	t.Run("WithoutAPokeItLooksByItself", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		seen := b.consume()
		b.Start(b.Relay)
		b.Claim(b.Contact("k"))
		b.Eventually(func() bool { return seen.distinct() == 1 }, "correctness depends on no poke (RLY-07)")
	})

	t.Run("TwoRelaysLoseAndDelayNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		seen := b.consume()
		b.Start(b.Relay)
		b.Start(b.another())
		claims := make([]ledger.Claim, 300)
		for i := range claims {
			claims[i] = b.Contact(fmt.Sprintf("k-%d", i))
		}
		b.Claim(claims...)
		b.Eventually(func() bool { return seen.distinct() == len(claims) && b.pending() == 0 }, "all arrive")
	})

	t.Run("ItStopsAtOnceAndCleanly", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, b.Start(b.Relay)())
	})
}

// TestBroker is B4: what the broker loses or refuses is in Postgres.
func TestBroker(t *testing.T) {
	t.Parallel()

	t.Run("WithoutABrokerEventsWait", func(t *testing.T) {
		t.Parallel()
		w := servicetest.New(t)
		b := &bench{World: w, t: t}
		b.Relay = b.another()
		b.Claim(b.Contact("k"))
		b.passes()
		require.Equal(t, 1, b.pending())
		require.Empty(t, b.Logs.Errors(), "it is no error of the relay")
		_, err := b.observe(t.Context())
		require.NoError(t, err)
	})

	t.Run("AWipedBrokerIsFilledFromPostgres", func(t *testing.T) {
		t.Parallel()
		b, wipe := wipeable(t)
		require.NoError(t, bus.Provision(t.Context(), b.Bus, b.topology))
		_, err := b.observe(t.Context())
		require.NoError(t, err)
		b.Claim(b.Contact("handled"), b.Contact("lost"))
		b.passes()
		require.Zero(t, b.pending())
		handled := b.submitted()[0]
		b.Exec(`insert into inbox (consumer, event_id) values (1, $1)`, uuid.MustParse(handled))

		wipe()
		require.NoError(t, bus.Provision(t.Context(), b.Bus, b.topology))
		_, err = b.observe(t.Context())
		require.NoError(t, err)
		seen := b.consume()
		b.Exec(`update pending set not_before = '-infinity'`)
		b.passes()
		b.Eventually(func() bool { return seen.distinct() == 1 }, "what was not handled comes again")
		require.Zero(t, seen.of(handled), "what was handled does not")
		require.Equal(t, 2, b.Count(`select max(epoch) from broker_epochs where stream = 'HOLDPOINT_INTERNAL'`))
		require.Contains(t, b.Logs.String(), "the broker lost messages")
	})

	t.Run("TheServiceMakesTheStreamsAnewByItself", func(t *testing.T) {
		t.Parallel()
		b, wipe := wipeable(t)
		seen := b.consume()
		b.Start(b.Relay)
		b.Claim(b.Contact("before"))
		b.Eventually(func() bool { return seen.distinct() == 1 }, "streams are made at the start")
		wipe()
		b.Claim(b.Contact("after"))
		b.Eventually(func() bool { return seen.distinct() == 2 }, "and after their loss")
	})

	t.Run("OneMissingStreamHidesNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.topology.Streams = append([]bus.Stream{{Name: "HOLDPOINT_MISSING"}}, b.topology.Streams...)
		_, err := b.observe(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, b.Count(`select count(*) from broker_epochs where stream = 'HOLDPOINT_INTERNAL'`))
	})

	t.Run("AMessageThatTheBrokerNeverTakesIsParkedAndHoldsUpNobody", func(t *testing.T) { // RLY-04
		t.Parallel()
		b := setup(t)
		seen := b.consume()
		id := uuid.Must(uuid.NewV7())
		b.Exec(`insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  values ($1, 'demo', $1, 'HOLDPOINT_INTERNAL', $2, $3)`, id, contracts.SubjectIntentSubmitted, make([]byte, 2<<20))
		b.Exec(`insert into pending (event_id) values ($1)`, id)
		b.Claim(b.Contact("behind"))
		b.passes()
		b.Eventually(func() bool { return seen.distinct() == 1 }, "the good one goes out at once")
		for range 5 {
			b.Exec(`update pending set not_before = '-infinity'`)
			b.passes()
		}
		require.Zero(t, b.pending())
		require.Equal(t, 1, b.Count(`select count(*) from parked_messages where consumer = 'relay' and event_id = $1
  and reason like 'unpublishable%'`, id))
	})
}

// wipeable is a bench on a broker that can lose all it has.
func wipeable(t *testing.T) (b *bench, wipe func()) {
	t.Helper()
	cfg := bus.EmbeddedConfig{Users: []bus.User{{Name: "test", Password: "test"}}, Logger: slog.New(slog.DiscardHandler)}
	start := func() *bus.EmbeddedServer {
		cfg.Dir = t.TempDir()
		server, err := bus.Embedded(context.Background(), cfg)
		require.NoError(t, err)
		return server
	}
	server := start()
	t.Cleanup(func() { server.Close() })
	_, err := fmt.Sscanf(server.URL(), "nats://test:test@127.0.0.1:%d", &cfg.Port)
	require.NoError(t, err)
	b = on(t, bustest.Connect(t, server.URL()))
	return b, func() {
		server.Close()
		server = start()
		b.Eventually(b.Bus.Connected, "the connection comes back")
	}
}

// TestSweep is the second half of B4: a run that has not moved is told of again, from its own state.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := b.consume()
	b.Claim(b.Contact("stuck"), b.Contact("moved"))
	b.passes()
	b.Eventually(func() bool { return seen.distinct() == 2 }, "both were told of")
	b.Authorize(b.Contact("decided"))
	b.passes()
	b.Eventually(func() bool { return seen.distinct() == 3 }, "all were told of")
	b.Exec(`update runs set next_check_at = clock_timestamp()`)
	again, err := b.sweep(t.Context())
	require.NoError(t, err)
	require.False(t, again)
	require.Equal(t, 2, b.pending())
	b.passes()
	b.Eventually(func() bool { return seen.distinct() == 5 },
		"those that wait for policy are told of again, as new events")
	_, err = b.sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, b.pending(), "and not again before their time")
}

func TestNew(t *testing.T) {
	t.Parallel()
	w := servicetest.New(t)
	_, err := New(w.Env(ledger.Relay), Settings{EventLogDays: 7, InboxDays: 7})
	require.ErrorContains(t, err, "HOLDPOINT_RELAY_INBOX_DAYS")

	r, err := New(w.Env(ledger.Relay), Settings{EventLogDays: 7, InboxDays: 14, AckWait: 3 * time.Second})
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, r.topology.Streams[0].Consumers[0].AckWait)
	for name, once := range map[string]func(context.Context) (bool, error){"lag": r.lag, "partitions": r.partitions} {
		_, err := once(t.Context())
		require.NoError(t, err, name)
	}
}

// TestSweepWhilePolicyIsBehind: what waits in policy's queue is not told again, but no backlog hides a lost event for ever.
func TestSweepWhilePolicyIsBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, bus.Provision(t.Context(), b.env.Bus, b.topology))
	b.Claim(ledgertest.Proposal("k"))
	b.passes()
	b.Exec(`update runs set next_check_at = clock_timestamp() - interval '1 second'`)
	behind := make([]bus.Message, sweepSize)
	for i := range behind {
		behind[i] = bus.Message{Subject: contracts.SubjectIntentSubmitted, ID: fmt.Sprint("behind-", i), Data: []byte(`{}`)}
	}
	for _, result := range b.publisher.PublishBatch(t.Context(), behind) {
		require.NoError(t, result.Err)
	}
	told := func() int { return b.Count(`select count(*) from pending`) }
	require.Eventually(t, func() bool { // the broker counts for a consumer what it has stored, a moment later
		backlog, err := b.env.Bus.Backlog(t.Context(), bus.InternalStream, bus.PolicyConsumer)
		return err == nil && backlog >= sweepSize
	}, 10*time.Second, 10*time.Millisecond)

	b.swept = time.Now()
	_, err := b.sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, told(), "it waits in the queue")

	b.swept = time.Now().Add(-sweepAnyway)
	_, err = b.sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, told(), "it may have been lost all the same")
}
