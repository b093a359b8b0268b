package ledger

import (
	"fmt"
	"time"
)

const (
	// onDesk is the predicate of the index effects_desk.
	onDesk = `e.open and e.state in ('unknown', 'accepted', 'held') and e.hold_reason is distinct from 'review'`

	deskKind  = `coalesce(e.hold_reason, e.state)`
	deskSince = `coalesce(e.unknown_since, e.succeeded_at, e.updated_at)`

	// deskDue leaves out what the reconciler is about to settle, but not what it looks at next after so long that a person has to.
	deskDue = `(e.state <> 'unknown' or ` + deskSince + ` <= k.now - make_interval(secs => $3) or e.next_check_at > k.now + $5)
      and (e.state <> 'accepted' or ` + deskSince + ` <= k.now - make_interval(secs => $4))`

	// deskFrom has one line for each kind of each scope, so that each list is cut along the index before anything is joined.
	deskFrom = `
from (select s.*, d.kind, clock_timestamp() as now from unnest($1::text[], $2::text[]) as s(tenant_id, action_type)
  cross join unnest($6::text[]) as d(kind)) k
cross join lateral (
  select %s from effects e
  where ` + onDesk + ` and e.tenant_id = k.tenant_id and ` + deskKind + ` = k.kind
    and (k.action_type = '' or e.action_type = k.action_type) and ` + deskDue + `%s
) e`

	deskColumns = `
  e.tenant_id, e.run_id, e.revision, e.ordinal, r.idempotency_key, r.correlation_id, e.action_type, e.connector, e.operation,
  e.target_system, e.target_record, ` + deskKind + `, e.state, coalesce(e.hold_reason, ''), ` + deskSince + `, e.attempts, e.lookups,
  coalesce(t.class, ''), coalesce(t.detail, ''), coalesce((select o.verdict from lookups o where o.tenant_id = e.tenant_id
    and o.run_id = e.run_id and o.revision = e.revision and o.ordinal = e.ordinal and o.lookup = e.lookups), ''),
  e.execute_by, coalesce(e.external_id, ''), e.maybe_sent, e.first_sent_at, coalesce(e.risk_amount::text, ''),
  coalesce(e.risk_currency, ''), clock_timestamp()`
	deskJoins = `
join runs r on r.tenant_id = e.tenant_id and r.run_id = e.run_id
left join effect_attempts t on t.tenant_id = e.tenant_id and t.run_id = e.run_id and t.revision = e.revision and t.ordinal = e.ordinal
  and t.attempt = e.attempts`

	deskOldest   = deskSince + `, e.run_id, e.revision, e.ordinal`
	deskByAmount = `coalesce(e.risk_amount, 0) desc, ` + deskOldest

	resolutionView = `jsonb_build_object('resolution_id', v.resolution_id, 'move', v.move, 'external_id', v.external_id,
  'evidence', v.evidence, 'reason', v.reason, 'seen', v.seen, 'by_issuer', v.by_issuer, 'by_subject', v.by_subject, 'by_id', v.by_id,
  'channel', v.channel,
  'proposed_at', v.proposed_at, 'lapses_at', v.lapses_at, 'withdrawn_at', v.withdrawn_at, 'withdrawn_by', v.withdrawn_by,
  'second_id', v.second_id, 'second_reason', v.second_reason, 'made_at', v.made_at)`
	resolutionsOf = `from resolutions v where v.tenant_id = e.tenant_id and v.run_id = e.run_id and v.revision = e.revision
    and v.ordinal = e.ordinal`

	deskCaseSQL = `
select ` + deskColumns + `,
  e.intent_hash, n.canonical, r.source, r.requested_by, r.sent_by,
  coalesce((select c.corrected_by from corrections c where c.run_id = e.run_id and c.tenant_id = e.tenant_id limit 1), ''), r.state,
  (select coalesce(jsonb_agg(jsonb_build_object('attempt', a.attempt, 'started_at', a.started_at, 'finished_at', a.finished_at,
      'class', coalesce(a.class, ''), 'sent', coalesce(a.sent, false), 'http_status', coalesce(a.http_status, 0),
      'external_id', coalesce(a.external_id, ''), 'provider_request_id', coalesce(a.provider_request_id, ''),
      'request_digest', coalesce(encode(a.request_digest, 'hex'), ''), 'detail', coalesce(a.detail, '')) order by a.attempt), '[]')
    from effect_attempts a where a.tenant_id = e.tenant_id and a.run_id = e.run_id and a.revision = e.revision and a.ordinal = e.ordinal),
  (select coalesce(jsonb_agg(jsonb_build_object('lookup', o.lookup, 'looked_at', o.looked_at, 'verdict', o.verdict,
      'conclusive', o.conclusive, 'external_id', coalesce(o.external_id, ''), 'evidence', o.evidence) order by o.lookup), '[]')
    from lookups o where o.tenant_id = e.tenant_id and o.run_id = e.run_id and o.revision = e.revision and o.ordinal = e.ordinal),
  (select coalesce(jsonb_agg(` + resolutionView + ` order by v.proposed_at desc), '[]') ` + resolutionsOf + `),
  (select coalesce(jsonb_agg(jsonb_build_object('event_id', p.provider_event_id, 'received_at', p.received_at,
      'status', coalesce(p.status_text, ''), 'verdict', p.verdict, 'state', p.state, 'external_id', coalesce(p.external_id, ''),
      'record_version', coalesce(p.record_version, ''), 'detail', coalesce(p.detail, '')) order by p.received_at, p.provider_event_id), '[]')
    from (select p.provider_event_id, p.received_at, p.status_text, p.verdict, p.state, p.external_id, p.record_version, p.detail
      from provider_events p where p.run_id = e.run_id and p.tenant_id = e.tenant_id and p.revision = e.revision
      and p.ordinal = e.ordinal order by p.received_at desc limit 100) p)
from effects e` + deskJoins + `
join intents n on n.tenant_id = e.tenant_id and n.run_id = e.run_id and n.intent_hash = e.intent_hash
where e.run_id = $1 and e.revision = $2 and e.ordinal = $3`
)

