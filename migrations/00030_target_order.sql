-- Effects of an operation that is declared in order reach their target in the order in which they were authorized: one that is open holds
-- those after it. The moment is that of the transaction, the same for all effects of a run, so that two runs never wait for each other.

-- +goose Up
alter table effects add column ordered_at timestamptz; -- null where no order is declared
create index effects_ordered on effects (target_record, target_system, tenant_id, ordered_at) where open and ordered_at is not null;
grant insert (ordered_at) on effects to holdpoint_policy, holdpoint_approval;

-- +goose Down
drop index effects_ordered;
alter table effects drop column ordered_at;
