package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// Message is one row on its way to the broker.
type Message struct {
	Seq        int64
	EventID    uuid.UUID
	Generation int
	Attempts   int
	Stream     string
	Subject    string
	Payload    []byte
	Headers    map[string]string // of a replayed message
}

// MessageID is what the broker deduplicates by: a retry of the same publish has the same one, a deliberate repeat another.
func (m *Message) MessageID() string { return fmt.Sprintf("%s:%d", m.EventID, m.Generation) }

// Receipt is what became of one message at the broker.
type Receipt struct {
	Seq int64 // the stream's sequence, where it was acknowledged
	Err error // nil: acknowledged, also as a duplicate
	// Final says that this message will never be accepted as it is, such as one above the broker's size limit.
	Final bool
}

// Publish hands messages to the broker and waits for all receipts, in order. It must end by itself within a few seconds: rows
// are locked meanwhile.
type Publish func(ctx context.Context, messages []Message) []Receipt

// Backoff of a message that the broker refused or did not acknowledge:
//
//	attempt   1     2     3     4     5     6 and more
//	wait      0.5s  1s    2s    4s    8s    15s
//
// A refused message therefore leaves the head of the queue at once, and the good ones behind it go out (RLY-04). After
// maxAttempts final refusals it is parked.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = 15 * time.Second
	maxAttempts = 5
)

// Store is the outbox's tables as the relay uses them, and what this process has seen of the broker's streams.
type Store struct {
	pool *pgxpool.Pool
	seen memory
}

// New makes a store. The pool's sessions work as holdpoint_relay.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool, seen: newMemory()} }

// Report counts what one pass did.
type Report struct {
	Published, Failed, Parked int
	Requeued                  int64            // events of streams that have lost messages
	High                      int64            // the highest sequence taken
	Acknowledged              map[string]int64 // per stream, the broker's highest sequence
}

var clearSite = fault.NewSite("relay", "clear", fault.KindCommit)

const takeSQL = `
with taken as materialized (
  select seq, event_id, generation, attempts from pending where seq > $1 and not_before <= clock_timestamp()
  order by seq limit $2 for update skip locked
)
select t.seq, t.event_id, t.generation, t.attempts, coalesce(e.stream, ''), coalesce(e.subject, ''), coalesce(e.payload, ''), e.headers
from taken t left join event_log e using (event_id) order by t.seq`

// Pass takes up to limit rows above after, publishes them, and removes those that the broker acknowledged. What it did not
// acknowledge stays. A stream that acknowledges at or below what it acknowledged to an earlier pass has lost messages, as in
// Observe.
func (s *Store) Pass(ctx context.Context, after int64, limit int, publish Publish) (Report, error) {
	var report Report
	before := s.seen.acknowledged()
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		report = Report{Acknowledged: map[string]int64{}}
		messages, err := take(ctx, tx, after, limit)
		if err != nil || len(messages) == 0 {
			return err
		}
		report.High = messages[len(messages)-1].Seq
		receipts := publish(ctx, messages)
		if err := clear(ctx, tx, messages, receipts, &report); err != nil {
			return err
		}
		if err := s.wentBack(ctx, tx, messages, receipts, before, &report); err != nil {
			return err
		}
		clearSite.Before(ctx)
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("relay outbox: %w", err)
	}
	s.seen.acknowledge(report.Acknowledged)
	if report.High > 0 {
		clearSite.After(ctx)
	}
	return report, nil
}

func take(ctx context.Context, tx pgx.Tx, after int64, limit int) ([]Message, error) {
	rows, err := tx.Query(ctx, takeSQL, after, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Message, err error) {
		err = row.Scan(&m.Seq, &m.EventID, &m.Generation, &m.Attempts, &m.Stream, &m.Subject, &m.Payload, &m.Headers)
		return m, err
	})
}

// clear removes what was acknowledged, puts off what was not, and parks what never will be.
func clear(ctx context.Context, tx pgx.Tx, messages []Message, receipts []Receipt, report *Report) error {
	var gone, later, dead []int64
	var waits []float64
	var reasons []string
	for i, m := range messages {
		r := receipts[i]
		switch {
		case r.Err == nil:
			gone = append(gone, m.Seq)
			report.Acknowledged[m.Stream] = max(report.Acknowledged[m.Stream], r.Seq)
		case r.Final && m.Attempts+1 >= maxAttempts:
			dead, reasons = append(dead, m.Seq), append(reasons, r.Err.Error())
		default:
			later, waits = append(later, m.Seq), append(waits, waitAfter(m.Attempts).Seconds())
		}
	}
	report.Published, report.Failed, report.Parked = len(gone), len(later), len(dead)
	batch := &pgx.Batch{}
	if len(gone) > 0 {
		batch.Queue(`delete from pending where seq = any($1)`, gone)
	}
	if len(later) > 0 {
		batch.Queue(`update pending p set attempts = p.attempts + 1, not_before = clock_timestamp() + make_interval(secs => w.wait)
from unnest($1::bigint[], $2::float8[]) as w(seq, wait) where p.seq = w.seq`, later, waits)
	}
	if len(dead) > 0 {
		batch.Queue(parkSQL, dead, reasons)
	}
	return tx.SendBatch(ctx, batch).Close()
}

const parkSQL = `
with dead as (
  delete from pending p using unnest($1::bigint[], $2::text[]) as d(seq, reason) where p.seq = d.seq
  returning p.event_id, p.attempts, d.reason
)
insert into parked_messages (parked_id, consumer, tenant_id, subject, event_id, reason, headers, body, deliveries)
select gen_random_uuid(), 'relay', e.tenant_id, e.subject, d.event_id, 'unpublishable: ' || d.reason, '{}', e.payload, d.attempts + 1
from dead d join event_log e using (event_id)`

func waitAfter(attempts int) time.Duration {
	if attempts >= 5 {
		return longestWait
	}
	return firstWait << attempts
}

// Lag is how many rows wait and how old the oldest is.
func (s *Store) Lag(ctx context.Context) (rows int64, oldest time.Duration, err error) {
	var seconds float64
	err = s.pool.QueryRow(ctx, `select count(*), coalesce(extract(epoch from clock_timestamp() - min(e.created_at)), 0)::float8
from pending p left join lateral (select created_at from event_log e where e.event_id = p.event_id and p.seq = (select min(seq) from pending)) e
on true`).Scan(&rows, &seconds)
	if err != nil {
		return 0, 0, fmt.Errorf("measure outbox lag: %w", err)
	}
	return rows, time.Duration(seconds * float64(time.Second)), nil
}

// MaintainPartitions makes the partitions of the coming week and drops those past their retention. The inbox must outlive the
// event log, so that nothing that can still be published again has been forgotten.
func (s *Store) MaintainPartitions(ctx context.Context, logDays, inboxDays int) error {
	partitionsSite.Before(ctx)
	if _, err := s.pool.Exec(ctx, "select maintain_partitions($1, $2)", logDays, inboxDays); err != nil {
		return fmt.Errorf("maintain partitions of the event log and the inbox: %w", err)
	}
	partitionsSite.After(ctx)
	return nil
}
