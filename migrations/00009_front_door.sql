-- What waits for a worker is a narrow queue of its own, because an index on the state of runs would end the cheap updates within
-- their pages. A row says when its run may be given to a worker next; the run itself says whether it may be (K6).

-- +goose Up
alter table runs add column attempts integer not null default 0; -- how often the run was given to a worker

create table waiting_runs (
  tenant_id    text        not null,
  run_id       uuid        not null,
  source       text        not null,
  available_at timestamptz not null, -- not before; the end of a lease, as far as is known
  owner        uuid,                 -- of the last lease that was taken here, so that a repeated request finds it
  constraint waiting_runs_pkey primary key (run_id, tenant_id),
  constraint waiting_runs_run foreign key (run_id, tenant_id) references runs
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index waiting_runs_due on waiting_runs (tenant_id, source, available_at);
create index waiting_runs_owner on waiting_runs (owner) where owner is not null;
insert into waiting_runs (tenant_id, run_id, source, available_at)
  select tenant_id, run_id, source, coalesce(lease_expires_at, created_at) from runs
  where state in ('processing', 'failed_retryable') and intent_revision = 0;

-- A correction is a run of its own; what it corrects had ended, and stays as it is (K10).
create table corrections (
  tenant_id        text        not null,
  run_id           uuid        not null,
  original_run     uuid        not null,
  corrected_by     text        not null, -- as the event says it; may not approve the correction
  reason           text        not null,
  original_outcome text        not null,
  original_effects jsonb       not null, -- what the original had done when it was corrected
  made_at          timestamptz not null default clock_timestamp(),
  constraint corrections_pkey primary key (run_id, tenant_id),
  constraint corrections_run foreign key (run_id, tenant_id) references runs,
  constraint corrections_original_run foreign key (original_run, tenant_id) references runs,
  constraint corrections_of_another check (original_run <> run_id),
  constraint corrections_accountable check (corrected_by <> '' and reason <> '')
);
create index corrections_original on corrections (original_run, tenant_id);

-- Intents of different keys that want nearly the same have the same digest here (K13). Null where the type does not ask for it.
alter table intents add column near_hash bytea;
create index intents_near on intents (tenant_id, near_hash, created_at) where near_hash is not null;

-- Runs are found by correlation id (K12), and lists of them by age. A hash keeps the entries small, the ranges of pages smaller.
create index runs_correlation on runs (hashtextextended(correlation_id, 0));
create index runs_created on runs using brin (created_at) with (pages_per_range = 16, autosummarize = on);

-- Who asked to be called when a run has ended. The address may be a capability of its own, such as the resume URL of a workflow
-- that waits: it goes nowhere else.
create table callbacks (
  tenant_id   text        not null,
  run_id      uuid        not null,
  callback_id uuid        not null, -- of run and address; the receiver tells repeats by it
  url         text        not null,
  state       text        not null default 'waiting',
  attempts    integer     not null default 0,
  next_at     timestamptz not null default clock_timestamp(),
  last_error  text,
  made_at     timestamptz not null default clock_timestamp(),
  sent_at     timestamptz,
  constraint callbacks_pkey primary key (run_id, tenant_id, callback_id),
  constraint callbacks_run foreign key (run_id, tenant_id) references runs,
  constraint callbacks_state check (state in ('waiting', 'sent', 'failed')),
  constraint callbacks_sent check ((sent_at is not null) = (state = 'sent')),
  constraint callbacks_url_length check (octet_length(url) <= 2048)
);
create index callbacks_due on callbacks (next_at) where state = 'waiting';

grant select, insert on callbacks to holdpoint_intake;
grant update (state, attempts, next_at, last_error, sent_at) on callbacks to holdpoint_intake;
grant select on callbacks to holdpoint_operator;
grant select, insert, update, delete on waiting_runs to holdpoint_intake;
grant select, insert on corrections to holdpoint_intake;
grant update (attempts) on runs to holdpoint_intake;
grant select on corrections to holdpoint_policy, holdpoint_approval, holdpoint_operator;
grant select on waiting_runs to holdpoint_operator;

-- +goose Down
drop index runs_created, runs_correlation, intents_near;
alter table intents drop column near_hash;
drop table callbacks, corrections, waiting_runs;
alter table runs drop column attempts;
