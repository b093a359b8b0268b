package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Parked is a message that could not be processed. It is kept with its reason where an operator sees it, and blocks nobody (B5).
type Parked struct {
	Message    string // the message's place at the broker, by which it is parked once; "" parks it whenever it is asked to
	Consumer   string
	TenantID   string
	Subject    string
	EventID    uuid.UUID // uuid.Nil where it has none of ours
	Reason     string    // a problem code
	Detail     string    // for people
	Headers    map[string]string
	Body       []byte
	Deliveries int
	// Refusal is what the tenant is told, where the message was the tenant's; nil where it was ours.
	Refusal *contracts.RunRefused
}

const parkSQL = `
with input as materialized (
  select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::jsonb[], $8::bytea[], $9::int[],
    $10::uuid[], $11::text[], $12::text[], $13::bytea[])
  as t(parked_id, consumer, tenant_id, subject, inbox_event, reason, headers, body, deliveries, event_id, stream, out_subject, event)
), kept as (
  insert into parked_messages (parked_id, consumer, tenant_id, subject, event_id, reason, headers, body, deliveries)
  select parked_id, consumer, tenant_id, subject, inbox_event, reason, headers, body, deliveries from input
  on conflict do nothing returning parked_id
), log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, '00000000-0000-0000-0000-000000000000', stream, out_subject, event
  from input join kept using (parked_id) where event_id is not null
), queue as (insert into pending (event_id) select event_id from input join kept using (parked_id) where event_id is not null)
select parked_id from kept`

// inboxSQL marks the events of parked messages as handled. It is apart because intake, whose messages are not ours, has no inbox.
const inboxParkedSQL = `insert into inbox (consumer, event_id, parked)
select $1, event_id, true from unnest($2::uuid[]) as t(event_id) order by event_id on conflict do nothing`

// parked is a Parked on its way into the table.
type parked struct {
	Parked
	id    uuid.UUID
	event outgoing
}

func newParked(m Parked) parked {
	p := parked{Parked: m, id: uuid.New()}
	if m.Message != "" {
		p.id = uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:parked/"+m.Consumer+"/"+m.Message))
	}
	if m.Refusal != nil {
		event, err := newOutgoing(m.TenantID, uuid.Nil, "", m.Refusal)
		if err != nil {
			p.Detail += fmt.Sprintf(" (the tenant was not told: %v)", err)
		} else {
			p.event = event
		}
	}
	return p
}

func (p *parked) reason() string { return storable(strings.TrimSuffix(p.Reason+": "+p.Detail, ": ")) }

// body is never null: an empty message is one that can be parked, too.
func (p *parked) body() []byte { return append([]byte{}, p.Body...) }

// Park keeps the messages, and tells the tenant of those that were the tenant's. What cannot be told is kept all the same, with
// the reason: a message that cannot be parked would block its stream. One that comes again, because the
// acknowledgement was lost, is neither kept nor told a second time.
func (l *Ledger) Park(ctx context.Context, messages []Parked) error {
	items := make([]parked, len(messages))
	for i := range messages {
		items[i] = newParked(messages[i])
	}
	return l.command(ctx, "park", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("park"), nil, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, parkSQL, parkArgs(items)...); err != nil {
				return err
			}
			return l.parkInInbox(ctx, tx, items)
		})
	})
}

func (l *Ledger) parkInInbox(ctx context.Context, tx pgx.Tx, items []parked) error {
	consumer := map[string]int16{Policy: inboxPolicy, Dispatcher: inboxDispatcher}[l.service]
	var events []uuid.UUID
	for _, p := range items {
		if p.EventID != uuid.Nil {
			events = append(events, p.EventID)
		}
	}
	if consumer == 0 || len(events) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, inboxParkedSQL, consumer, events)
	return err
}

func parkArgs(items []parked) []any {
	return []any{
		column(items, func(p parked) uuid.UUID { return p.id }),
		column(items, func(p parked) string { return p.Consumer }),
		column(items, func(p parked) string { return storable(p.TenantID) }),
		column(items, func(p parked) string { return storable(p.Subject) }),
		column(items, func(p parked) *uuid.UUID { return orNil(p.EventID) }),
		column(items, func(p parked) string { return p.reason() }),
		column(items, func(p parked) string { return headersJSON(p.Headers) }),
		column(items, func(p parked) []byte { return p.body() }),
		column(items, func(p parked) int32 { return int32(p.Deliveries) }),
		column(items, func(p parked) *uuid.UUID { return orNil(p.event.id) }),
		column(items, func(p parked) string { return p.event.stream }),
		column(items, func(p parked) string { return p.event.subject }),
		column(items, func(p parked) []byte { return p.event.payload }),
	}
}
