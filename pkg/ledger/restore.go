package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Mark is how far the database has come: its number only grows, unless the database is put back in time.
type Mark struct {
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"` // by the database's clock
}

// NextMark counts the mark up. It is committed before anybody is told of it, so that nobody has heard of a higher one than stands in
// the database (D17).
func (l *Ledger) NextMark(ctx context.Context) (m Mark, err error) {
	err = l.command(ctx, "mark", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("mark"), nil, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `update database_mark set seq = seq + 1, marked_at = clock_timestamp() returning seq, marked_at`).
				Scan(&m.Seq, &m.At)
		})
	})
	return m, err
}

// Restore is a time in which the database may not know of all that was sent: it was put back to a backup. While it stands, every
// effect is looked for before it is sent (D17).
type Restore struct {
	ID         uuid.UUID
	DetectedAt time.Time
	By, Reason string
	BackupAt   time.Time // what was sent later may be unknown
	EndsAt     time.Time // keys from before are too old to matter then
	Lifted     bool
	// Of the effects that were looked for: how many nobody knows of yet, were found done, were found not done and go their way, and
	// wait for an operator. Unasked are those that wait to be sent and were not looked for yet.
	Unknown, Done, Absent, Held, Unasked int
}

// Stands reports whether it is in force at a time.
func (r *Restore) Stands(now time.Time) bool { return !r.Lifted && now.Before(r.EndsAt) }

const (
	// maybeSentSQL is whether an effect e may have reached its provider (D6): also without this database knowing, where it was put back to a
	// backup and the effect was not looked for since (D17).
	maybeSentSQL = `(e.maybe_sent or e.unread_outcome or exists (select from (select r.restore_id from restores r
    where r.lifted_at is null and r.ends_at > clock_timestamp() order by r.detected_at desc limit 1) r
  where r.restore_id is distinct from e.restore_id))`

	restoredSQL = `
with mark as (
  select seq, marked_at from database_mark where seq < $1 for update
), declared as (
  insert into restores (restore_id, detected_by, reason, backup_at, ends_at)
  select $2, $3, $4, m.marked_at, clock_timestamp() + (clock_timestamp() - m.marked_at) + make_interval(secs => $5) from mark m
  returning restore_id
)
update database_mark d set seq = $1 + 1, marked_at = clock_timestamp() from declared returning d.seq`

	declaredSQL = `
insert into restores (restore_id, detected_by, reason, backup_at, ends_at)
values ($1, $2, $3, $4::timestamptz, clock_timestamp() + (clock_timestamp() - $4::timestamptz) + make_interval(secs => $5))
on conflict do nothing`

	liftRestoreSQL = `
update restores set lifted_at = clock_timestamp(), lifted_by = $2, lift_reason = $3 where restore_id = $1 and lifted_at is null`

	restoresSQL = `
select r.restore_id, r.detected_at, r.detected_by, r.reason, r.backup_at, r.ends_at, r.lifted_at is not null,
  count(e.state) filter (where e.state = 'unknown'), count(e.state) filter (where e.state in ('completed', 'accepted')),
  count(e.state) filter (where e.state in ('pending', 'sending')), count(e.state) filter (where e.state = 'held'),
  (select count(*) from effects p where p.open and p.state = 'pending' and p.restore_id is distinct from r.restore_id)
from restores r left join effects e on e.restore_id = r.restore_id
where $1 or r.lifted_at is null and r.ends_at > clock_timestamp()
group by r.restore_id order by r.detected_at`
)

// Restored compares the database with a mark that the bus has heard of. Where the database is behind it, a restore stands when it
// returns true, and the mark is above that of the bus again. window is the longest time for which a provider remembers a key. Several
// who find it out declare it once.
func (l *Ledger) Restored(ctx context.Context, heard Mark, window time.Duration) (restored bool, err error) {
	err = l.command(ctx, "mark", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("mark"), nil, func(tx pgx.Tx) error {
			why := fmt.Sprintf("The bus has heard of mark %d, made at %s, which the database does not have: it was put back to a backup.",
				heard.Seq, heard.At.UTC().Format(time.RFC3339))
			var seq int64
			err := tx.QueryRow(ctx, restoredSQL, heard.Seq, uuid.New(), l.service, why, seconds(window)).Scan(&seq)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			restored = err == nil
			return err
		})
	})
	return restored, err
}

// DeclareRestore is for an operator who knows that the database was put back where the bus does not, because it was lost as well.
// Declared again under its id, it stands as it was.
func (l *Ledger) DeclareRestore(ctx context.Context, id uuid.UUID, backupAt time.Time, window time.Duration, by, reason string) error {
	if by == "" || reason == "" {
		return errors.New("a restore is declared by somebody and for a reason: give both")
	}
	_, err := l.restore(ctx, declaredSQL, id, by, reason, backupAt, seconds(window))
	return err
}

// ErrNoRestore means that no restore with that id stands.
var ErrNoRestore = errors.New("no restore with that id stands")

// LiftRestore ends a restore before its time. What was found unknown stays unknown until it is settled.
func (l *Ledger) LiftRestore(ctx context.Context, id uuid.UUID, by, reason string) error {
	if by == "" || reason == "" {
		return errors.New("a restore is lifted by somebody and for a reason: give both")
	}
	n, err := l.restore(ctx, liftRestoreSQL, id, by, reason)
	if err == nil && n == 0 {
		err = ErrNoRestore
	}
	return err
}

func (l *Ledger) restore(ctx context.Context, statement string, args ...any) (n int, err error) {
	err = l.command(ctx, "restore", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("restore"), nil, func(tx pgx.Tx) error {
			if err := lockSending(ctx, tx); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, statement, args...)
			n = int(tag.RowsAffected())
			return err
		})
	})
	return n, err
}

// Restores lists those that stand, the oldest first; those that have ended too where ended is set.
func (l *Ledger) Restores(ctx context.Context, ended bool) ([]Restore, error) {
	rows, err := l.pool.Query(ctx, restoresSQL, ended)
	if err != nil {
		return nil, fmt.Errorf("list the restores: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Restore, err error) {
		err = row.Scan(&r.ID, &r.DetectedAt, &r.By, &r.Reason, &r.BackupAt, &r.EndsAt, &r.Lifted, &r.Unknown, &r.Done, &r.Absent, &r.Held,
			&r.Unasked)
		return r, err
	})
}
