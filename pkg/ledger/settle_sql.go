package ledger

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// settleSQL makes a batch of effect moves. Runs are locked before effects, and the guards look at the locked rows. An attempt's outcome is appended whatever became of
// the effect meanwhile; where its owner had lost the effect, the effect is marked, so that nobody sends before the report has
// been read (D7).
const settleTemplate = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::int[], $8::uuid[], $9::text[],
    $10::float8[], $11::bool[], $12::text[], $13::text[], $14::bool[], $15::bool[], $16::text[], $17::text[], $18::text[],
    $19::text[], $20::text[], $21::uuid[], $22::text[], $23::text[], $24::bytea[], $25::uuid[], $26::jsonb[], $27::jsonb[],
    $28::float8[], $29::float8[])
  with ordinality as t(tenant_id, run_id, revision, ordinal, move, to_state, attempt, owner, hold_reason, next_seconds, maybe_sent,
    external_id, record_version, absent, clear_unread, run_move, run_from, run_to, run_outcome, reason, event_id, stream, subject,
    event, approval_id, audience, review_reasons, decide_seconds, execute_seconds, ord)
), allowed as materialized (select * from unnest($30::text[], $31::text[]) as a(move, from_state)),
outcomes as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $32::int[], $33::uuid[], $34::text[], $35::bool[], $36::int[],
    $37::text[], $38::text[], $39::bytea[], $40::float8[], $41::text[])
  with ordinality as t(tenant_id, run_id, revision, ordinal, attempt, owner, class, sent, http_status, external_id, request_id,
    digest, duration, detail, ord)
), looks as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $42::text[], $43::bool[], $44::text[], $45::text[])
    as t(tenant_id, run_id, revision, ordinal, verdict, conclusive, external_id, evidence) where verdict <> ''
), words as materialized (
  select * from unnest($46::text[], $47::text[]) with ordinality as t(actor, note, ord)
), locked_runs as materialized (
  select r.tenant_id, r.run_id from runs r join input i using (tenant_id, run_id) where i.run_move <> ''
  order by r.tenant_id, r.run_id for no key update of r
), locked as materialized (
  select e.tenant_id, e.run_id, e.revision, e.ordinal, e.state as from_state, e.attempts, e.lease_owner, e.lookups
  from effects e join input i using (tenant_id, run_id, revision, ordinal) cross join (select count(*) from locked_runs) first
  order by e.tenant_id, e.run_id, e.revision, e.ordinal for no key update of e
), /*recorded*/moving as materialized (
  select i.*, k.from_state, clock_timestamp() as now from input i join locked k using (tenant_id, run_id, revision, ordinal)
  where exists (select from allowed a where a.move = i.move and a.from_state = k.from_state)
    and (i.attempt = 0 or k.attempts = i.attempt) and (i.owner is null or k.lease_owner = i.owner)
), moved as (
  update effects e set state = i.to_state, hold_reason = nullif(i.hold_reason, ''),
    open = i.to_state not in ('completed', 'failed', 'cancelled'),
    maybe_sent = e.maybe_sent or i.maybe_sent,
    first_sent_at = coalesce(e.first_sent_at, case when i.maybe_sent then coalesce((select t.started_at from effect_attempts t
      where t.tenant_id = e.tenant_id and t.run_id = e.run_id and t.revision = e.revision and t.ordinal = e.ordinal
        and t.attempt = e.attempts), i.now) end),
    lease_owner = null, lease_expires_at = null, next_check_at = i.now + make_interval(secs => i.next_seconds),
    external_id = coalesce(nullif(i.external_id, ''), e.external_id),
    record_version = coalesce(nullif(i.record_version, ''), e.record_version),
    unknown_since = case when i.to_state = 'unknown' then coalesce(e.unknown_since, i.now) end,
    absences = case when i.absent then e.absences + 1 when i.to_state = 'unknown' then e.absences else 0 end,
    unread_outcome = e.unread_outcome and not i.clear_unread,
    lookups = e.lookups + (select count(*) from looks s where s.tenant_id = e.tenant_id and s.run_id = e.run_id
      and s.revision = e.revision and s.ordinal = e.ordinal), updated_at = i.now
  from moving i
  where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal
  returning e.tenant_id, e.run_id, e.revision, e.ordinal, i.ord
), /*unread*//*looked*/done as materialized (
  select i.*, w.actor, w.note from moved m join moving i using (ord) join words w using (ord)
), runs_moved as (
  update runs r set state = d.run_to, outcome = nullif(d.run_outcome, ''), outcome_reason = nullif(d.reason, ''),
    version = r.version + 1, updated_at = d.now, next_check_at = null,
    ended_at = case when d.run_outcome <> '' then d.now end
  from done d
  where d.run_move <> '' and r.tenant_id = d.tenant_id and r.run_id = d.run_id and r.state = d.run_from
  returning r.tenant_id, r.run_id, d.ord
), /*asked*/log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select d.event_id, d.tenant_id, d.run_id, d.stream, d.subject, d.event from done d join runs_moved using (ord)
  where d.event_id is not null
), queue as (
  insert into pending (event_id) select d.event_id from done d join runs_moved using (ord) where d.event_id is not null order by ord
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, actor, move, from_state, to_state, jsonb_strip_nulls(jsonb_build_object(
    'revision', revision, 'ordinal', ordinal, 'hold_reason', nullif(hold_reason, ''), 'external_id', nullif(external_id, ''),
    'run', nullif(run_to, ''), 'note', nullif(note, ''))) from done
)
select ord from done`

// Parts of the statement that only some services may run, because a statement needs the right to all that stands in it: attempts
// are the dispatcher's, lookups the reconciler's, and operators ask nobody again.
const (
	recordedSQL = `recorded as (
  update effect_attempts t set class = o.class, sent = o.sent, http_status = nullif(o.http_status, 0),
    external_id = nullif(o.external_id, ''), provider_request_id = nullif(o.request_id, ''), request_digest = o.digest,
    duration = make_interval(secs => o.duration), detail = nullif(o.detail, ''), finished_at = clock_timestamp()
  from outcomes o join locked using (tenant_id, run_id, revision, ordinal)
  where o.class <> '' and t.tenant_id = o.tenant_id and t.run_id = o.run_id and t.revision = o.revision and t.ordinal = o.ordinal
    and t.attempt = o.attempt and t.owner = o.owner and t.class is null
  returning t.tenant_id, t.run_id, t.revision, t.ordinal
), `
	unreadSQL = `unread as (
  update effects e set unread_outcome = true, next_check_at = clock_timestamp()
  from recorded c left join moved m using (tenant_id, run_id, revision, ordinal)
  where m.ord is null and e.tenant_id = c.tenant_id and e.run_id = c.run_id and e.revision = c.revision and e.ordinal = c.ordinal
), `
	lookedSQL = `looked as (
  insert into lookups (tenant_id, run_id, revision, ordinal, lookup, verdict, conclusive, external_id, evidence)
  select s.tenant_id, s.run_id, s.revision, s.ordinal, k.lookups + 1, s.verdict, s.conclusive, nullif(s.external_id, ''), s.evidence
  from looks s join moved using (tenant_id, run_id, revision, ordinal)
  join locked k using (tenant_id, run_id, revision, ordinal)
), `
	askedSQL = `asked as (
  insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, decide_by,
    execute_within)
  select d.tenant_id, d.run_id, e.intent_hash, d.approval_id, e.action_type, array(select jsonb_array_elements_text(d.audience)),
    d.review_reasons, r.correlation_id, d.now + make_interval(secs => d.decide_seconds),
    make_interval(secs => d.execute_seconds)
  from done d join runs_moved using (ord) join effects e on e.tenant_id = d.tenant_id and e.run_id = d.run_id
    and e.revision = d.revision and e.ordinal = d.ordinal join runs r on r.tenant_id = d.tenant_id and r.run_id = d.run_id
  where d.approval_id is not null
), `
)

var settleSQL = map[string]string{
	Dispatcher: settleFor(recordedSQL, unreadSQL, "", askedSQL),
	Reconciler: settleFor("", "", lookedSQL, askedSQL),
	Operator:   settleFor("", "", "", ""),
}

func settleFor(recorded, unread, looked, asked string) string {
	return strings.NewReplacer("/*recorded*/", recorded, "/*unread*/", unread, "/*looked*/", looked, "/*asked*/", asked).
		Replace(settleTemplate)
}

func settleArgs(batch []*settlement) []any {
	none := AttemptOutcome{}
	outcome := func(s *settlement) AttemptOutcome {
		if s.Settlement.Outcome == nil {
			return none
		}
		return *s.Settlement.Outcome
	}
	looked := func(s *settlement) Looked {
		if s.Looked == nil {
			return Looked{}
		}
		return *s.Looked
	}
	moves, froms := allowedPairs(EffectRecord)
	return []any{
		column(batch, func(s *settlement) string { return s.TenantID }),
		column(batch, func(s *settlement) uuid.UUID { return s.RunID }),
		column(batch, func(s *settlement) int32 { return int32(s.Revision) }),
		column(batch, func(s *settlement) int32 { return int32(s.Ordinal) }),
		column(batch, func(s *settlement) string { return s.move.Name }),
		column(batch, func(s *settlement) string { return s.move.To }),
		column(batch, func(s *settlement) int32 { return int32(s.Attempt) }),
		column(batch, func(s *settlement) *uuid.UUID { return orNil(s.Owner) }),
		column(batch, func(s *settlement) string { return s.HoldReason }),
		column(batch, func(s *settlement) float64 { return s.NextCheck.Seconds() }),
		column(batch, func(s *settlement) bool { return s.MaybeSent }),
		column(batch, func(s *settlement) string { return s.ExternalID }),
		column(batch, func(s *settlement) string { return s.RecordVersion }),
		column(batch, func(s *settlement) bool { return s.Absent }),
		column(batch, func(s *settlement) bool { return s.ClearUnread }),
		column(batch, func(s *settlement) string { return s.runMove.Name }),
		column(batch, func(s *settlement) string { return s.runFrom() }),
		column(batch, func(s *settlement) string { return s.runMove.To }),
		column(batch, func(s *settlement) string { return s.outcome }),
		column(batch, func(s *settlement) string { return s.Settlement.Reason }),
		column(batch, func(s *settlement) *uuid.UUID { return s.eventID() }),
		column(batch, func(s *settlement) string { return s.out().stream }),
		column(batch, func(s *settlement) string { return s.out().subject }),
		column(batch, func(s *settlement) []byte { return s.out().payload }),
		column(batch, func(s *settlement) *uuid.UUID { return s.approval }),
		column(batch, func(s *settlement) string { return listJSON(s.review().Audience) }),
		column(batch, func(s *settlement) string { return reasonsJSON(s.review().Reasons) }),
		column(batch, func(s *settlement) float64 { return s.review().DecideWithin.Seconds() }),
		column(batch, func(s *settlement) float64 { return s.review().ExecuteWithin.Seconds() }),
		moves, froms,
		column(batch, func(s *settlement) int32 { return int32(outcome(s).Attempt) }),
		column(batch, func(s *settlement) uuid.UUID { return outcome(s).Owner }),
		column(batch, func(s *settlement) string { return outcome(s).Class }),
		column(batch, func(s *settlement) bool { return outcome(s).Sent }),
		column(batch, func(s *settlement) int32 { return int32(outcome(s).HTTPStatus) }),
		column(batch, func(s *settlement) string { return outcome(s).ExternalID }),
		column(batch, func(s *settlement) string { return outcome(s).ProviderRequestID }),
		column(batch, func(s *settlement) []byte { return outcome(s).RequestDigest }),
		column(batch, func(s *settlement) float64 { return outcome(s).Duration.Seconds() }),
		column(batch, func(s *settlement) string { return outcome(s).Detail }),
		column(batch, func(s *settlement) string { return looked(s).Verdict }),
		column(batch, func(s *settlement) bool { return looked(s).Conclusive }),
		column(batch, func(s *settlement) string { return looked(s).ExternalID }),
		column(batch, func(s *settlement) string { return looked(s).Evidence }),
		column(batch, func(s *settlement) string { return s.actor() }),
		column(batch, func(s *settlement) string { return s.Note }),
	}
}

// allowedPairs is the moves table as two columns, which is how the SQL guards read it.
func allowedPairs(record Record) (moves, froms []string) {
	for _, m := range Moves {
		if m.Record != record {
			continue
		}
		for _, from := range m.From {
			moves, froms = append(moves, m.Name), append(froms, from)
		}
	}
	return moves, froms
}

func orNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func (s *settlement) actor() string {
	if s.Actor != "" {
		return s.Actor
	}
	return s.move.By[0]
}

func (s *settlement) runFrom() string {
	if s.runMove.Name == "" {
		return ""
	}
	return s.runMove.From[0]
}

func (s *settlement) eventID() *uuid.UUID {
	if s.event == nil {
		return nil
	}
	return &s.event.id
}

func (s *settlement) out() outgoing {
	if s.event == nil {
		return outgoing{}
	}
	return *s.event
}

func (s *settlement) review() Review {
	if s.Review == nil {
		return Review{}
	}
	return *s.Review
}

func listJSON(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(list) // a list of strings always marshals
	return string(text)
}

func reasonsJSON(reasons []byte) string {
	if len(reasons) == 0 {
		return "[]"
	}
	return string(reasons)
}
