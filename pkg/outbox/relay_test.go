package outbox_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/pkg/outbox"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

const stream = "HOLDPOINT_INTERNAL"

// bench is one test's outbox and a broker that remembers what it took.
type bench struct {
	db     *postgrestest.DB
	owner  *pgxpool.Pool
	store  *outbox.Store
	broker *broker
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db := postgrestest.New(t)
	return &bench{db: db, owner: db.Pool(""), store: outbox.New(db.Pool("holdpoint_relay")), broker: &broker{}}
}

// broker takes every message, or what its refuse function lets through, and numbers what it takes.
type broker struct {
	taken  []outbox.Message
	seq    int64
	refuse func(outbox.Message) outbox.Receipt
}

func (b *broker) publish(_ context.Context, messages []outbox.Message) []outbox.Receipt {
	receipts := make([]outbox.Receipt, len(messages))
	for i, m := range messages {
		if b.refuse != nil {
			receipts[i] = b.refuse(m)
		}
		if receipts[i].Err == nil {
			b.seq++
			b.taken = append(b.taken, m)
			receipts[i].Seq = b.seq
		}
	}
	return receipts
}

func (b *broker) ids() []uuid.UUID {
	ids := make([]uuid.UUID, len(b.taken))
	for i, m := range b.taken {
		ids[i] = m.EventID
	}
	return ids
}

// appendEvent does what the ledger's commands do within their transactions.
func appendEvent(ctx context.Context, tx pgx.Tx, payload string) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	_, err := tx.Exec(ctx, `with log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload) values ($1, 'demo', gen_random_uuid(), $2, 'subject', $3)
) insert into pending (event_id) values ($1)`, id, stream, []byte(payload))
	return id, err
}

// commit appends events in a transaction of their own.
func (b *bench) commit(t *testing.T, payloads ...string) []uuid.UUID {
	t.Helper()
	tx := b.begin(t)
	ids := make([]uuid.UUID, len(payloads))
	for i, p := range payloads {
		var err error
		ids[i], err = appendEvent(t.Context(), tx, p)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	return ids
}

func (b *bench) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.owner.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // It may have ended.
	return tx
}

func (b *bench) pass(t *testing.T, after int64, limit int) outbox.Report {
	t.Helper()
	report, err := b.store.Pass(t.Context(), after, limit, b.broker.publish)
	require.NoError(t, err)
	return report
}

func (b *bench) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, b.owner.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

func (b *bench) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	_, err := b.owner.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

