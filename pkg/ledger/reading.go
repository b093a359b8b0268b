package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// ActionRef names an action type of a tenant.
type ActionRef struct{ TenantID, ActionType string }

// Unread is a waiting request whose target is due to be read.
type Unread struct {
	TenantID      string
	RunID         uuid.UUID
	ApprovalID    uuid.UUID
	IntentHash    canonical.Digest
	Revision      int
	ActionType    string
	CorrelationID string
	Canonical     []byte
	Failures      int // of the tries since the last answer
}

// takeReadingsSQL moves the next read of what it takes on, so that two replicas do not both ask the provider.
const takeReadingsSQL = `
with due as materialized (
  select d.approval_id from unnest($1::text[], $2::text[]) as i(tenant_id, action_type)
  cross join lateral (
    select a.approval_id from approvals a
    where a.state = 'pending' and a.tenant_id = i.tenant_id and a.action_type = i.action_type
      and a.next_read_at <= statement_timestamp() and a.decide_by > statement_timestamp()
    order by a.next_read_at limit $3
    for no key update of a skip locked
  ) d
), taken as (
  update approvals a set next_read_at = clock_timestamp() + make_interval(secs => $4) from due d
  where a.approval_id = d.approval_id
  returning a.tenant_id, a.run_id, a.approval_id, a.intent_hash, a.action_type, a.correlation_id
)
select t.tenant_id, t.run_id, t.approval_id, t.intent_hash, n.revision, t.action_type, t.correlation_id, n.canonical,
  coalesce(r.failures, 0)
from taken t cross join lateral (
  select n.revision, n.canonical from intents n
  where n.run_id = t.run_id and n.tenant_id = t.tenant_id and n.intent_hash = t.intent_hash limit 1
) n left join lateral (
  select r.failures from readings r
  where r.run_id = t.run_id and r.tenant_id = t.tenant_id and r.intent_hash = t.intent_hash limit 1
) r on true`

// TakeReadings takes up to limit waiting requests of each action type whose targets are due to be read: new ones at once. What is
// not recorded within hold is due again.
func (l *Ledger) TakeReadings(ctx context.Context, actions []ActionRef, limit int, hold time.Duration) ([]Unread, error) {
	var taken []Unread
	err := l.command(ctx, "take readings", func(ctx context.Context) (err error) {
		taken, err = collect(ctx, l, l.site("take_readings"), nil, scanUnread, takeReadingsSQL,
			column(actions, func(a ActionRef) string { return a.TenantID }),
			column(actions, func(a ActionRef) string { return a.ActionType }), limit, seconds(hold))
		return err
	})
	return taken, err
}

func scanUnread(row pgx.CollectableRow) (u Unread, err error) {
	var hash []byte
	err = row.Scan(&u.TenantID, &u.RunID, &u.ApprovalID, &hash, &u.Revision, &u.ActionType, &u.CorrelationID, &u.Canonical,
		&u.Failures)
	copy(u.IntentHash[:], hash)
	return u, err
}

// ReadResult is what came of one try to read a target.
type ReadResult struct {
	*Unread
	Found   bool
	Version string
	Held    []byte        // canonical JSON object, or nil (see Reading)
	Err     string        // why there was no answer, "" where there was one
	Again   time.Duration // until the next try
}

