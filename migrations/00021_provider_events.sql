-- What providers tell by themselves about writes (R4). An event is stored before it is answered, once under its id, and applied later:
-- it may come before our own record of the write has. What is about nothing that is known is kept for an operator.

-- +goose Up
create table provider_events (
  tenant_id         text        not null,
  connector         text        not null,
  provider_event_id text        not null,
  received_at       timestamptz not null default clock_timestamp(),
  body              bytea       not null,
  body_digest       bytea       not null,
  operation_id      text,                 -- as the event names it
  external_id       text,
  record_version    text,
  status_text       text,
  verdict           text        not null, -- what the connector's configuration makes of status_text
  state             text        not null default 'waiting',
  detail            text,                 -- why it moved nothing, or not yet
  attempts          integer     not null default 0,
  next_at           timestamptz not null default clock_timestamp(),
  run_id            uuid,                 -- the effect that it is about, once that is known
  revision          integer,
  ordinal           integer,
  constraint provider_events_pkey primary key (tenant_id, connector, provider_event_id),
  constraint provider_events_effect foreign key (run_id, tenant_id, revision, ordinal) references effects,
  constraint provider_events_verdict check (verdict in ('succeeded', 'failed', 'pending')),
  constraint provider_events_state check (state in ('waiting', 'applied', 'ignored', 'unmatched')),
  constraint provider_events_matched check ((run_id is null) = (revision is null) and (run_id is null) = (ordinal is null)
    and (state <> 'applied' or run_id is not null)),
  constraint provider_events_size check (octet_length(body) <= 262144 and octet_length(body_digest) = 32
    and octet_length(provider_event_id) <= 512 and octet_length(operation_id) <= 512 and octet_length(external_id) <= 512
    and octet_length(record_version) <= 512 and octet_length(status_text) <= 512)
) with (fillfactor = 80);
create index provider_events_due on provider_events (next_at) where state in ('waiting', 'unmatched');
create index provider_events_run on provider_events (run_id, tenant_id) where run_id is not null;
create index effects_external on effects (external_id, connector, tenant_id) where external_id is not null;

grant select on provider_events to holdpoint_reconciler, holdpoint_operator;
grant insert (tenant_id, connector, provider_event_id, body, body_digest, operation_id, external_id, record_version, status_text, verdict)
  on provider_events to holdpoint_reconciler;
grant update (state, detail, attempts, next_at, run_id, revision, ordinal) on provider_events to holdpoint_reconciler;
-- All but the body: the timeline of a run tells of them.
grant select (tenant_id, connector, provider_event_id, received_at, operation_id, external_id, record_version, status_text, verdict,
  state, detail, run_id, revision, ordinal) on provider_events to holdpoint_approval;

-- +goose Down
drop index effects_external;
drop table provider_events;