// putOff is how far off the next look at an unknown effect is where the reconciler knows no way by itself.
const putOff = 10 * time.Minute

// args are the arguments of deskFrom.
func (f *DeskFilter) args() []any {
	kinds := DeskKinds
	if f.Kind != "" {
		kinds = []string{f.Kind}
	}
	return []any{column(f.Scopes, func(s DeskScope) string { return s.TenantID }),
		column(f.Scopes, func(s DeskScope) string { return s.ActionType }), seconds(f.UnknownFor), seconds(f.AcceptedFor), putOff, kinds}
}

// narrow adds the condition on the connector.
func (f *DeskFilter) narrow(args []any) (string, []any) {
	if f.Connector == "" {
		return "", args
	}
	args = append(args, f.Connector)
	return fmt.Sprintf(" and e.connector = $%d", len(args)), args
}

func (f *DeskFilter) query() (string, []any, error) {
	where, args := f.narrow(f.args())
	order := deskOldest
	if f.ByAmount {
		order = deskByAmount
	}
	if m := f.After; m != nil {
		run, revision, ordinal, err := ParseOperationID(m.OperationID)
		if err != nil {
			return "", nil, err
		}
		args = append(args, m.Since, run, revision, ordinal)
		n := len(args)
		after := fmt.Sprintf("(%s) > ($%d, $%d, $%d, $%d)", deskOldest, n-3, n-2, n-1, n)
		if f.ByAmount {
			args = append(args, m.Amount)
			after = fmt.Sprintf("coalesce(e.risk_amount, 0) <= $%[1]d::numeric and (coalesce(e.risk_amount, 0) < $%[1]d::numeric or %[2]s)",
				n+1, after)
		}
		where += " and " + after
	}
	limit := f.Limit
	if limit < 1 {
		limit = DefaultListed
	}
	args = append(args, limit)
	where += fmt.Sprintf(" order by %s limit $%d", order, len(args))
	return "select" + deskColumns + fmt.Sprintf("\nfrom (select e.*"+deskFrom+"\norder by %s limit $%d) e", "e.*", where, order, len(args)) +
		deskJoins + "\norder by " + order, args, nil
}

// sums adds up within each kind, where few groups need no sort of all that waits.
func (f *DeskFilter) sums() (string, []any) {
	where, args := f.narrow(f.args())
	return `
select k.tenant_id, k.kind, e.action_type, e.connector, coalesce(e.risk_currency, ''), e.count, e.oldest, coalesce(e.amount::text, ''),
  clock_timestamp()` + fmt.Sprintf(deskFrom, "e.action_type, e.connector, e.risk_currency, count(*)::int as count, min("+deskSince+
		") as oldest, sum(e.risk_amount) as amount", where+" group by e.action_type, e.connector, e.risk_currency") + `
order by 1, 2, 3, 4, 5`, args
}
