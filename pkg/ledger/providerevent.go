package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Verdicts of a provider's event: what the connector's configuration makes of its status.
const (
	ProviderSucceeded = "succeeded"
	ProviderFailed    = "failed"
	ProviderPending   = "pending" // neither
)

// What became of an event that was handed to ReceiveProviderEvents.
const (
	EventStored   = "stored"
	EventRepeated = "repeated" // the same was stored before
	EventConflict = "conflict" // another body was stored under its id before, and stands
)

// ProviderEvent is what a provider told by itself about a write (R4). Texts are at most 512 bytes each, the body 256 KiB.
type ProviderEvent struct {
	TenantID, Connector, ID string
	Body                    []byte
	OperationID             string // as the event names it, "" where it does not; likewise below
	ExternalID              string
	RecordVersion           string
	Status                  string // as the provider words it
	Verdict                 string
}

const receiveProviderEventsSQL = `
insert into provider_events (tenant_id, connector, provider_event_id, body, body_digest, operation_id, external_id, record_version,
  status_text, verdict)
select tenant_id, connector, id, body, digest, nullif(operation_id, ''), nullif(external_id, ''), nullif(version, ''),
  nullif(status, ''), verdict
from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  with ordinality as i(tenant_id, connector, id, body, digest, operation_id, external_id, version, status, verdict, ord)
order by ord
on conflict do nothing returning tenant_id, connector, provider_event_id, body_digest`

const knownProviderEventsSQL = `
select p.tenant_id, p.connector, p.provider_event_id, p.body_digest from provider_events p
join unnest($1::text[], $2::text[], $3::text[]) as i(tenant_id, connector, provider_event_id)
  using (tenant_id, connector, provider_event_id)`

