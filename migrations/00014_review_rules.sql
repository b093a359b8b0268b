-- Who must approve a request is kept with it when people are told of it, so that a later configuration cannot release what an
-- earlier one asked more for. Each vote keeps what it counted by: the roles of the person, and for whom it was cast (A16).

-- +goose Up
alter table approvals
  add column terms jsonb; -- stages of groups, each a role and how many must approve; null until people are told

alter table reviews
  add column roles       text[] not null default '{}', -- by which the vote may count in a group
  add column for_issuer  text,                         -- the person who was away and for whom the vote was cast
  add column for_subject text,
  add column for_id      text,
  add constraint reviews_for check ((for_issuer is null) = (for_subject is null) and (for_issuer is null) = (for_id is null)),
  add constraint reviews_for_another check (for_issuer is null or (for_issuer, for_subject) <> (issuer, subject));

-- Of votes that are cast already, the authority says it.
update reviews set roles = array(select jsonb_array_elements_text(authority->'roles'))
where jsonb_typeof(authority->'roles') = 'array';

-- A vote for somebody is that person's vote.
create unique index reviews_one_vote_for on reviews (approval_id, coalesce(for_issuer, issuer), coalesce(for_subject, subject));

grant insert (roles, for_issuer, for_subject, for_id) on reviews to holdpoint_approval;
grant update (terms) on approvals to holdpoint_approval;

-- +goose Down
drop index reviews_one_vote_for;
alter table reviews drop constraint reviews_for_another, drop constraint reviews_for, drop column for_id, drop column for_subject,
  drop column for_issuer, drop column roles;
alter table approvals drop column terms;
