package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Asked is a pending approval as a notification tells of it: names and times, nothing of what would be done.
type Asked struct {
	TenantID      string
	RunID         uuid.UUID
	ApprovalID    uuid.UUID
	ActionType    string
	Audience      []string
	CorrelationID string
	RequestedAt   time.Time
	DecideBy      time.Time
}

const unannouncedSQL = `
select tenant_id, run_id, approval_id, action_type, audience, correlation_id, requested_at, decide_by
from approvals where not announced order by requested_at limit $1`

// Unannounced lists approvals that nobody has been told of. They are committed before anybody can be (A1).
func (l *Ledger) Unannounced(ctx context.Context, limit int) ([]Asked, error) {
	rows, err := l.pool.Query(ctx, unannouncedSQL, limit)
	if err == nil {
		var asked []Asked
		if asked, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Asked]); err == nil {
			return asked, nil
		}
	}
	return nil, fmt.Errorf("look for approvals to announce: %w", err)
}

// Address is where one notification goes: a channel of the tenant's configuration, and a recipient within it where it has
// several.
type Address struct {
	TenantID   string
	ApprovalID uuid.UUID
	Channel    string
	Recipient  string
}

// Plan is what follows for an approval that nobody was told of.
type Plan struct {
	ApprovalID   uuid.UUID
	RemindBefore time.Duration // how long before the decide-by; 0 reminds nobody
	// EscalateBefore is how long before the decide-by more people may decide; 0 is never.
	EscalateBefore time.Duration
	Terms          *Terms // that the request keeps from now on; nil keeps none
}

const announceSQL = `
with planned as (
  insert into notifications (tenant_id, approval_id, channel, recipient)
  select i.tenant_id, i.approval_id, i.channel, i.recipient
  from unnest($2::text[], $3::uuid[], $4::text[], $5::text[]) as i(tenant_id, approval_id, channel, recipient)
  join approvals a using (approval_id, tenant_id) where a.state = 'pending'
  on conflict do nothing
), announced as (
  update approvals a set announced = true, remind_at = a.decide_by - make_interval(secs => i.remind),
    escalate_at = a.decide_by - make_interval(secs => i.escalate), terms = coalesce(a.terms, i.terms)
  from unnest($1::uuid[], $6::float8[], $7::float8[], $8::jsonb[]) as i(approval_id, remind, escalate, terms)
  where a.approval_id = i.approval_id and not a.announced
  returning a.*
)
select ` + requestColumns + ` from announced a join runs r using (tenant_id, run_id) where a.state = 'pending'`

// Announce plans the notifications of approvals, their reminders and their escalation, and tells the tenant's event stream that they
// wait. Planned again, it adds none twice.
func (l *Ledger) Announce(ctx context.Context, plans []Plan, to []Address) error {
	return l.command(ctx, "announce", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("announce"), nil, func(tx pgx.Tx) error {
			_, err := tellRequests(ctx, tx, contracts.RequestNew, announceSQL,
				column(plans, func(p Plan) uuid.UUID { return p.ApprovalID }), column(to, func(a Address) string { return a.TenantID }),
				column(to, func(a Address) uuid.UUID { return a.ApprovalID }),
				column(to, func(a Address) string { return a.Channel }), column(to, func(a Address) string { return a.Recipient }),
				column(plans, func(p Plan) *float64 { return secondsOrNull(p.RemindBefore) }),
				column(plans, func(p Plan) *float64 { return secondsOrNull(p.EscalateBefore) }),
				column(plans, func(p Plan) *string { return termsOrNull(p.Terms) }))
			return err
		})
	})
}

func termsOrNull(t *Terms) *string {
	if t == nil {
		return nil
	}
	text := jsonText(t)
	return &text
}