// ReceiveProviderEvents stores events, each once under its id within tenant and connector, and says of each in order whether it is
// stored now, was before, or is another under a known id (EventStored, …). When it returns, all are on disk.
func (l *Ledger) ReceiveProviderEvents(ctx context.Context, events []ProviderEvent) ([]string, error) {
	order := make([]*ProviderEvent, len(events))
	for i := range events {
		order[i] = &events[i]
	}
	// One order for all batches, in which they cannot wait for each other.
	slices.SortStableFunc(order, func(a, b *ProviderEvent) int { return a.key().compare(b.key()) })
	firsts, _ := firstOfEach(order, (*ProviderEvent).key)
	var known map[eventKey][]byte
	stored := map[*ProviderEvent]bool{}
	err := l.command(ctx, "receive provider events", func(ctx context.Context) error {
		rows, err := collect(ctx, l, l.site("receive_provider_events"), nil, scanEventDigest, receiveProviderEventsSQL,
			eventColumns(firsts)...)
		if err != nil {
			return err
		}
		known = byKey(rows)
		for _, e := range firsts {
			stored[e] = known[e.key()] != nil
		}
		rest := slices.DeleteFunc(slices.Clone(firsts), func(e *ProviderEvent) bool { return stored[e] })
		if len(rest) == 0 {
			return nil
		}
		found, err := l.pool.Query(ctx, knownProviderEventsSQL, eventColumns(rest)[:3]...)
		if err != nil {
			return err
		}
		before, err := pgx.CollectRows(found, scanEventDigest)
		for key, digest := range byKey(before) {
			known[key] = digest
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	results := make([]string, len(events))
	for i := range events {
		e := &events[i]
		switch digest := e.digest(); {
		case stored[e]:
			results[i] = EventStored
		case bytes.Equal(known[e.key()], digest[:]):
			results[i] = EventRepeated
		default:
			results[i] = EventConflict
		}
	}
	return results, nil
}

// eventKey names an event.
type eventKey struct{ tenant, connector, id string }

func (k eventKey) compare(o eventKey) int {
	return slices.Compare([]string{k.tenant, k.connector, k.id}, []string{o.tenant, o.connector, o.id})
}

func (e *ProviderEvent) key() eventKey { return eventKey{e.TenantID, e.Connector, e.ID} }

func (e *ProviderEvent) digest() [sha256.Size]byte { return sha256.Sum256(e.Body) }

type eventDigest struct {
	eventKey
	digest []byte
}

func scanEventDigest(row pgx.CollectableRow) (d eventDigest, err error) {
	err = row.Scan(&d.tenant, &d.connector, &d.id, &d.digest)
	return d, err
}

func byKey(rows []eventDigest) map[eventKey][]byte {
	digests := make(map[eventKey][]byte, len(rows))
	for _, r := range rows {
		digests[r.eventKey] = r.digest
	}
	return digests
}

func eventColumns(events []*ProviderEvent) []any {
	return []any{
		column(events, func(e *ProviderEvent) string { return e.TenantID }),
		column(events, func(e *ProviderEvent) string { return e.Connector }),
		column(events, func(e *ProviderEvent) string { return e.ID }),
		column(events, func(e *ProviderEvent) []byte { return e.Body }),
		column(events, func(e *ProviderEvent) []byte { digest := e.digest(); return digest[:] }),
		column(events, func(e *ProviderEvent) string { return e.OperationID }),
		column(events, func(e *ProviderEvent) string { return e.ExternalID }),
		column(events, func(e *ProviderEvent) string { return e.RecordVersion }),
		column(events, func(e *ProviderEvent) string { return e.Status }),
		column(events, func(e *ProviderEvent) string { return e.Verdict }),
	}
}

// UnappliedEvent is a stored event that is due to be applied, without its body.
type UnappliedEvent struct {
	ProviderEvent
	Attempts int           // to apply it, this one included
	Age      time.Duration // since it was received, by the database's clock
	// Matches are the effects that it is about: none and several leave open which.
	Matches []EffectKey
}

// takeProviderEventsSQL moves the next look at what it takes on, so that replicas do not do the same.
const takeProviderEventsSQL = `
with due as materialized (
  select tenant_id, connector, provider_event_id from provider_events
  where state in ('waiting', 'unmatched') and next_at <= statement_timestamp()
  order by next_at limit $1
  for no key update skip locked
)
update provider_events p set attempts = p.attempts + 1, next_at = clock_timestamp() + make_interval(secs => $2) from due d
where p.tenant_id = d.tenant_id and p.connector = d.connector and p.provider_event_id = d.provider_event_id
returning p.tenant_id, p.connector, p.provider_event_id, coalesce(p.operation_id, ''), coalesce(p.external_id, ''),
  coalesce(p.record_version, ''), coalesce(p.status_text, ''), p.verdict, p.attempts,
  extract(epoch from clock_timestamp() - p.received_at)::float8`

// matchProviderEventsSQL: an event that names an operation is about that one or nothing, whatever else it names.
const matchProviderEventsSQL = `
select i.ord, e.run_id, e.revision, e.ordinal
from unnest($1::text[], $2::text[], $3::uuid[], $4::int[], $5::int[], $6::text[]) with ordinality
  as i(tenant_id, connector, run_id, revision, ordinal, external_id, ord)
cross join lateral (
  select e.run_id, e.revision, e.ordinal from effects e
  where e.run_id = i.run_id and e.tenant_id = i.tenant_id and e.revision = i.revision and e.ordinal = i.ordinal
    and e.connector = i.connector
  union all (
    select e.run_id, e.revision, e.ordinal from effects e
    where e.external_id = i.external_id and e.connector = i.connector and e.tenant_id = i.tenant_id limit 2
  )
) e`

// TakeProviderEvents takes up to limit events that are due, with what each is about. What is not settled within hold is due again.
func (l *Ledger) TakeProviderEvents(ctx context.Context, limit int, hold time.Duration) ([]UnappliedEvent, error) {
	var taken []UnappliedEvent
	err := l.command(ctx, "take provider events", func(ctx context.Context) (err error) {
		taken, err = collect(ctx, l, l.site("take_provider_events"), nil, scanUnapplied, takeProviderEventsSQL, limit, seconds(hold))
		return err
	})
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	return taken, unreadOf("match provider events", l.match(ctx, taken))
}

func unreadOf(what string, err error) error {
	if err == nil {
		return nil
	}
	return unread(what, err)
}

func scanUnapplied(row pgx.CollectableRow) (u UnappliedEvent, err error) {
	var age float64
	err = row.Scan(&u.TenantID, &u.Connector, &u.ID, &u.OperationID, &u.ExternalID, &u.RecordVersion, &u.Status, &u.Verdict,
		&u.Attempts, &age)
	u.Age = time.Duration(age * float64(time.Second))
	return u, err
}

func (l *Ledger) match(ctx context.Context, events []UnappliedEvent) error {
	named := make([]EffectKey, len(events))
	externals := make([]*string, len(events))
	for i := range events {
		if e := &events[i]; e.OperationID != "" {
			// What is no operation id of ours names a run that there is not.
			named[i].RunID, named[i].Revision, named[i].Ordinal, _ = ParseOperationID(e.OperationID)
		} else if e.ExternalID != "" {
			externals[i] = &e.ExternalID
		}
	}
	rows, err := l.pool.Query(ctx, matchProviderEventsSQL,
		column(events, func(e UnappliedEvent) string { return e.TenantID }),
		column(events, func(e UnappliedEvent) string { return e.Connector }),
		column(named, func(k EffectKey) uuid.UUID { return k.RunID }),
		column(named, func(k EffectKey) int32 { return int32(k.Revision) }),
		column(named, func(k EffectKey) int32 { return int32(k.Ordinal) }), externals)
	if err != nil {
		return err
	}
	var ord int
	var key EffectKey
	_, err = pgx.ForEachRow(rows, []any{&ord, &key.RunID, &key.Revision, &key.Ordinal}, func() error {
		e := &events[ord-1]
		key.TenantID = e.TenantID
		e.Matches = append(e.Matches, key)
		return nil
	})
	return err
}

// States of a stored event that has moved nothing. Settle makes it applied, with the move (Settlement.ProviderEvent).
const (
	EventWaiting   = "waiting"   // to be applied later
	EventIgnored   = "ignored"   // it will move nothing
	EventUnmatched = "unmatched" // nobody knows what it is about
)

// EventNote is what is kept of an event that moved nothing.
type EventNote struct {
	*UnappliedEvent
	State  string        // EventWaiting, …
	Detail string        // why, for an operator
	Again  time.Duration // until it is due again, where it still is
}

const noteProviderEventsSQL = `
update provider_events p set state = i.state, detail = nullif(i.detail, ''), next_at = clock_timestamp() + make_interval(secs => i.again),
  run_id = i.run_id, revision = i.revision, ordinal = i.ordinal
from (select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::uuid[], $8::int[], $9::int[])
  as t(tenant_id, connector, id, state, detail, again, run_id, revision, ordinal) offset 0) i
where p.tenant_id = i.tenant_id and p.connector = i.connector and p.provider_event_id = i.id and p.state in ('waiting', 'unmatched')
returning p.provider_event_id`

// NoteProviderEvents keeps why events moved nothing. One that was applied meanwhile stays so.
func (l *Ledger) NoteProviderEvents(ctx context.Context, notes []EventNote) error {
	slices.SortFunc(notes, func(a, b EventNote) int { return a.key().compare(b.key()) })
	var runs []string
	effects := make([]*EffectKey, len(notes))
	for i, n := range notes {
		if len(n.Matches) == 1 {
			effects[i] = &n.Matches[0]
			runs = append(runs, effects[i].RunID.String())
		}
	}
	return l.command(ctx, "note provider events", func(ctx context.Context) error {
		_, err := collect(ctx, l, l.site("note_provider_events"), runs, pgx.RowTo[string], noteProviderEventsSQL,
			column(notes, func(n EventNote) string { return n.TenantID }),
			column(notes, func(n EventNote) string { return n.Connector }),
			column(notes, func(n EventNote) string { return n.ID }),
			column(notes, func(n EventNote) string { return n.State }),
			column(notes, func(n EventNote) string { return storable(n.Detail) }),
			column(notes, func(n EventNote) float64 { return seconds(n.Again) }),
			column(effects, func(k *EffectKey) *uuid.UUID { return partOf(k, func(k *EffectKey) uuid.UUID { return k.RunID }) }),
			column(effects, func(k *EffectKey) *int32 { return partOf(k, func(k *EffectKey) int32 { return int32(k.Revision) }) }),
			column(effects, func(k *EffectKey) *int32 { return partOf(k, func(k *EffectKey) int32 { return int32(k.Ordinal) }) }))
		return err
	})
}

// partOf is a member of a key, nil where there is no key.
func partOf[V any](k *EffectKey, part func(*EffectKey) V) *V {
	if k == nil {
		return nil
	}
	v := part(k)
	return &v
}

// UnmatchedProviderEvents counts the events of which nobody knows what they are about, for alerts.
func (l *Ledger) UnmatchedProviderEvents(ctx context.Context) (n int64, err error) {
	err = l.pool.QueryRow(ctx, "select count(*) from provider_events where state = 'unmatched'").Scan(&n)
	return n, unreadOf("count unmatched provider events", err)
}