func TestPass(t *testing.T) { // B3
	t.Parallel()

	t.Run("RowsGoOutInOrderWithAllThatTheBrokerNeeds", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		ids := b.commit(t, "one", "two", "three")
		report := b.pass(t, 0, 10)
		require.Equal(t, 3, report.Published)
		require.Equal(t, map[string]int64{stream: 3}, report.Acknowledged)
		require.Equal(t, ids, b.broker.ids())
		first := b.broker.taken[0]
		require.Equal(t, []string{stream, "subject", "one", ids[0].String() + ":1"}, []string{first.Stream, first.Subject, string(first.Payload), first.MessageID()})
		require.Equal(t, first.Seq+2, report.High)
		require.Zero(t, b.count(t, `select count(*) from pending`))
		require.Zero(t, b.pass(t, 0, 10).Published)
		require.Equal(t, 3, b.count(t, `select count(*) from event_log`), "the log keeps them for a replay")
	})

	t.Run("NoMoreAreTakenThanAsked", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		ids := b.commit(t, "one", "two", "three")
		high := b.pass(t, 0, 2).High
		require.Equal(t, 1, b.pass(t, high, 2).Published, "the next pass may begin above the last")
		require.Equal(t, ids, b.broker.ids())
	})

	t.Run("RowOfALateTransactionIsNotSkipped", func(t *testing.T) { // RLY-01
		t.Parallel()
		b := newBench(t)
		slow := b.begin(t)
		first, err := appendEvent(t.Context(), slow, "slow")
		require.NoError(t, err)
		fast := b.commit(t, "fast")
		high := b.pass(t, 0, 10).High
		require.Equal(t, fast, b.broker.ids())
		require.NoError(t, slow.Commit(t.Context()))
		require.Zero(t, b.pass(t, high, 10).Published, "the low-water mark only spares work")
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
		require.Equal(t, append(fast, first), b.broker.ids())
	})

	t.Run("RowThatIsCommittedWhileOthersArePublishedIsNotCleared", func(t *testing.T) { // RLY-01
		t.Parallel()
		b := newBench(t)
		slow := b.begin(t)
		first, err := appendEvent(t.Context(), slow, "slow")
		require.NoError(t, err)
		fast := b.commit(t, "fast")
		report, err := b.store.Pass(t.Context(), 0, 10, func(ctx context.Context, m []outbox.Message) []outbox.Receipt {
			require.NoError(t, slow.Commit(t.Context()))
			return b.broker.publish(ctx, m)
		})
		require.NoError(t, err)
		require.Equal(t, 1, report.Published)
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
		require.Equal(t, append(fast, first), b.broker.ids())
	})

	t.Run("GapsStopNothing", func(t *testing.T) { // RLY-02
		t.Parallel()
		b := newBench(t)
		want := b.commit(t, "before")
		for range 10 {
			lost := b.begin(t)
			_, err := appendEvent(t.Context(), lost, "rolled back")
			require.NoError(t, err)
			require.NoError(t, lost.Rollback(t.Context()))
		}
		want = append(want, b.commit(t, "after", "and more")...)
		require.Equal(t, 3, b.pass(t, 0, 10).Published)
		require.Equal(t, want, b.broker.ids())
	})

	t.Run("UnacknowledgedRowStaysWithTheSameMessageID", func(t *testing.T) { // BUS-01
		t.Parallel()
		b := newBench(t)
		ids := b.commit(t, "one", "two")
		b.broker.refuse = func(m outbox.Message) outbox.Receipt {
			if m.EventID == ids[0] {
				return outbox.Receipt{Err: errors.New("timeout")}
			}
			return outbox.Receipt{}
		}
		report := b.pass(t, 0, 10)
		require.Equal(t, []int{1, 1}, []int{report.Published, report.Failed})
		require.Zero(t, b.pass(t, 0, 10).Published, "not before the backoff")
		b.broker.refuse = nil
		b.exec(t, `update pending set not_before = now()`)
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
		require.Equal(t, ids[0].String()+":1", b.broker.taken[1].MessageID())
		require.Equal(t, 1, b.broker.taken[1].Attempts)
	})

	t.Run("KilledBetweenPublishAndCommitItPublishesAgain", func(t *testing.T) { // B3
		t.Parallel()
		b := newBench(t)
		ids := b.commit(t, "one")
		killed := errors.New("killed")
		require.PanicsWithValue(t, killed, func() {
			_, _ = b.store.Pass(t.Context(), 0, 10, func(ctx context.Context, m []outbox.Message) []outbox.Receipt {
				b.broker.publish(ctx, m)
				panic(killed)
			})
		})
		require.Equal(t, 1, b.pass(t, 0, 10).Published)
		require.Equal(t, []uuid.UUID{ids[0], ids[0]}, b.broker.ids())
		require.Equal(t, b.broker.taken[0].MessageID(), b.broker.taken[1].MessageID(), "the broker can tell that it is the same")
	})

	t.Run("TwoRelaysShareTheRows", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.commit(t, "one", "two", "three", "four")
		other := outbox.New(b.db.Pool("holdpoint_relay"))
		report, err := b.store.Pass(t.Context(), 0, 2, func(ctx context.Context, m []outbox.Message) []outbox.Receipt {
			second, err := other.Pass(t.Context(), 0, 10, b.broker.publish)
			require.NoError(t, err)
			require.Equal(t, 2, second.Published, "what the first has locked is skipped, not waited for")
			return b.broker.publish(ctx, m)
		})
		require.NoError(t, err)
		require.Equal(t, 2, report.Published)
		require.Len(t, b.broker.taken, 4)
	})
}

