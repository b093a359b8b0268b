-- An effect is one external write. next_check_at is when somebody must look at it again: the dispatcher where it is pending, the
-- reconciler where it is sending (then it is the end of the lease), accepted or unknown. The state stands before it in the
-- index, so that a backlog of one kind costs those who look for another nothing.

-- +goose Up
create table effects (
  tenant_id        text        not null,
  run_id           uuid        not null,
  revision         integer     not null, -- of the intent
  ordinal          integer     not null, -- of the action within the intent
  intent_hash      bytea       not null,
  authorization_id uuid        not null,
  operation_id     text        not null, -- names run, revision and ordinal; the provider's idempotency key derives from it
  action_type      text        not null,
  connector        text        not null,
  operation        text        not null,
  target_system    text        not null,
  target_record    text        not null,
  state            text        not null default 'pending',
  hold_reason      text,
  open             boolean     not null default true,
  maybe_sent       boolean     not null default false, -- some attempt may have reached the provider
  unread_outcome   boolean     not null default false, -- a former owner reported after it had lost the effect
  first_sent_at    timestamptz,                        -- the start of the provider's key window
  execute_by       timestamptz not null,
  attempts         integer     not null default 0,
  lease_owner      uuid,
  lease_expires_at timestamptz,
  lookups          integer     not null default 0,
  absences         integer     not null default 0,     -- conclusive "not there" answers in a row
  unknown_since    timestamptz,
  external_id      text,
  record_version   text,
  move_id          uuid,                               -- of the last settlement, so that a repeated one learns that it was made
  next_check_at    timestamptz not null,
  created_at       timestamptz not null default clock_timestamp(),
  updated_at       timestamptz not null default clock_timestamp(),
  constraint effects_pkey primary key (run_id, tenant_id, revision, ordinal),
  constraint effects_authorized foreign key (run_id, tenant_id, intent_hash, authorization_id) references authorizations,
  constraint effects_operation check (operation_id = 'op1-' || run_id::text || '-' || revision || '-' || ordinal),
  constraint effects_state check (state in ('pending', 'sending', 'accepted', 'completed', 'unknown', 'held', 'failed',
                                            'cancelled')),
  constraint effects_open check (open = (state not in ('completed', 'failed', 'cancelled'))),
  constraint effects_held check ((state = 'held') = (hold_reason is not null)),
  constraint effects_hold_reason check (hold_reason in ('exhausted', 'unauthorized', 'incident', 'disputed', 'recalled',
                                                        'review')),
  constraint effects_lease check ((state = 'sending') = (lease_owner is not null and lease_expires_at is not null)),
  constraint effects_sent_is_recorded check (not maybe_sent or first_sent_at is not null)
) with (fillfactor = 80);
create index effects_due on effects (connector, state, next_check_at) where open;
create index effects_target on effects (target_record, target_system, tenant_id) where state in ('sending', 'unknown');

-- An attempt is committed before the first byte leaves; its outcome is added once, by whoever made the attempt, even when the
-- effect is no longer theirs.
create table effect_attempts (
  tenant_id           text        not null,
  run_id              uuid        not null,
  revision            integer     not null,
  ordinal             integer     not null,
  attempt             integer     not null,
  owner               uuid        not null,
  switch_epoch        bigint      not null,
  started_at          timestamptz not null default clock_timestamp(),
  class               text,
  sent                boolean,
  http_status         integer,
  external_id         text,
  provider_request_id text,
  request_digest      bytea,
  duration            interval,
  detail              text,
  finished_at         timestamptz,
  constraint effect_attempts_pkey primary key (run_id, tenant_id, revision, ordinal, attempt),
  constraint effect_attempts_finished check ((finished_at is null) = (class is null))
) with (fillfactor = 80);

-- What was read to settle an unknown effect, every time, also when the answer was "not there".
create table lookups (
  tenant_id   text        not null,
  run_id      uuid        not null,
  revision    integer     not null,
  ordinal     integer     not null,
  lookup      integer     not null,
  looked_at   timestamptz not null default clock_timestamp(),
  verdict     text        not null,
  conclusive  boolean     not null,
  external_id text,
  evidence    text        not null,
  constraint lookups_pkey primary key (run_id, tenant_id, revision, ordinal, lookup),
  constraint lookups_verdict check (verdict in ('found', 'absent', 'unclear', 'several'))
);

-- +goose Down
drop table lookups, effect_attempts, effects;
