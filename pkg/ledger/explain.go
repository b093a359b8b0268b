package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// explainSQL answers in one query: was the event processed, what did the model draft, who or what authorized it, was anything
// sent, and what did the provider say (O1).
const explainSQL = `
select jsonb_build_object(
  'run', to_jsonb(r) - 'command_id' || jsonb_build_object('payload_hash', encode(r.payload_hash, 'hex')),
  'intents', (select jsonb_agg(jsonb_build_object('revision', n.revision, 'intent_hash', encode(n.intent_hash, 'hex'),
      'action_type', n.action_type, 'model', n.model, 'intent', convert_from(n.canonical, 'UTF8')::json, 'at', n.created_at)
      order by n.revision) from intents n where n.tenant_id = r.tenant_id and n.run_id = r.run_id),
  'decisions', (select jsonb_agg(jsonb_build_object('route', d.route, 'policy_version', d.policy_version, 'reasons', d.reasons,
      'intent_hash', encode(d.intent_hash, 'hex'), 'at', d.decided_at) order by d.decided_at)
      from policy_decisions d where d.tenant_id = r.tenant_id and d.run_id = r.run_id),
  'approvals', (select jsonb_agg(to_jsonb(a) || jsonb_build_object('intent_hash', encode(a.intent_hash, 'hex'),
      'reviews', (select jsonb_agg(to_jsonb(v) - 'command_id' || jsonb_build_object('intent_hash', encode(v.intent_hash, 'hex'),
          'page_digest', encode(v.page_digest, 'hex')) order by v.ordinal)
          from reviews v where v.tenant_id = a.tenant_id and v.run_id = a.run_id and v.approval_id = a.approval_id),
      'break_glass', (select to_jsonb(g) - 'command_id' || jsonb_build_object('page_digest', encode(g.page_digest, 'hex'))
          from glass_reviews g where g.tenant_id = a.tenant_id and g.approval_id = a.approval_id),
      'notifications', (select jsonb_agg(to_jsonb(t) order by t.channel, t.recipient) from notifications t
          where t.approval_id = a.approval_id)) order by a.requested_at)
      from approvals a where a.tenant_id = r.tenant_id and a.run_id = r.run_id),
  'authorizations', (select jsonb_agg(to_jsonb(a) || jsonb_build_object('intent_hash', encode(a.intent_hash, 'hex'))
      order by a.authorized_at) from authorizations a where a.tenant_id = r.tenant_id and a.run_id = r.run_id),
  'effects', (select jsonb_agg(to_jsonb(e) || jsonb_build_object('intent_hash', encode(e.intent_hash, 'hex'),
      'attempts', (select jsonb_agg(to_jsonb(t) || jsonb_build_object('request_digest', encode(t.request_digest, 'hex'))
          order by t.attempt) from effect_attempts t
          where t.tenant_id = e.tenant_id and t.run_id = e.run_id and t.revision = e.revision and t.ordinal = e.ordinal),
      'lookups', (select jsonb_agg(to_jsonb(s) order by s.lookup) from lookups s
          where s.tenant_id = e.tenant_id and s.run_id = e.run_id and s.revision = e.revision and s.ordinal = e.ordinal),
      'resolutions', (select jsonb_agg(to_jsonb(v) || jsonb_build_object('page_digest', encode(v.page_digest, 'hex'),
          'second_digest', encode(v.second_digest, 'hex')) order by v.proposed_at) from resolutions v
          where v.tenant_id = e.tenant_id and v.run_id = e.run_id and v.revision = e.revision and v.ordinal = e.ordinal))
      order by e.revision, e.ordinal) from effects e where e.tenant_id = r.tenant_id and e.run_id = r.run_id),
  'provider_events', (select jsonb_agg(jsonb_build_object('event_id', p.provider_event_id, 'connector', p.connector,
      'received_at', p.received_at, 'operation_id', p.operation_id, 'external_id', p.external_id, 'record_version', p.record_version,
      'status', p.status_text, 'verdict', p.verdict, 'state', p.state, 'detail', p.detail) order by p.received_at)
      from provider_events p where p.tenant_id = r.tenant_id and p.run_id = r.run_id),
  'readings', (select jsonb_agg(to_jsonb(g) || jsonb_build_object('intent_hash', encode(g.intent_hash, 'hex'), 'held', g.held::jsonb)
      order by g.ordinal, g.read_at) from (
        select g.*, 1 as ordinal from readings g where g.tenant_id = r.tenant_id and g.run_id = r.run_id
        union all
        select g.tenant_id, g.run_id, a.intent_hash, g.read_at, g.found, g.version, g.held, g.error, g.failed_at, g.failures, g.ordinal
        from action_readings g join approvals a using (approval_id, tenant_id) where g.tenant_id = r.tenant_id and g.run_id = r.run_id
          and (g.read_at is not null or g.error is not null)) g),
  'corrects', (select jsonb_build_object('key', o.idempotency_key, 'run_id', c.original_run, 'by', c.corrected_by,
      'reason', c.reason, 'outcome', c.original_outcome, 'effects', c.original_effects, 'at', c.made_at)
      from corrections c join runs o on o.run_id = c.original_run and o.tenant_id = c.tenant_id
      where c.tenant_id = r.tenant_id and c.run_id = r.run_id),
  'corrected_by', (select jsonb_agg(jsonb_build_object('key', n.idempotency_key, 'run_id', c.run_id, 'by', c.corrected_by,
      'reason', c.reason, 'at', c.made_at) order by c.made_at)
      from corrections c join runs n on n.run_id = c.run_id and n.tenant_id = c.tenant_id
      where c.tenant_id = r.tenant_id and c.original_run = r.run_id),
  'conflicts', (select jsonb_agg(jsonb_build_object('payload_hash', encode(c.payload_hash, 'hex'), 'first_seen_at', c.first_seen_at)
      order by c.first_seen_at) from run_conflicts c where c.tenant_id = r.tenant_id and c.run_id = r.run_id),
  'history', (select jsonb_agg(jsonb_build_object('at', h.at, 'actor', h.actor, 'move', h.move, 'from', h.from_state,
      'to', h.to_state, 'detail', h.detail) order by h.audit_id)
      from audit_events h where h.tenant_id = r.tenant_id and h.run_id = r.run_id))
from runs r where r.tenant_id = $1 and r.run_id = $2`

// Explain tells all that is recorded about a run, as one JSON object.
func (l *Ledger) Explain(ctx context.Context, tenant string, run uuid.UUID) (json.RawMessage, error) {
	var all json.RawMessage
	err := l.pool.QueryRow(ctx, explainSQL, tenant, run).Scan(&all)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("run %s of tenant %s: %w", run, tenant, ErrNoSuchRun)
	}
	if err != nil {
		return nil, fmt.Errorf("explain run %s: %w", run, err)
	}
	return all, nil
}
