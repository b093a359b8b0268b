-- The human gate. Votes are appended and never changed; what they come to is a pure function of them. A token proves which
-- request a link belongs to and is kept as a hash only. What is told to whom is rows of its own, so that a notification can fail
-- or be repeated without touching the approval.

-- +goose Up
-- Who asked for the event and which credential brought it in: neither may approve it.
alter table runs
  add column requested_by text not null default '', -- as the event says it; a name of the configuration's people
  add column sent_by      text not null default ''; -- the API key's name, or nats

create index approvals_due on approvals (decide_by) where state = 'pending';
create index approvals_open on approvals (tenant_id, decide_by) where state = 'pending';
create index approvals_decided on approvals (tenant_id, decided_at desc) where state <> 'pending';
create index approvals_correlation on approvals (tenant_id, correlation_id);
alter table approvals
  add column announced boolean not null default false; -- its notifications have been planned
create index approvals_unannounced on approvals (requested_at) where not announced;

-- What belongs to an approval carries its tenant too, so that no row can point across tenants.
alter table approvals add constraint approvals_of_tenant unique (approval_id, tenant_id);

create table reviews (
  tenant_id   text        not null,
  run_id      uuid        not null,
  approval_id uuid        not null,
  ordinal     integer     not null, -- within the approval
  command_id  uuid        not null, -- of the vote, so that a repeated one is told what it came to
  decision    text        not null,
  issuer      text        not null,
  subject     text        not null,
  reviewer_id text        not null, -- how people know the reviewer
  authority   jsonb       not null, -- what the vote relied on: roles, the claims they came from, times of sign-in
  reason      text        not null,
  channel     text        not null,
  intent_hash bytea       not null, -- what was shown
  page_digest bytea,
  decided_at  timestamptz not null default clock_timestamp(),
  constraint reviews_pkey primary key (run_id, tenant_id, approval_id, ordinal),
  constraint reviews_approval foreign key (approval_id, tenant_id) references approvals (approval_id, tenant_id),
  constraint reviews_one_vote unique (approval_id, issuer, subject),
  constraint reviews_decision check (decision in ('approve', 'reject')),
  constraint reviews_person check (issuer <> '' and subject <> '' and reviewer_id <> ''),
  constraint reviews_channel check (channel in ('web', 'api')),
  constraint reviews_reason_length check (char_length(reason) <= 2000)
);

create table approval_tokens (
  token_hash  bytea       not null, -- SHA-256; the token itself is nowhere
  tenant_id   text        not null,
  run_id      uuid        not null,
  approval_id uuid        not null,
  recipient   text        not null, -- channel and address
  decisions   text[]      not null,
  minted_at   timestamptz not null default clock_timestamp(),
  expires_at  timestamptz not null,
  spent_at    timestamptz,          -- used, revoked by a newer one, or ended with its approval
  constraint approval_tokens_pkey primary key (token_hash),
  constraint approval_tokens_approval foreign key (approval_id, tenant_id) references approvals (approval_id, tenant_id),
  constraint approval_tokens_hash_length check (octet_length(token_hash) = 32),
  constraint approval_tokens_decisions check (decisions <@ array['approve', 'reject'] and decisions <> '{}')
);
create unique index approval_tokens_live on approval_tokens (approval_id, recipient) where spent_at is null;

create table notifications (
  tenant_id   text        not null,
  approval_id uuid        not null,
  channel     text        not null,
  recipient   text        not null, -- an address of the channel, or empty where it has one
  state       text        not null default 'waiting',
  attempts    integer     not null default 0,
  next_at     timestamptz not null default clock_timestamp(),
  last_error  text,
  sent_at     timestamptz,
  constraint notifications_pkey primary key (approval_id, channel, recipient),
  constraint notifications_approval foreign key (approval_id, tenant_id) references approvals (approval_id, tenant_id),
  constraint notifications_state check (state in ('waiting', 'sent', 'failed', 'moot')),
  constraint notifications_sent check ((sent_at is not null) = (state = 'sent'))
);
create index notifications_due on notifications (next_at) where state = 'waiting';

-- Of the web pages; the token is kept as a hash.
create table sessions (
  token  text        not null,
  data   bytea       not null,
  expiry timestamptz not null,
  constraint sessions_pkey primary key (token)
);
create index sessions_expiry on sessions (expiry);

-- The approval service moves runs that wait for people and nothing else; it may insert the effects of an approval and let one
-- that was sent back be sent, but has no column with which to lease or complete one.
grant select on runs, run_payloads, intents, policy_decisions, approvals, authorizations, effects, effect_attempts, lookups,
  reviews, approval_tokens, notifications, audit_events to holdpoint_approval;
grant insert on audit_events, event_log, pending, notifications, approval_tokens to holdpoint_approval;
grant update (state, outcome, outcome_reason, version, next_check_at, updated_at, ended_at) on runs to holdpoint_approval;
grant update (state, decided_at, announced) on approvals to holdpoint_approval;
grant insert (tenant_id, run_id, approval_id, ordinal, command_id, decision, issuer, subject, reviewer_id, authority, reason, channel,
  intent_hash, page_digest, decided_at) on reviews to holdpoint_approval;
grant update (spent_at) on approval_tokens to holdpoint_approval;
grant update (state, attempts, next_at, last_error, sent_at) on notifications to holdpoint_approval;
grant insert (tenant_id, run_id, intent_hash, authorization_id, approval_id, approval_state, execute_by) on authorizations
  to holdpoint_approval;
grant insert (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation,
  target_system, target_record, execute_by, next_check_at) on effects to holdpoint_approval;
grant update (state, hold_reason, open, authorization_id, execute_by, next_check_at, updated_at) on effects to holdpoint_approval;
grant select, insert, update, delete on sessions to holdpoint_approval;
grant select on reviews, approval_tokens, notifications to holdpoint_operator;

-- +goose Down
revoke all on all tables in schema public from holdpoint_approval;
drop table sessions, notifications, approval_tokens, reviews;
drop index approvals_unannounced, approvals_correlation, approvals_decided, approvals_open, approvals_due;
alter table approvals drop constraint approvals_of_tenant, drop column announced;
alter table runs drop column sent_by, drop column requested_by;
