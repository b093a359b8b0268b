package ledgertest

import (
	"github.com/stretchr/testify/require"
)

// seedSQL makes finished runs with all their rows, as a ledger has them that has worked for a while.
var seedSQL = []string{
	`set session_replication_role = replica`, // no foreign key is checked row by row
	`create temporary table seed as
select n, 'seed-' || n as key, substring(sha256(('run' || n)::bytea) from 1 for 16) as id, convert_to('{"seed":' || n || '}', 'UTF8') as canonical,
  uuid_at(now() - make_interval(secs => random() * 36000)) as base, gen_random_uuid() as decision, gen_random_uuid() as authorization_id
from generate_series(1, $1::int) n`,
	`alter table seed add run uuid, add hash bytea`,
	`update seed set run = encode(id, 'hex')::uuid, hash = sha256(canonical)`,
	`insert into runs (tenant_id, run_id, idempotency_key, source, rules_version, payload_hash, hash_version, state, outcome, version,
  intent_revision, command_id, correlation_id, ended_at)
select 'demo', run, key, 'crm-enrichment', 1, hash, 1, 'completed', 'executed', 3, 1, gen_random_uuid(), key, now() from seed`,
	`insert into run_payloads (tenant_id, run_id, payload, content_type, headers) select 'demo', run, canonical, 'application/json', '{}' from seed`,
	`insert into intents (tenant_id, run_id, intent_hash, revision, canonical, action_type)
select 'demo', run, hash, 1, canonical, 'crm.contact.update' from seed`,
	`insert into policy_decisions (tenant_id, run_id, intent_hash, decision_id, route, policy_version, inputs_hash, reasons)
select 'demo', run, hash, decision, 'auto', 'seed', hash, '[]' from seed`,
	`insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, decision_id, decision_route, execute_by)
select 'demo', run, hash, authorization_id, decision, 'auto', now() from seed`,
	`insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation,
  target_system, target_record, state, open, maybe_sent, first_sent_at, execute_by, attempts, external_id, next_check_at)
select 'demo', run, 1, 1, hash, authorization_id, 'op1-' || run || '-1-1', 'crm.contact.update', 'sandbox-crm', 'update', 'crm', 'c-' || key,
  'completed', false, true, now(), now(), 1, 'ext-' || n, now() + interval '100 years' from seed`,
	`insert into effect_attempts (tenant_id, run_id, revision, ordinal, attempt, owner, switch_epoch, class, sent, finished_at)
select 'demo', run, 1, 1, 1, gen_random_uuid(), 1, 'succeeded', true, now() from seed`,
	`insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
select encode(substring(uuid_send(base) from 1 for 6) || substring(sha256(('event' || n || m)::bytea) from 1 for 10), 'hex')::uuid,
  'demo', run, 'HOLDPOINT_INTERNAL', 'seed', canonical from seed, generate_series(1, 3) m`,
	`insert into inbox (consumer, event_id) select 1, event_id from event_log where subject = 'seed'`,
	`insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
select 'demo', run, 'seed', 'seed', '', '', '{}' from seed, generate_series(1, 4) m`,
	`drop table seed`,
	`set session_replication_role = origin`,
	`analyze`,
}

// Seed adds n finished runs with all their rows, straight into the tables.
func (b *Bench) Seed(n int) {
	b.t.Helper()
	b.seed(seedSQL, n)
}

// seed runs the statements on one connection of the owner; the second of them takes n.
func (b *Bench) seed(statements []string, n int) {
	b.t.Helper()
	conn, err := b.Owner.Acquire(b.t.Context())
	require.NoError(b.t, err)
	defer conn.Release()
	_, err = conn.Exec(b.t.Context(), `set statement_timeout = 0`)
	require.NoError(b.t, err)
	for i, statement := range statements {
		var args []any
		if i == 1 {
			args = []any{n}
		}
		_, err := conn.Exec(b.t.Context(), statement, args...)
		require.NoError(b.t, err, statement)
	}
}
