package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// EventDismissed is the state of an event of which an operator has said that it is about nothing of ours.
const EventDismissed = "dismissed"

// EventFilter selects stored events of a tenant.
type EventFilter struct {
	TenantID  string
	Connector string    // "" is any
	State     string    // "" is any
	Since     time.Time // received since then; zero is ever
	Limit     int
}

// StoredEvent is what is known of an event without its body, which may hold personal data.
type StoredEvent struct {
	ProviderEvent           // without Body
	ReceivedAt    time.Time // by the database's clock; likewise below
	Size          int       // of the body, in bytes
	Digest        []byte    // SHA-256 of the body
	State         string
	Detail        string // why it moved nothing, or what it moved
	Attempts      int    // to apply it
	NextAt        time.Time
	Effect        *EffectKey // that it is about, nil while nobody knows
	Now           time.Time
}

const storedEventColumns = `
select tenant_id, connector, provider_event_id, coalesce(operation_id, ''), coalesce(external_id, ''), coalesce(record_version, ''),
  coalesce(status_text, ''), verdict, received_at, octet_length(body), body_digest, state, coalesce(detail, ''), attempts, next_at,
  run_id, revision, ordinal, clock_timestamp()
from provider_events `

func scanStoredEvent(row pgx.CollectableRow) (e StoredEvent, err error) {
	var run *uuid.UUID
	var revision, ordinal *int
	err = row.Scan(&e.TenantID, &e.Connector, &e.ID, &e.OperationID, &e.ExternalID, &e.RecordVersion, &e.Status, &e.Verdict, &e.ReceivedAt,
		&e.Size, &e.Digest, &e.State, &e.Detail, &e.Attempts, &e.NextAt, &run, &revision, &ordinal, &e.Now)
	if err == nil && run != nil {
		e.Effect = &EffectKey{TenantID: e.TenantID, RunID: *run, Revision: *revision, Ordinal: *ordinal}
	}
	return e, err
}

// StoredEvents lists events, the oldest first.
func (l *Ledger) StoredEvents(ctx context.Context, f EventFilter) ([]StoredEvent, error) {
	rows, err := l.pool.Query(ctx, storedEventColumns+`where tenant_id = $1 and ($2 = '' or connector = $2) and ($3 = '' or state = $3)
  and received_at >= $4 order by received_at, connector, provider_event_id limit $5`, f.TenantID, f.Connector, f.State, f.Since, f.Limit)
	if err != nil {
		return nil, unread("list providers' events", err)
	}
	events, err := pgx.CollectRows(rows, scanStoredEvent)
	return events, unreadOf("list providers' events", err)
}

// ErrNoEvent means that no event is stored under that id.
var ErrNoEvent = errors.New("no such event of a provider is stored")

// StoredEvent reads one event.
func (l *Ledger) StoredEvent(ctx context.Context, tenant, connector, id string) (e StoredEvent, err error) {
	rows, err := l.pool.Query(ctx, storedEventColumns+"where tenant_id = $1 and connector = $2 and provider_event_id = $3", tenant, connector, id)
	if err == nil {
		e, err = pgx.CollectExactlyOneRow(rows, scanStoredEvent)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return e, ErrNoEvent
	}
	return e, unreadOf("read a provider's event", err)
}

// What an operator does about an event.
const (
	EventReplay   = "replay"    // it is matched and applied anew, as if it had just come
	EventDismiss  = "dismiss"   // it is about nothing of ours, and nobody is called about it any more
	EventReadBody = "read_body" // its body was shown
)

// eventVerbs are from which states each is done. What was applied has moved its effect and stays so, and what waits is being applied.
var eventVerbs = map[string][]string{
	EventReplay:   {EventUnmatched, EventIgnored, EventDismissed},
	EventDismiss:  {EventUnmatched},
	EventReadBody: {EventWaiting, EventUnmatched, EventIgnored, EventDismissed, "applied"},
}

// EventCommand is what an operator does about one event, with who and why.
type EventCommand struct {
	CommandID               uuid.UUID // a repeated command is one change; uuid.Nil is a new one
	TenantID, Connector, ID string
	Verb                    string // EventReplay, EventDismiss or EventReadBody
	By, Reason              string
}

// EventChanged is what became of a command.
type EventChanged struct {
	Made bool
	From string // the state that it was in
	Body []byte // with EventReadBody alone
}

