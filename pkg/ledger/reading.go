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
type ActionRef struct {
	TenantID, ActionType string
	Busy                 bool // its targets can be read, and are not to be taken now
}

// Unread is an action of a waiting request whose target is due to be read.
type Unread struct {
	TenantID      string
	RunID         uuid.UUID
	ApprovalID    uuid.UUID
	IntentHash    canonical.Digest
	Revision      int
	Ordinal       int
	Several       bool   // it is one of several actions of the request
	ActionType    string // of the action
	CorrelationID string
	Canonical     []byte
	Failures      int // of the tries since the last answer
}

// planAgain is how often a request of several actions is looked at for actions that nobody could read before.
const planAgain = 5 * time.Minute

// takeReadingsSQL moves the next read of what it takes on, so that two replicas do not both ask the provider. It names what it moves once
// more as an array, which a planner that expects many more rows finds by the index all the same.
//
// A request is found by its action type. One of several types has a kind of its own (config.KindOf), whose actions may be read by
// different connectors; such kinds are walked through by the index. Of a request with several actions nothing is read by this: it is
// planned, and its actions are due by themselves from the next time on.
const takeReadingsSQL = `
with recursive kinds(tenant_id, action_type) as (
  select distinct t.tenant_id, '' from unnest($1::text[]) as t(tenant_id)
  union all
  select k.tenant_id, (select a.action_type from approvals a
    where a.state = 'pending' and a.tenant_id = k.tenant_id and a.action_type > k.action_type order by a.action_type limit 1)
  from kinds k where k.action_type is not null
), readable as materialized (
  select * from unnest($1::text[], $2::text[], $3::bool[]) as i(tenant_id, action_type, busy)
), due as materialized (
  select d.* from (
    select tenant_id, action_type from readable where not busy
    union all select tenant_id, action_type from kinds where position('+' in action_type) > 0
  ) i cross join lateral (
    select a.tenant_id, a.run_id, a.approval_id, a.intent_hash from approvals a
    where a.state = 'pending' and a.tenant_id = i.tenant_id and a.action_type = i.action_type
      and a.next_read_at <= statement_timestamp() and a.decide_by > statement_timestamp()
    order by a.next_read_at limit $4
    for no key update of a skip locked
  ) d
), looked as materialized (
  select d.approval_id, n.revision, n.canonical, p.actions, coalesce(json_array_length(p.actions) > 1, false) as several
  from due d cross join lateral (
    select n.revision, n.canonical from intents n
    where n.run_id = d.run_id and n.tenant_id = d.tenant_id and n.intent_hash = d.intent_hash limit 1
  ) n cross join lateral (select convert_from(n.canonical, 'UTF8')::json -> 'actions' as actions) p
), taken as (
  update approvals a set next_read_at = clock_timestamp() + make_interval(secs => case when d.several then $6::float8 else $5::float8 end)
  from looked d where a.approval_id = d.approval_id and a.approval_id = any(array(select approval_id from looked))
  returning a.tenant_id, a.run_id, a.approval_id, a.intent_hash, a.action_type, a.correlation_id, d.revision, d.canonical, d.actions,
    d.several
), planned as (
  insert into action_readings (tenant_id, run_id, approval_id, ordinal, action_type)
  select t.tenant_id, t.run_id, t.approval_id, p.ordinal, p.action ->> 'action_type'
  from taken t cross join lateral json_array_elements(t.actions) with ordinality as p(action, ordinal)
  where t.several and exists (select from readable i where i.tenant_id = t.tenant_id and i.action_type = p.action ->> 'action_type')
  on conflict do nothing
), due_actions as materialized (
  select d.*, a.approval_id is not null as waits, a.intent_hash, a.correlation_id from readable i cross join lateral (
    select r.tenant_id, r.run_id, r.approval_id, r.ordinal from action_readings r
    where r.tenant_id = i.tenant_id and r.action_type = i.action_type and r.next_read_at <= statement_timestamp()
      and r.next_read_at < 'infinity'
    order by r.next_read_at limit $4
    for no key update of r skip locked
  ) d left join approvals a on a.approval_id = d.approval_id and a.state = 'pending' and a.decide_by > statement_timestamp()
  where not i.busy
), taken_actions as (
  update action_readings r set next_read_at = case when d.waits then clock_timestamp() + make_interval(secs => 2 * $5::float8) else 'infinity' end
  from due_actions d
  where r.run_id = d.run_id and r.tenant_id = d.tenant_id and r.approval_id = d.approval_id and r.ordinal = d.ordinal
  returning r.tenant_id, r.run_id, r.approval_id, d.intent_hash, r.ordinal, r.action_type, d.correlation_id, r.failures, d.waits
)
select t.tenant_id, t.run_id, t.approval_id, t.intent_hash, t.revision, 1, t.several, t.action_type, t.correlation_id, t.canonical,
  coalesce(r.failures, 0)
from taken t left join lateral (
  select r.failures from readings r
  where r.run_id = t.run_id and r.tenant_id = t.tenant_id and r.intent_hash = t.intent_hash limit 1
) r on true where not t.several
union all
select t.tenant_id, t.run_id, t.approval_id, t.intent_hash, n.revision, t.ordinal, true, t.action_type, t.correlation_id, n.canonical,
  t.failures
from taken_actions t cross join lateral (
  select n.revision, n.canonical from intents n
  where n.run_id = t.run_id and n.tenant_id = t.tenant_id and n.intent_hash = t.intent_hash limit 1
) n where t.waits
order by several`