func secondsOrNull(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

// Notice is one notification that is due.
type Notice struct {
	Asked
	Channel   string
	Recipient string
	Kind      string    // one of the Notice… constants
	Attempt   int       // from 1
	ReviewBy  time.Time // until when what was approved alone is looked at; zero for every other kind
}

// Kinds of notifications.
const (
	NoticeRequest    = "request"
	NoticeReminder   = "reminder"
	NoticeEscalation = "escalation"
	NoticeBreakGlass = "break_glass" // somebody approved alone; nothing is to be decided any more
)

// takeNoticesSQL puts off what it takes, so that a process that dies with it is followed by another.
const takeNoticesSQL = `
with due as materialized (
  select approval_id, channel, recipient from notifications where state = 'waiting' and next_at <= clock_timestamp()
  order by next_at limit $1 for update skip locked
), taken as (
  update notifications n set attempts = n.attempts + 1, next_at = clock_timestamp() + make_interval(secs => $2) from due d
  where n.approval_id = d.approval_id and n.channel = d.channel and n.recipient = d.recipient
  returning n.*
)
select a.tenant_id, a.run_id, a.approval_id, a.action_type, a.audience, a.correlation_id, a.requested_at, a.decide_by,
  t.channel, t.recipient, t.kind, t.attempts, case when t.kind = 'break_glass' then g.review_by end
from taken t join approvals a using (approval_id) left join glass_reviews g on g.approval_id = a.approval_id and g.tenant_id = a.tenant_id`

// TakeNotices takes up to limit notifications that are due. What is not recorded as sent within hold is due again.
func (l *Ledger) TakeNotices(ctx context.Context, limit int, hold time.Duration) ([]Notice, error) {
	var taken []Notice
	err := l.command(ctx, "take notices", func(ctx context.Context) (err error) {
		taken, err = collect(ctx, l, l.site("take_notices"), nil, scanNotice, takeNoticesSQL, limit, seconds(hold))
		return err
	})
	return taken, err
}

func scanNotice(row pgx.CollectableRow) (n Notice, err error) {
	var reviewBy *time.Time
	err = row.Scan(&n.TenantID, &n.RunID, &n.ApprovalID, &n.ActionType, &n.Audience, &n.CorrelationID, &n.RequestedAt, &n.DecideBy,
		&n.Channel, &n.Recipient, &n.Kind, &n.Attempt, &reviewBy)
	if reviewBy != nil {
		n.ReviewBy = *reviewBy
	}
	return n, err
}

// NoticeResult is what became of one attempt to tell somebody.
type NoticeResult struct {
	Address
	Kind  string        // of what was sent: where another kind is due by now, that one is not done
	Err   error         // nil: sent
	Again time.Duration // after an error: when to try again, 0 for never
	Moot  bool          // nobody was told, because the approval did not wait any more
}

const recordNoticesSQL = `
with input as materialized (
  select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[])
    as i(approval_id, channel, recipient, state, error, again, kind)
), locked as materialized (
  select n.approval_id, n.channel, n.recipient from notifications n join input i using (approval_id, channel, recipient, kind)
  where n.state = 'waiting' order by n.approval_id, n.channel, n.recipient for no key update of n
)
update notifications n set state = i.state, last_error = nullif(i.error, ''),
  sent_at = case when i.state = 'sent' then clock_timestamp() end, next_at = clock_timestamp() + make_interval(secs => i.again)
from input i join locked using (approval_id, channel, recipient)
where n.approval_id = i.approval_id and n.channel = i.channel and n.recipient = i.recipient`

// RecordNotices keeps the results of attempts. The approvals themselves are not touched by it (A1).
func (l *Ledger) RecordNotices(ctx context.Context, results []NoticeResult) error {
	return l.command(ctx, "record notices", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("record_notice"), nil, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, recordNoticesSQL, column(results, func(r NoticeResult) uuid.UUID { return r.ApprovalID }),
				column(results, func(r NoticeResult) string { return r.Channel }),
				column(results, func(r NoticeResult) string { return r.Recipient }),
				column(results, func(r NoticeResult) string { return r.state() }),
				column(results, func(r NoticeResult) string { return r.text() }),
				column(results, func(r NoticeResult) float64 { return seconds(r.Again) }),
				column(results, func(r NoticeResult) string { return r.Kind }))
			return err
		})
	})
}

func (r *NoticeResult) state() string {
	switch {
	case r.Moot:
		return "moot"
	case r.Err == nil:
		return "sent"
	case r.Again == 0:
		return "failed"
	}
	return "waiting"
}

func (r *NoticeResult) text() string {
	if r.Err == nil {
		return ""
	}
	return storable(r.Err.Error())
}
