-- Each service may do its own moves and no other's. Where a column decides what a row means, the grant leaves it out and the
-- default speaks: policy can insert an approval, but only a pending one; an authorization, but only on its own decision; an
-- effect, but only a pending one. The dispatcher cannot make authorizations or effects at all. Nobody can change or remove
-- what is appended: audit events, decisions, authorizations, intents.

-- +goose Up
grant select on all tables in schema public to holdpoint_operator;
grant insert on audit_events, event_log, pending to holdpoint_intake, holdpoint_policy, holdpoint_dispatcher,
  holdpoint_reconciler, holdpoint_relay, holdpoint_operator;
grant insert, select on inbox to holdpoint_policy, holdpoint_dispatcher;
grant insert, select on parked_messages to holdpoint_intake, holdpoint_policy, holdpoint_dispatcher, holdpoint_relay;

grant select, insert on runs, run_payloads, run_conflicts, intents, source_rules to holdpoint_intake;
grant update (version, activated_at) on source_rules to holdpoint_intake;
grant update (state, outcome, outcome_reason, version, intent_revision, lease_owner, lease_expires_at, lease_cap_at, takeovers,
  next_check_at, updated_at, ended_at) on runs to holdpoint_intake;
grant select on effects to holdpoint_intake;

grant select on runs, intents, policy_decisions, approvals, authorizations, effects to holdpoint_policy;
grant update (state, outcome, outcome_reason, version, next_check_at, updated_at, ended_at) on runs to holdpoint_policy;
grant insert on policy_decisions to holdpoint_policy;
grant insert (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, decide_by,
  execute_within) on approvals to holdpoint_policy, holdpoint_dispatcher, holdpoint_reconciler;
grant insert (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, execute_by)
  on authorizations to holdpoint_policy;
grant insert (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation,
  target_system, target_record, execute_by, next_check_at) on effects to holdpoint_policy;

grant select on runs, intents, policy_decisions, approvals, authorizations, effects, effect_attempts, lookups, kill_switches,
  kill_switch_epoch to holdpoint_dispatcher, holdpoint_reconciler;
grant update (state, outcome, outcome_reason, version, next_check_at, updated_at, ended_at) on runs
  to holdpoint_dispatcher, holdpoint_reconciler, holdpoint_operator;
grant update (state, hold_reason, open, maybe_sent, unread_outcome, first_sent_at, attempts, lease_owner, lease_expires_at,
  lookups, absences, unknown_since, external_id, record_version, move_id, next_check_at, updated_at) on effects
  to holdpoint_dispatcher, holdpoint_reconciler, holdpoint_operator;
grant insert on effect_attempts to holdpoint_dispatcher;
grant update (class, sent, http_status, external_id, provider_request_id, request_digest, duration, detail, finished_at)
  on effect_attempts to holdpoint_dispatcher;
grant insert on lookups to holdpoint_reconciler;

grant select on runs, intents, effects, event_log, pending, approvals, inbox to holdpoint_relay;
grant update, delete on pending to holdpoint_relay;
grant update (next_check_at, checks) on runs to holdpoint_relay;
grant select, insert, update on broker_epochs to holdpoint_relay;
grant execute on function maintain_partitions to holdpoint_relay;

grant insert, update on kill_switches to holdpoint_operator;
grant update on kill_switch_epoch to holdpoint_operator;
grant insert on kill_switch_changes to holdpoint_operator;
grant update (state, settled_at, settled_by) on parked_messages to holdpoint_operator;
grant delete on inbox to holdpoint_operator; -- of a parked event that is replayed

-- +goose Down
revoke all on all tables in schema public from holdpoint_intake, holdpoint_policy, holdpoint_approval, holdpoint_dispatcher,
  holdpoint_reconciler, holdpoint_relay, holdpoint_operator;
revoke all on function maintain_partitions from holdpoint_relay;
