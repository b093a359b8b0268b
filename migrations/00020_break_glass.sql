-- In an emergency one person may approve alone, flagged: others look at it afterwards and say whether it was right (A16).

-- +goose Up
alter table reviews drop constraint reviews_decision,
  add constraint reviews_decision check (decision in ('approve', 'reject', 'send_back', 'break_glass')),
  add constraint reviews_alone_for_oneself check (decision <> 'break_glass' or for_issuer is null);

alter table notifications drop constraint notifications_kind,
  add constraint notifications_kind check (kind in ('request', 'reminder', 'escalation', 'break_glass'));

-- One row for each approval that somebody gave alone. It waits for somebody else until verdict is set, once.
create table glass_reviews (
  tenant_id         text        not null,
  run_id            uuid        not null,
  approval_id       uuid        not null,
  broken_by_issuer  text        not null,
  broken_by_subject text        not null,
  broken_by_id      text        not null, -- how people know whoever approved alone
  broken_reason     text        not null,
  broken_at         timestamptz not null,
  review_by         timestamptz not null,
  audience          text[]      not null, -- roles of which one may judge
  verdict           text,
  command_id        uuid,
  issuer            text,
  subject           text,
  reviewer_id       text,
  authority         jsonb,
  reason            text,
  channel           text,
  page_digest       bytea,
  judged_at         timestamptz,
  constraint glass_reviews_pkey primary key (approval_id, tenant_id),
  constraint glass_reviews_approval foreign key (approval_id, tenant_id) references approvals (approval_id, tenant_id),
  constraint glass_reviews_said check (broken_reason ~ '\S'),
  constraint glass_reviews_time check (review_by > broken_at),
  constraint glass_reviews_audience check (audience <> '{}'),
  constraint glass_reviews_verdict check (verdict in ('right', 'wrong')),
  constraint glass_reviews_judged check ((verdict is null) = (judged_at is null) and (verdict is null) = (command_id is null)
    and (verdict is null) = (issuer is null) and (verdict is null) = (subject is null) and (verdict is null) = (reviewer_id is null)
    and (verdict is null) = (authority is null) and (verdict is null) = (reason is null) and (verdict is null) = (channel is null)),
  constraint glass_reviews_wrong_said check (verdict <> 'wrong' or reason ~ '\S'),
  constraint glass_reviews_reason_length check (char_length(reason) <= 2000),
  constraint glass_reviews_channel check (channel in ('web', 'api')),
  constraint glass_reviews_another check ((issuer, subject) <> (broken_by_issuer, broken_by_subject) and reviewer_id <> broken_by_id)
);
create index glass_reviews_waiting on glass_reviews (tenant_id, review_by) where verdict is null;

grant select on glass_reviews to holdpoint_approval, holdpoint_operator;
grant insert (tenant_id, run_id, approval_id, broken_by_issuer, broken_by_subject, broken_by_id, broken_reason, broken_at, review_by,
  audience) on glass_reviews to holdpoint_approval;
grant update (verdict, command_id, issuer, subject, reviewer_id, authority, reason, channel, page_digest, judged_at)
  on glass_reviews to holdpoint_approval;

-- +goose Down
drop table glass_reviews;
alter table notifications drop constraint notifications_kind,
  add constraint notifications_kind check (kind in ('request', 'reminder', 'escalation'));
alter table reviews drop constraint reviews_alone_for_oneself, drop constraint reviews_decision,
  add constraint reviews_decision check (decision in ('approve', 'reject', 'send_back'));
