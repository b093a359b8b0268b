-- Acting with no person asked, within bounds that people set (P4). What a rule holds for a while is not sent before not_before, and
-- can be taken back until cancel_until, which is earlier (D14). A rule that makes exceptions on the strength of an evaluation is a
-- class: people look at a sample of its cases afterwards, drawn with a seed that nobody outside knows, and a class that was stopped
-- stays stopped.

-- +goose Up
alter table effects
  add column cancel_until timestamptz, -- what people are told
  add column not_before   timestamptz, -- what the dispatcher keeps to
  add constraint effects_window check ((cancel_until is null) = (not_before is null) and cancel_until < not_before);
create index effects_held_back on effects (not_before) where not_before is not null and state = 'pending';

create table exception_classes (
  class_id      uuid        not null, -- derived from the next three
  tenant_id     text        not null,
  rule_id       text        not null,
  evaluation_id text        not null,
  seed          uuid        not null default gen_random_uuid(), -- of the choice of samples
  since         timestamptz not null default clock_timestamp(),
  stopped_at    timestamptz,
  stopped_by    text,
  stop_reason   text,
  constraint exception_classes_pkey primary key (class_id, tenant_id),
  constraint exception_classes_rule unique (tenant_id, rule_id, evaluation_id),
  constraint exception_classes_stopped check ((stopped_at is null) = (stopped_by is null) and (stopped_at is null) = (stop_reason is null))
);

-- One row for each case that a class let act. A sample waits for people until verdict is set, once.
create table exception_uses (
  tenant_id   text        not null,
  run_id      uuid        not null,
  intent_hash bytea       not null,
  class_id    uuid        not null,
  used_at     timestamptz not null default clock_timestamp(),
  sample_id   uuid,
  review_by   timestamptz,
  audience    text[],
  verdict     text,
  command_id  uuid,
  issuer      text,
  subject     text,
  reviewer_id text,
  authority   jsonb,
  reason      text,
  channel     text,
  page_digest bytea,
  judged_at   timestamptz,
  constraint exception_uses_pkey primary key (run_id, tenant_id, intent_hash, class_id),
  constraint exception_uses_intent foreign key (run_id, tenant_id, intent_hash) references intents,
  constraint exception_uses_class foreign key (class_id, tenant_id) references exception_classes,
  constraint exception_uses_sample unique (sample_id),
  constraint exception_uses_sampled check ((sample_id is null) = (review_by is null) and (sample_id is null) = (audience is null)),
  constraint exception_uses_verdict check (verdict in ('right', 'wrong')),
  constraint exception_uses_judged check ((verdict is null) = (judged_at is null) and (verdict is null) = (reviewer_id is null)
    and (verdict is null or sample_id is not null))
);
create index exception_uses_waiting on exception_uses (class_id, review_by) where sample_id is not null and verdict is null;
create index exception_uses_class_uses on exception_uses (class_id, used_at);

grant insert (cancel_until, not_before) on effects to holdpoint_policy;
grant select on exception_classes, exception_uses to holdpoint_policy, holdpoint_approval, holdpoint_dispatcher, holdpoint_operator;
grant insert (class_id, tenant_id, rule_id, evaluation_id) on exception_classes to holdpoint_policy;
grant insert (tenant_id, run_id, intent_hash, class_id, sample_id, review_by, audience) on exception_uses to holdpoint_policy;
grant update (stopped_at, stopped_by, stop_reason) on exception_classes to holdpoint_approval;
grant update (verdict, command_id, issuer, subject, reviewer_id, authority, reason, channel, page_digest, judged_at)
  on exception_uses to holdpoint_approval;

-- +goose Down
drop table exception_uses, exception_classes;
drop index effects_held_back;
alter table effects drop constraint effects_window, drop column not_before, drop column cancel_until;
