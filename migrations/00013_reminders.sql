-- Who was told of a request is reminded before it expires, and if nobody decides, more people may (A12).

-- +goose Up
alter table approvals
  add column remind_at    timestamptz, -- null: nobody is to be reminded any more
  add column escalate_at  timestamptz, -- null: it does not escalate, or has
  add column escalated_at timestamptz;
create index approvals_remind on approvals (remind_at) where state = 'pending' and remind_at is not null;
create index approvals_escalate on approvals (escalate_at) where state = 'pending' and escalate_at is not null;

alter table notifications add column kind text not null default 'request',
  add constraint notifications_kind check (kind in ('request', 'reminder', 'escalation'));
create index notifications_failed on notifications (approval_id) where state = 'failed';

grant update (remind_at, escalate_at, escalated_at, audience) on approvals to holdpoint_approval;
grant update (kind) on notifications to holdpoint_approval;

-- +goose Down
drop index notifications_failed, approvals_escalate, approvals_remind;
alter table notifications drop column kind;
alter table approvals drop column remind_at, drop column escalate_at, drop column escalated_at;
