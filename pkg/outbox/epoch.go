package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// Stream is what the broker says of one stream.
type Stream struct {
	Name    string
	Created time.Time
	LastSeq uint64
}

// replayHorizon bounds how far back a lost stream is filled again. It stays below the event log's retention.
const replayHorizon = 24 * time.Hour

// Observe compares a stream with what is known of it. Where the stream was made anew, or its last sequence is below what it had
// acknowledged, it has lost messages: every event of the last day that its consumers have not handled is queued again, and
// the number of events is returned. Events for integrators have no inbox of ours, so all of them are queued again.
func (s *Store) Observe(ctx context.Context, seen Stream) (requeued int64, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		requeued = 0
		epoch, lost, err := observe(ctx, tx, seen)
		if err != nil || !lost {
			return err
		}
		requeued, err = requeue(ctx, tx, seen.Name, epoch)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("observe stream %s: %w", seen.Name, err)
	}
	return requeued, nil
}

func observe(ctx context.Context, tx pgx.Tx, seen Stream) (epoch int, lost bool, err error) {
	var created time.Time
	var last int64
	row := tx.QueryRow(ctx, `insert into broker_epochs (stream, created_at, last_seq) values ($1, $2, $3)
on conflict (stream) do update set seen_at = clock_timestamp() returning created_at, last_seq, epoch`,
		seen.Name, seen.Created, int64(seen.LastSeq))
	if err := row.Scan(&created, &last, &epoch); err != nil {
		return 0, false, err
	}
	// Postgres keeps microseconds, the broker nanoseconds.
	anew := !created.Truncate(time.Microsecond).Equal(seen.Created.Round(time.Microsecond).Truncate(time.Microsecond)) &&
		seen.Created.Sub(created).Abs() > time.Millisecond
	lost = anew || int64(seen.LastSeq) < last
	if lost {
		epoch++
	}
	_, err = tx.Exec(ctx, `update broker_epochs set created_at = $2, last_seq = $3, epoch = $4 where stream = $1`,
		seen.Name, seen.Created, int64(seen.LastSeq), epoch)
	return epoch, lost, err
}

// requeue skips what waits already. An event id carries its time, so the horizon is a lower bound of the primary key.
func requeue(ctx context.Context, tx pgx.Tx, stream string, epoch int) (int64, error) {
	tag, err := tx.Exec(ctx, `
insert into pending (event_id, generation, not_before)
select e.event_id, $2, clock_timestamp() + make_interval(secs => random() * 2) from event_log e
where e.stream = $1
  and e.event_id >= rpad(lpad(to_hex((extract(epoch from clock_timestamp() - make_interval(secs => $3)) * 1000)::bigint), 12, '0'), 32, '0')::uuid
  and not exists (select from pending p where p.event_id = e.event_id)
  and not exists (select from inbox i where i.event_id = e.event_id)
order by e.event_id`, stream, epoch, replayHorizon.Seconds())
	return tag.RowsAffected(), err
}

// Acknowledged keeps, per stream, the highest sequence that the broker has acknowledged to us. A publish that is acknowledged at
// or below it says that the stream went back; lost names those streams.
func (s *Store) Acknowledged(ctx context.Context, high map[string]int64) error {
	for stream, seq := range high {
		if _, err := s.pool.Exec(ctx, `update broker_epochs set last_seq = greatest(last_seq, $2), seen_at = clock_timestamp()
where stream = $1`, stream, seq); err != nil {
			return fmt.Errorf("keep the last sequence of stream %s: %w", stream, err)
		}
	}
	return nil
}
