package ledgertest

// waitingSQL makes requests that wait for people, with all their rows: of two action types for sales, and of refunds for support
// leads, each of which one person has approved already in one of ten.
var waitingSQL = []string{
	`set session_replication_role = replica`,
	`create temporary table seed as
select n, 'waiting-' || n as key, substring(sha256(('demo waiting-' || n)::bytea) from 1 for 16) as id, gen_random_uuid() as approval,
  case n % 3 when 0 then 'crm.contact.update' when 1 then 'stock.reserve' else 'payment.refund' end as action,
  array[case n % 3 when 2 then 'support-lead' else 'sales-operations' end] as audience,
  convert_to('{"actions":[{"target":{"record_id":"r-' || n || '","system":"crm"}}],"seed":' || n || '}', 'UTF8') as canonical,
  now() - make_interval(secs => random() * 36000) as asked, now() + make_interval(secs => 3600 + random() * 36000) as decide_by
from generate_series(1, $1::int) n`,
	`alter table seed add run uuid, add hash bytea`,
	`update seed set run = encode(id, 'hex')::uuid, hash = sha256(canonical)`,
	`insert into runs (tenant_id, run_id, idempotency_key, source, rules_version, payload_hash, hash_version, state, version,
  intent_revision, command_id, correlation_id, requested_by, sent_by)
select 'demo', run, key, 'support-refunds', 1, hash, 1, 'awaiting_human', 2, 1, gen_random_uuid(), 'ticket-' || n, 'rita.requester', 'demo' from seed`,
	`insert into intents (tenant_id, run_id, intent_hash, revision, canonical, action_type) select 'demo', run, hash, 1, canonical, action from seed`,
	`insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, requested_at,
  decide_by, execute_within, target_system, target_record, announced)
select 'demo', run, hash, approval, action, audience, '[]', 'ticket-' || n, asked, decide_by, interval '1 hour', 'crm', 'r-' || n, true from seed`,
	`insert into reviews (tenant_id, run_id, approval_id, ordinal, command_id, decision, issuer, subject, reviewer_id, authority, reason,
  channel, intent_hash)
select 'demo', run, approval, 1, gen_random_uuid(), 'approve', 'https://id.example', 'sam', 'sam', '{}', '', 'web', hash from seed
where n % 3 = 2 and n % 10 = 0`,
	`drop table seed`,
	`set session_replication_role = origin`,
	`analyze`,
}

// SeedWaiting adds n requests that wait, straight into the tables.
func (b *Bench) SeedWaiting(n int) {
	b.t.Helper()
	b.seed(waitingSQL, n)
}
