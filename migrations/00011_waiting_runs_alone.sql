-- A row of the queue need not lock the row of its run to be inserted beside it: the check took a third of intake's throughput. It
-- is inserted and deleted in the statements that insert and move its run, under the same key, and whoever takes from the queue
-- joins both by tenant and run, so that a row that points nowhere gives nothing.

-- +goose Up
alter table waiting_runs drop constraint waiting_runs_run;

-- +goose Down
alter table waiting_runs add constraint waiting_runs_run foreign key (run_id, tenant_id) references runs;