func TestPoisonRowsLeaveTheHead(t *testing.T) { // RLY-04
	t.Parallel()
	b := newBench(t)
	payloads := slices.Repeat([]string{"too large"}, 50)
	for i := range 1000 {
		payloads = append(payloads, strconv.Itoa(i))
	}
	ids := b.commit(t, payloads...)
	b.broker.refuse = func(m outbox.Message) outbox.Receipt {
		if string(m.Payload) == "too large" {
			return outbox.Receipt{Err: errors.New("maximum payload exceeded"), Final: true}
		}
		return outbox.Receipt{}
	}
	require.Equal(t, outbox.Report{Failed: 50, High: 50, Acknowledged: map[string]int64{}}, b.pass(t, 0, 50))
	published := 0
	for range 20 {
		published += b.pass(t, 0, 50).Published
	}
	require.Equal(t, 1000, published, "the good rows behind them go out at once")
	require.Equal(t, ids[50:], b.broker.ids())

	for attempt := 2; attempt <= 5; attempt++ {
		require.Equal(t, 50, b.count(t, `select count(*) from pending where attempts = $1 and not_before > now()`, attempt-1))
		b.exec(t, `update pending set not_before = now()`)
		report := b.pass(t, 0, 100)
		require.Equal(t, attempt == 5, report.Parked == 50, "%+v", report)
	}
	require.Zero(t, b.count(t, `select count(*) from pending`))
	require.Equal(t, 50, b.count(t, `select count(*) from parked_messages where consumer = 'relay' and deliveries = 5
and reason = 'unpublishable: maximum payload exceeded' and body = 'too large'`))
}

func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.commit(t, "one")
	b.broker.refuse = func(outbox.Message) outbox.Receipt { return outbox.Receipt{Err: errors.New("no responders")} }
	for _, want := range []float64{0.5, 1, 2, 4, 8, 15, 15} {
		require.Equal(t, 1, b.pass(t, 0, 10).Failed)
		var wait float64
		require.NoError(t, b.owner.QueryRow(t.Context(), `select extract(epoch from not_before - clock_timestamp())::float8 from pending`).Scan(&wait))
		require.InDelta(t, want, wait, 0.45)
		b.exec(t, `update pending set not_before = now()`)
	}
}

// TestPublishedIsWhatWasCommitted runs random writers, some of which roll back, beside a relay that looks from its low-water mark
// and from the start in turns.
func TestPublishedIsWhatWasCommitted(t *testing.T) { // RLY-01
	t.Parallel()
	b := newBench(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	committed := make(chan uuid.UUID, 50*20*5)
	var writers errgroup.Group
	for writer := range 50 {
		writers.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(writer)))
			for range 20 {
				tx, err := b.owner.Begin(t.Context())
				if err != nil {
					return err
				}
				var ids []uuid.UUID
				for range 1 + random.IntN(5) {
					id, err := appendEvent(t.Context(), tx, "x")
					if err != nil {
						return errors.Join(err, tx.Rollback(t.Context()))
					}
					ids = append(ids, id)
				}
				if random.IntN(10) == 0 {
					if err := tx.Rollback(t.Context()); err != nil {
						return err
					}
					continue
				}
				if err := tx.Commit(t.Context()); err != nil {
					return err
				}
				for _, id := range ids {
					committed <- id
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- writers.Wait(); close(committed) }()
	var low int64
	for writing := true; writing; {
		select {
		case err := <-done:
			require.NoError(t, err)
			writing = false
		default:
		}
		low = max(low, b.pass(t, low, 100).High)
		b.pass(t, 0, 30)
	}
	for b.pass(t, 0, 1000).Published > 0 {
	}
	published := map[uuid.UUID]int{}
	for _, id := range b.broker.ids() {
		published[id]++
	}
	want := map[uuid.UUID]int{}
	for id := range committed {
		want[id]++
	}
	require.Greater(t, len(want), 1000)
	require.Equal(t, want, published)
}

func TestLag(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows, oldest, err := b.store.Lag(t.Context())
	require.NoError(t, err)
	require.Zero(t, rows)
	require.Zero(t, oldest)
	b.commit(t, "one", "two")
	b.exec(t, `update event_log set created_at = now() - interval '1 minute' where payload = 'one'`)
	rows, oldest, err = b.store.Lag(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, rows)
	require.InDelta(t, time.Minute, oldest, float64(30*time.Second))
}