// TakeReadings takes up to limit waiting requests of each action type whose targets are due to be read, and after them as many of its
// actions in requests of several: new ones at once, the latter once they are planned. What is not recorded within hold is due again, of
// the latter within twice that.
func (l *Ledger) TakeReadings(ctx context.Context, actions []ActionRef, limit int, hold time.Duration) ([]Unread, error) {
	var taken []Unread
	err := l.command(ctx, "take readings", func(ctx context.Context) (err error) {
		taken, err = collect(ctx, l, l.site("take_readings"), nil, scanUnread, takeReadingsSQL,
			column(actions, func(a ActionRef) string { return a.TenantID }),
			column(actions, func(a ActionRef) string { return a.ActionType }),
			column(actions, func(a ActionRef) bool { return a.Busy }), limit, seconds(hold), seconds(planAgain))
		return err
	})
	return taken, err
}

func scanUnread(row pgx.CollectableRow) (u Unread, err error) {
	var hash []byte
	err = row.Scan(&u.TenantID, &u.RunID, &u.ApprovalID, &hash, &u.Revision, &u.Ordinal, &u.Several, &u.ActionType, &u.CorrelationID,
		&u.Canonical, &u.Failures)
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
  select * from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bytea[], $5::bool[], $6::text[], $7::text[], $8::text[], $9::float8[],
    $10::int[], $11::bool[])
    as i(tenant_id, run_id, approval_id, intent_hash, found, version, held, error, again, ordinal, several)
), stored as (
  insert into readings as r (tenant_id, run_id, intent_hash, read_at, found, version, held, error, failed_at, failures)
  select tenant_id, run_id, intent_hash, case when error = '' then clock_timestamp() end, case when error = '' then found end,
    nullif(version, ''), nullif(held, ''), nullif(error, ''), case when error <> '' then clock_timestamp() end, (error <> '')::int
  from input where not several order by run_id, tenant_id, intent_hash
  on conflict (run_id, tenant_id, intent_hash) do update set
    read_at = coalesce(excluded.read_at, r.read_at),
    found = case when excluded.read_at is null then r.found else excluded.found end,
    version = case when excluded.read_at is null then r.version else excluded.version end,
    held = case when excluded.read_at is null then r.held else excluded.held end,
    error = excluded.error, failed_at = excluded.failed_at,
    failures = case when excluded.read_at is null then r.failures + 1 else 0 end
), actions as materialized (
  select r.run_id, r.tenant_id, r.approval_id, r.ordinal, i.error = '' as answered, i.found, i.version, i.held, i.error, i.again
  from input i join action_readings r using (run_id, tenant_id, approval_id, ordinal) where i.several
  order by r.run_id, r.tenant_id, r.approval_id, r.ordinal for no key update of r
), stored_actions as (
  update action_readings r set next_read_at = clock_timestamp() + make_interval(secs => i.again),
    read_at = case when i.answered then clock_timestamp() else r.read_at end,
    found = case when i.answered then i.found else r.found end,
    version = case when i.answered then nullif(i.version, '') else r.version end,
    held = case when i.answered then nullif(i.held, '') else r.held end,
    error = nullif(i.error, ''), failed_at = case when not i.answered then clock_timestamp() end,
    failures = case when i.answered then 0 else r.failures + 1 end
  from actions i
  where r.run_id = i.run_id and r.tenant_id = i.tenant_id and r.approval_id = i.approval_id and r.ordinal = i.ordinal
), free as materialized (
  select a.approval_id, i.again from input i cross join lateral (
    select a.approval_id from approvals a where a.approval_id = i.approval_id and a.state = 'pending'
    for no key update skip locked
  ) a where not i.several
)
update approvals a set next_read_at = clock_timestamp() + make_interval(secs => f.again) from free f
where a.approval_id = f.approval_id`

// RecordReadings stores what targets hold, and when they are read again.
func (l *Ledger) RecordReadings(ctx context.Context, results []ReadResult) error {
	// Of one action asked about twice, the last counts: a statement cannot touch a row twice.
	results, repeats := firstOfEach(inOrder(results, ReadResult.run), ReadResult.key)
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

func (r ReadResult) run() runKey { return runKey{r.TenantID, r.RunID} }

// readKey names a target that is read for a run.
type readKey struct {
	runKey
	ordinal int
}

func (r ReadResult) key() readKey { return readKey{r.run(), r.Ordinal} }

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
		column(results, func(r ReadResult) int { return r.Ordinal }),
		column(results, func(r ReadResult) bool { return r.Several }),
	}
}

// Reading is what the target of an action holds, by the last answer. Its JSON is what a vote keeps of it (A17).
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
