-- What may have been sent and waits to be sent again under its key is an unknown of its target like one that is being looked for: no
-- other write goes there before it is settled (R8). Leasing looks for it by target, among few.

-- +goose Up
create index effects_doubted on effects (target_record, target_system, tenant_id) where state = 'pending' and maybe_sent;

-- +goose Down
drop index effects_doubted;
