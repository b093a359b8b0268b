-- A provider's "done" is not the last word where the target can be read: then it is read after the write, and only what it holds
-- makes the effect done (R7). In between the effect is accepted. What differs is held for an operator, and never sent again.

-- +goose Up
alter table effects
  add column succeeded_at          timestamptz, -- when the provider's success became known
  add column postcondition         text,        -- what the target was found to hold after it; null where it is not read
  add column postcondition_version text,        -- of the target at that read
  drop constraint effects_hold_reason,
  add constraint effects_hold_reason check (hold_reason in ('exhausted', 'unauthorized', 'incident', 'disputed', 'recalled', 'review',
    'mismatch')),
  add constraint effects_postcondition check (postcondition in ('matched', 'differs', 'moved_on', 'unread'));

-- What is accepted is under way at its target too: another write there would be taken for this one's, or hide it (R8).
drop index effects_target;
create index effects_target on effects (target_record, target_system, tenant_id) where state in ('sending', 'unknown', 'accepted');

alter table lookups drop constraint lookups_verdict,
  add constraint lookups_verdict check (verdict in ('found', 'absent', 'unclear', 'several', 'matched', 'differs', 'moved_on'));

grant update (succeeded_at, postcondition, postcondition_version) on effects to holdpoint_dispatcher, holdpoint_reconciler,
  holdpoint_operator;

-- +goose Down
revoke update (succeeded_at, postcondition, postcondition_version) on effects from holdpoint_dispatcher, holdpoint_reconciler,
  holdpoint_operator;
alter table lookups drop constraint lookups_verdict,
  add constraint lookups_verdict check (verdict in ('found', 'absent', 'unclear', 'several'));
drop index effects_target;
create index effects_target on effects (target_record, target_system, tenant_id) where state in ('sending', 'unknown');
alter table effects drop constraint effects_postcondition, drop constraint effects_hold_reason,
  add constraint effects_hold_reason check (hold_reason in ('exhausted', 'unauthorized', 'incident', 'disputed', 'recalled', 'review')),
  drop column postcondition_version, drop column postcondition, drop column succeeded_at;