// settleEventSQL is compare-and-set: an event that has moved on is left alone. One that is being applied at this moment is applied: its
// effect's move stands, and both are in the audit.
const settleEventSQL = `
with done as materialized (select from_state from provider_event_changes where command_id = $4),
before as materialized (
  select state from provider_events where tenant_id = $1 and connector = $2 and provider_event_id = $3 for no key update
), moved as (
  update provider_events p set
    state = case $5 when 'replay' then 'waiting' when 'dismiss' then 'dismissed' else p.state end,
    attempts = case $5 when 'replay' then 0 else p.attempts end,
    next_at = case $5 when 'replay' then clock_timestamp() else p.next_at end
  from before b
  where p.tenant_id = $1 and p.connector = $2 and p.provider_event_id = $3 and b.state = any($6) and not exists (select from done)
  returning b.state
), kept as (
  insert into provider_event_changes (tenant_id, connector, provider_event_id, command_id, verb, from_state, changed_by, reason)
  select $1, $2, $3, $4, $5, state, $7, $8 from moved
)
select coalesce((select from_state from done), (select state from before), ''), exists (select from done) or exists (select from moved),
  case when $5 = 'read_body' then (select body from provider_events where tenant_id = $1 and connector = $2 and provider_event_id = $3) end`

// SettleEvent does what an operator wants with an event, and keeps who wanted it and why. It is not made where the event has moved on.
func (l *Ledger) SettleEvent(ctx context.Context, c EventCommand) (changed EventChanged, err error) {
	from, known := eventVerbs[c.Verb]
	switch {
	case !known:
		return changed, fmt.Errorf("%q is nothing that is done about an event", c.Verb)
	case c.By == "" || c.Reason == "":
		return changed, errors.New("what is done about an event is done by somebody and for a reason: give both")
	}
	if c.CommandID == uuid.Nil {
		c.CommandID = uuid.New()
	}
	err = l.command(ctx, "settle a provider's event", func(ctx context.Context) error {
		rows, err := collect(ctx, l, l.site("settle_provider_event"), nil, pgx.RowToStructByPos[struct {
			From string
			Made bool
			Body []byte
		}], settleEventSQL, c.TenantID, c.Connector, c.ID, c.CommandID, c.Verb, from, c.By, storable(c.Reason))
		if err == nil {
			changed = EventChanged{Made: rows[0].Made, From: rows[0].From, Body: slices.Clone(rows[0].Body)}
		}
		return err
	})
	switch {
	case err == nil && changed.From == "":
		err = ErrNoEvent
	case err == nil && !changed.Made:
		changed.Body = nil
	}
	return changed, err
}

// EventChange is something that an operator did about an event.
type EventChange struct {
	Verb      string
	From      string
	ChangedBy string
	Reason    string
	ChangedAt time.Time
}

// EventChanges lists what operators did about an event, the latest first, at most 100.
func (l *Ledger) EventChanges(ctx context.Context, tenant, connector, id string) ([]EventChange, error) {
	rows, err := l.pool.Query(ctx, `select verb, from_state, changed_by, reason, changed_at from provider_event_changes
where tenant_id = $1 and connector = $2 and provider_event_id = $3 order by change_id desc limit 100`, tenant, connector, id)
	if err != nil {
		return nil, unread("read what was done about an event", err)
	}
	changes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EventChange])
	return changes, unreadOf("read what was done about an event", err)
}

// UnmatchedSum is how many events of a connector are about nothing that is known.
type UnmatchedSum struct {
	TenantID  string
	Connector string
	Count     int
	Oldest    time.Time
	Now       time.Time
}

// UnmatchedEvents counts the events of tenants that are about nothing that is known, connector by connector.
func (l *Ledger) UnmatchedEvents(ctx context.Context, tenants []string) ([]UnmatchedSum, error) {
	rows, err := l.pool.Query(ctx, `select tenant_id, connector, count(*)::int, min(received_at), clock_timestamp() from provider_events
where state = 'unmatched' and tenant_id = any($1) group by tenant_id, connector order by tenant_id, connector`, tenants)
	if err != nil {
		return nil, unread("count unmatched providers' events", err)
	}
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByPos[UnmatchedSum])
	return sums, unreadOf("count unmatched providers' events", err)
}
