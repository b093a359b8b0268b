-- How the connector made its requests when the attempt began: its declaration, and the release's way with it. An attempt that died told no
-- digest of what it sent; where the form is the same, so are the bytes, and the call may be made again under its key.

-- +goose Up
alter table effect_attempts add column request_form bytea; -- null is of a release before, and like no other

-- +goose Down
alter table effect_attempts drop column request_form;
