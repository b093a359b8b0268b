package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// Stream is what the broker says of one stream.
type Stream struct {
	Name    string
	Created time.Time
	LastSeq uint64
}

var (
	observeSite     = fault.NewSite("relay", "observe", fault.KindCommit)
	acknowledgeSite = fault.NewSite("relay", "acknowledge", fault.KindCommit)
	partitionsSite  = fault.NewSite("relay", "partitions", fault.KindCommit)
)

// replayHorizon bounds how far back a lost stream is filled again. It stays below the event log's retention.
const replayHorizon = 24 * time.Hour

// Observe compares a stream with what is known of it. Where the stream was made anew, or has gone back behind what it had
// acknowledged, it has lost messages: every event of the last day that its consumers have not handled is queued again, and
// the number of events is returned. Events for integrators have no inbox of ours, so all of them are queued again.
//
// What the broker says is older than what other passes have been told meanwhile, so a last sequence that is too low is only a
// suspicion. It is confirmed when the broker, asked after it arose, still says so; call Observe in one loop.
func (s *Store) Observe(ctx context.Context, seen Stream) (requeued int64, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		requeued = 0
		known, err := knownOf(ctx, tx, seen)
		if err != nil {
			return err
		}
		if requeued, err = s.compare(ctx, tx, seen, known); err != nil {
			return err
		}
		observeSite.Before(ctx)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("observe stream %s: %w", seen.Name, err)
	}
	observeSite.After(ctx)
	return requeued, nil
}

// known is what Postgres remembers of a stream.
type known struct {
	created time.Time
	last    int64
	epoch   int
}

// knownOf locks what is known of the stream; at the first sight that is what was seen.
func knownOf(ctx context.Context, tx pgx.Tx, seen Stream) (k known, err error) {
	row := tx.QueryRow(ctx, `insert into broker_epochs (stream, created_at, last_seq) values ($1, $2, $3)
on conflict (stream) do update set seen_at = clock_timestamp() returning created_at, last_seq, epoch`,
		seen.Name, seen.Created, int64(seen.LastSeq))
	err = row.Scan(&k.created, &k.last, &k.epoch)
	return k, err
}

func (s *Store) compare(ctx context.Context, tx pgx.Tx, seen Stream, k known) (int64, error) {
	// Postgres keeps microseconds, the broker nanoseconds.
	age := seen.Created.Sub(k.created)
	switch {
	case age < -time.Millisecond:
		return 0, nil // asked before another replica saw the stream made anew
	case age > time.Millisecond:
		return s.lost(ctx, tx, seen.Name, seen.Created, int64(seen.LastSeq), k.epoch)
	case int64(seen.LastSeq) >= k.last:
		s.seen.suspect(seen.Name, 0)
		return 0, setKnown(ctx, tx, seen.Name, k.created, int64(seen.LastSeq), k.epoch)
	case int64(seen.LastSeq) < s.seen.suspected(seen.Name):
		return s.lost(ctx, tx, seen.Name, k.created, int64(seen.LastSeq), k.epoch)
	default:
		s.seen.suspect(seen.Name, k.last)
		return 0, nil
	}
}

// lost begins a new epoch of the stream and queues again what it may have lost.
func (s *Store) lost(ctx context.Context, tx pgx.Tx, stream string, created time.Time, last int64, epoch int) (int64, error) {
	s.seen.forget(stream)
	if err := setKnown(ctx, tx, stream, created, last, epoch+1); err != nil {
		return 0, err
	}
	return requeue(ctx, tx, stream, epoch+1)
}

func setKnown(ctx context.Context, tx pgx.Tx, stream string, created time.Time, last int64, epoch int) error {
	_, err := tx.Exec(ctx, `update broker_epochs set created_at = $2, last_seq = $3, epoch = $4 where stream = $1`,
		stream, created, last, epoch)
	return err
}

// requeue skips what waits already. An event id carries its time, so the horizon is a lower bound of the primary key.
func requeue(ctx context.Context, tx pgx.Tx, stream string, epoch int) (int64, error) {
	tag, err := tx.Exec(ctx, `
insert into pending (event_id, generation, not_before)
select e.event_id, $2, clock_timestamp() + make_interval(secs => random() * 2) from event_log e
where e.stream = $1 and e.event_id >= uuid_at(now() - make_interval(secs => $3))
  and not exists (select from pending p where p.event_id = e.event_id)
  and not exists (select from inbox i where i.event_id = e.event_id)
order by e.event_id`, stream, epoch, replayHorizon.Seconds())
	return tag.RowsAffected(), err
}

// wentBack finds the streams that acknowledged a message at or below what they had acknowledged before it was published.
func (s *Store) wentBack(ctx context.Context, tx pgx.Tx, messages []Message, receipts []Receipt, before map[string]int64, report *Report) error {
	back := map[string]bool{}
	for i, r := range receipts {
		if stream := messages[i].Stream; r.Err == nil && r.Seq > 0 && r.Seq <= before[stream] {
			back[stream] = true
		}
	}
	for stream := range back {
		k := known{epoch: 1} // of a stream that nobody has observed yet
		row := tx.QueryRow(ctx, `select created_at, epoch from broker_epochs where stream = $1 for update`, stream)
		if err := row.Scan(&k.created, &k.epoch); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read what is known of stream %s: %w", stream, err)
		}
		n, err := s.lost(ctx, tx, stream, k.created, report.Acknowledged[stream], k.epoch)
		if err != nil {
			return err
		}
		report.Requeued += n
	}
	return nil
}

// Acknowledged keeps, per stream, the highest sequence that the broker has acknowledged to us.
func (s *Store) Acknowledged(ctx context.Context, high map[string]int64) error {
	acknowledgeSite.Before(ctx)
	defer acknowledgeSite.After(ctx)
	for stream, seq := range high {
		if _, err := s.pool.Exec(ctx, `update broker_epochs set last_seq = greatest(last_seq, $2), seen_at = clock_timestamp()
where stream = $1`, stream, seq); err != nil {
			return fmt.Errorf("keep the last sequence of stream %s: %w", stream, err)
		}
	}
	return nil
}
