-- A run is one business event's journey. Its primary key is the claim: tenant and a digest of the idempotency key, so that
-- a key of any content is a fixed-size index entry. Claim rows are never pruned; payloads are kept apart, so that they can be.
-- Only next_check_at is indexed beside the key: the updates on the way to the end of a run can then stay within the page.

-- +goose Up
create table runs (
  tenant_id        text        not null,
  run_id           uuid        not null, -- the first 128 bits of SHA-256 over tenant and key; the key is compared as well
  idempotency_key  text        not null,
  source           text        not null,
  rules_version    integer     not null, -- of the source's key and hash rules
  payload_hash     bytea       not null,
  hash_version     smallint    not null,
  state            text        not null,
  outcome          text,
  outcome_reason   text,
  version          bigint      not null default 1,
  intent_revision  integer     not null default 0,
  command_id       uuid        not null, -- of the claim, so that a repeated claim learns that it had won
  lease_owner      uuid,
  lease_expires_at timestamptz,
  lease_cap_at     timestamptz,          -- no renewal goes past this
  takeovers        integer     not null default 0,
  correlation_id   text        not null,
  traceparent      text        not null default '',
  next_check_at    timestamptz,          -- when the sweep looks whether the run has moved
  checks           integer     not null default 0,
  created_at       timestamptz not null default clock_timestamp(),
  updated_at       timestamptz not null default clock_timestamp(),
  ended_at         timestamptz,
  constraint runs_pkey primary key (run_id, tenant_id),
  constraint runs_key_length check (octet_length(idempotency_key) between 1 and 255),
  constraint runs_hash_length check (octet_length(payload_hash) = 32),
  constraint runs_state check (state in ('processing', 'awaiting_human', 'approved', 'completed', 'failed_retryable',
                                         'failed_terminal')),
  constraint runs_outcome check (case state
    when 'completed' then coalesce(outcome in ('executed', 'partial'), false)
    when 'failed_terminal' then coalesce(outcome in ('rejected', 'expired', 'denied', 'invalid', 'failed'), false)
    else outcome is null end),
  constraint runs_ended check ((ended_at is not null) = (state in ('completed', 'failed_terminal'))),
  constraint runs_lease check (lease_owner is null or (state = 'processing' and intent_revision = 0
    and lease_expires_at is not null and lease_cap_at is not null)),
  constraint runs_retry_has_no_intent check (state <> 'failed_retryable' or intent_revision = 0)
) with (fillfactor = 80);
create index runs_next_check on runs (next_check_at) where next_check_at is not null;

create table run_payloads (
  tenant_id    text        not null,
  run_id       uuid        not null,
  payload      bytea       not null, -- the event as it was received, byte for byte
  content_type text        not null,
  headers      jsonb       not null,
  received_at  timestamptz not null default clock_timestamp(),
  constraint run_payloads_pkey primary key (run_id, tenant_id)
);

-- The same key with another payload: nothing runs, both hashes are kept.
create table run_conflicts (
  tenant_id     text        not null,
  run_id        uuid        not null,
  payload_hash  bytea       not null,
  payload       bytea       not null,
  first_seen_at timestamptz not null default clock_timestamp(),
  constraint run_conflicts_pkey primary key (run_id, tenant_id, payload_hash),
  constraint run_conflicts_run foreign key (run_id, tenant_id) references runs,
  constraint run_conflicts_hash_length check (octet_length(payload_hash) = 32)
);

-- The active version of each source's rules. A replica that still runs older rules cannot claim under them, because its keys
-- would not meet those of its neighbours.
create table source_rules (
  tenant_id    text        not null,
  source       text        not null,
  version      integer     not null,
  activated_at timestamptz not null default clock_timestamp(),
  constraint source_rules_pkey primary key (tenant_id, source)
);

-- An intent is the immutable canonical snapshot that a rule or a person authorises. Its hash covers the revision, so the hash
-- names it; the bytes are kept as bytes, because a hash over re-read jsonb never matches.
create table intents (
  tenant_id    text        not null,
  run_id       uuid        not null,
  intent_hash  bytea       not null,
  revision     integer     not null,
  canonical    bytea       not null,
  action_type  text        not null,
  model        jsonb       not null default '{}',
  submitted_by uuid,                 -- the lease owner who proposed it; null where the event carried it
  created_at   timestamptz not null default clock_timestamp(),
  constraint intents_pkey primary key (run_id, tenant_id, intent_hash),
  constraint intents_run foreign key (run_id, tenant_id) references runs,
  constraint intents_hash_matches check (intent_hash = sha256(canonical)),
  constraint intents_revision check (revision >= 1)
);

-- +goose Down
drop table intents, source_rules, run_conflicts, run_payloads, runs;
