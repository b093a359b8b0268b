package ledger

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// remindSQL has everybody told again who was told, or could not be; what is still on its way need not be sent twice.
const remindSQL = `
with due as materialized (
  select tenant_id, run_id, approval_id from approvals
  where state = 'pending' and remind_at is not null and remind_at <= clock_timestamp()
  order by remind_at limit $1 for no key update skip locked
), told as materialized (
  select n.approval_id, n.channel, n.recipient from notifications n join due d using (approval_id)
  where n.state in ('sent', 'failed') order by n.approval_id, n.channel, n.recipient for no key update of n
), again as (
  update notifications n set state = 'waiting', kind = 'reminder', attempts = 0, next_at = clock_timestamp(), last_error = null,
    sent_at = null
  from told t where n.approval_id = t.approval_id and n.channel = t.channel and n.recipient = t.recipient
), done as (
  update approvals a set remind_at = null from due d where a.approval_id = d.approval_id returning a.*
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, detail)
  select tenant_id, run_id, $2, 'remind', jsonb_build_object('approval_id', approval_id) from due
)
select ` + requestColumns + ` from done a join runs r using (tenant_id, run_id)`

// Remind plans reminders of up to limit pending approvals whose time for it has come, tells the tenant's event stream, and returns how
// many they are (A12).
func (l *Ledger) Remind(ctx context.Context, limit int) (reminded int, err error) {
	err = l.command(ctx, "remind", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("remind"), nil, func(tx pgx.Tx) error {
			told, err := tellRequests(ctx, tx, contracts.RequestReminder, remindSQL, limit, Approval)
			reminded = len(told)
			return err
		})
	})
	return reminded, err
}

const (
	// escalatingSQL also finds approvals that nobody could be told of: they would only expire.
	escalatingSQL = `
select tenant_id, run_id, approval_id, action_type, audience, correlation_id, requested_at, decide_by from approvals
where approval_id = any(array(
  (select approval_id from approvals where state = 'pending' and escalate_at is not null and escalate_at <= clock_timestamp()
   order by escalate_at limit $1)
  union
  (select a.approval_id from approvals a join (select distinct approval_id from notifications where state = 'failed') f using (approval_id)
   where a.state = 'pending' and a.escalate_at is not null and not exists (
     select from notifications n where n.approval_id = a.approval_id and n.state in ('waiting', 'sent'))
   limit $1)))
and state = 'pending' and escalate_at is not null
order by approval_id for no key update skip locked`

	escalatedSQL = `
with planned as (
  insert into notifications as n (tenant_id, approval_id, channel, recipient, kind)
  select tenant_id, approval_id, channel, recipient, 'escalation'
  from unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) as i(tenant_id, approval_id, channel, recipient)
  order by approval_id, channel, recipient
  on conflict (approval_id, channel, recipient) do update set state = 'waiting', kind = 'escalation', attempts = 0,
    next_at = clock_timestamp(), last_error = null, sent_at = null
), widened as (
  update approvals a set escalate_at = null, escalated_at = clock_timestamp(),
    audience = a.audience || array(select r from jsonb_array_elements_text(i.roles) as r where r <> all(a.audience))
  from unnest($5::uuid[], $6::jsonb[]) as i(approval_id, roles) where a.approval_id = i.approval_id
  returning a.*, i.roles
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, detail)
  select tenant_id, run_id, $7, 'escalate', jsonb_build_object('approval_id', approval_id, 'roles', roles) from widened
)
select ` + requestColumns + ` from widened a join runs r using (tenant_id, run_id)
where jsonb_array_length(a.roles) > 0`
)

// Widening is who else may decide an approval from now on, and where they are told of it.
type Widening struct {
	Roles []string
	To    []Address
}

// Escalate lets more people decide up to limit pending approvals whose time for it has come, or of which nobody could be told (A12).
// plan says who; it is asked under the approvals' locks and calls nobody. The tenant's event stream is told of those that
// more people may decide. It returns how many escalated.
func (l *Ledger) Escalate(ctx context.Context, limit int, plan func(*Asked) Widening) (escalated int, err error) {
	err = l.command(ctx, "escalate", func(ctx context.Context) error {
		return l.transactionOf(ctx, l.site("escalate"), func(tx pgx.Tx) ([]string, error) {
			rows, err := tx.Query(ctx, escalatingSQL, limit)
			if err != nil {
				return nil, err
			}
			asked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Asked])
			if escalated = len(asked); err != nil || len(asked) == 0 {
				return nil, err
			}
			var to []Address
			roles := make([]string, len(asked))
			for i := range asked {
				wider := plan(&asked[i])
				roles[i], to = listJSON(wider.Roles), append(to, wider.To...)
			}
			_, err = tellRequests(ctx, tx, contracts.RequestEscalation, escalatedSQL,
				column(to, func(a Address) string { return a.TenantID }),
				column(to, func(a Address) uuid.UUID { return a.ApprovalID }),
				column(to, func(a Address) string { return a.Channel }), column(to, func(a Address) string { return a.Recipient }),
				column(asked, func(a Asked) uuid.UUID { return a.ApprovalID }), roles, Approval)
			return column(asked, func(a Asked) string { return a.RunID.String() }), err
		})
	})
	return escalated, err
}