// recordReadingsSQL keeps the last answer over a failure. A request that somebody is deciding at this moment is left to them; if it
// still waits after that, its target is read again when the claim on it is over.
const recordReadingsSQL = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bytea[], $5::bool[], $6::text[], $7::text[], $8::text[], $9::float8[])
    as i(tenant_id, run_id, approval_id, intent_hash, found, version, held, error, again)
), stored as (
  insert into readings as r (tenant_id, run_id, intent_hash, read_at, found, version, held, error, failed_at, failures)
  select tenant_id, run_id, intent_hash, case when error = '' then clock_timestamp() end, case when error = '' then found end,
    nullif(version, ''), nullif(held, ''), nullif(error, ''), case when error <> '' then clock_timestamp() end, (error <> '')::int
  from input order by run_id, tenant_id, intent_hash
  on conflict (run_id, tenant_id, intent_hash) do update set
    read_at = coalesce(excluded.read_at, r.read_at),
    found = case when excluded.read_at is null then r.found else excluded.found end,
    version = case when excluded.read_at is null then r.version else excluded.version end,
    held = case when excluded.read_at is null then r.held else excluded.held end,
    error = excluded.error, failed_at = excluded.failed_at,
    failures = case when excluded.read_at is null then r.failures + 1 else 0 end
), free as materialized (
  select a.approval_id, i.again from input i cross join lateral (
    select a.approval_id from approvals a where a.approval_id = i.approval_id and a.state = 'pending'
    for no key update skip locked
  ) a
)
update approvals a set next_read_at = clock_timestamp() + make_interval(secs => f.again) from free f
where a.approval_id = f.approval_id`

// RecordReadings stores what targets hold, and when they are read again.
func (l *Ledger) RecordReadings(ctx context.Context, results []ReadResult) error {
	// Of one intent asked about twice, the last counts: a statement cannot touch a row twice.
	results, repeats := firstOfEach(inOrder(results, ReadResult.key), ReadResult.key)
	err := l.command(ctx, "record readings", func(ctx context.Context) error {
		runs := column(results, func(r ReadResult) string { return r.RunID.String() })
		return l.transaction(ctx, l.site("record_readings"), runs, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, recordReadingsSQL, readingArgs(results)...)
			return err
		})
	})
	if err == nil && len(repeats) > 0 {
		return l.RecordReadings(ctx, repeats)
	}
	return err
}

func (r ReadResult) key() runKey { return runKey{r.TenantID, r.RunID} }

func readingArgs(results []ReadResult) []any {
	return []any{
		column(results, func(r ReadResult) string { return r.TenantID }),
		column(results, func(r ReadResult) uuid.UUID { return r.RunID }),
		column(results, func(r ReadResult) uuid.UUID { return r.ApprovalID }),
		column(results, func(r ReadResult) []byte { return r.IntentHash[:] }),
		column(results, func(r ReadResult) bool { return r.Found }),
		column(results, func(r ReadResult) string { return storable(r.Version) }),
		column(results, func(r ReadResult) string { return string(r.Held) }),
		column(results, func(r ReadResult) string { return storable(r.Err) }),
		column(results, func(r ReadResult) float64 { return seconds(r.Again) }),
	}
}

// Reading is what the target of a request holds, by the last answer. Its JSON is what a vote keeps of it (A17).
type Reading struct {
	ReadAt  time.Time `json:"read_at"` // zero where there was no answer yet
	Found   bool      `json:"found"`
	Version string    `json:"version,omitempty"`
	// Held is an object of JSON pointers into the proposed change, each with what the target held there; nil where nothing is read
	// but the version.
	Held json.RawMessage `json:"held,omitempty"`

	Error    string    `json:"-"` // why the last try gave no answer, "" where it gave one
	FailedAt time.Time `json:"-"`
}

// Answered reports whether the target was read at all.
func (r *Reading) Answered() bool { return r != nil && !r.ReadAt.IsZero() }

// Same reports whether two readings say the same of the target, whenever it was read. No answer is the same as none.
func (r *Reading) Same(other *Reading) bool {
	if !r.Answered() || !other.Answered() {
		return r.Answered() == other.Answered()
	}
	return r.Found == other.Found && r.Version == other.Version && sameJSON(r.Held, other.Held)
}

// sameJSON compares by value: what was kept as jsonb has other bytes.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := canonical.Parse(a)
	y, errY := canonical.Parse(b)
	return errX == nil && errY == nil && x.Equal(y)
}

// readingRow is a row of readings as a part of another query, or nothing.
type readingRow struct {
	there            bool
	readAt, failedAt *time.Time
	held             *string
	Reading
}

func (r *readingRow) columns() []any {
	return []any{&r.there, &r.readAt, &r.Found, &r.Version, &r.held, &r.Error, &r.failedAt}
}

func (r *readingRow) reading() *Reading {
	if !r.there {
		return nil
	}
	r.ReadAt, r.FailedAt = orZero(r.readAt), orZero(r.failedAt)
	if r.held != nil {
		r.Held = json.RawMessage(*r.held)
	}
	return &r.Reading
}
