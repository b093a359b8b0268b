package ledger

import (
	"strings"

	"github.com/google/uuid"
)

// settleTemplate makes a batch of effect moves. All runs are locked before the first effect, and the guards look at the locked
// rows. An attempt's outcome is appended whatever became of the effect meanwhile; where its owner had lost the effect, the
// effect is marked, so that nobody sends before the report has been read (D7). A move that the effect remembers as its last one
// counts as made: the answer to its COMMIT was lost. What becomes of a run with several effects, and whether an effect's stage ever comes,
// is not for this statement to see, unless $52 says that it was seen: such items are left alone, and returned with true.
const settleTemplate = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::int[], $8::uuid[], $9::text[],
    $10::float8[], $11::bool[], $12::text[], $13::text[], $14::bool[], $15::bool[], $16::text[], $17::text[], $18::text[],
    $19::text[], $20::text[], $21::uuid[], $22::text[], $23::text[], $24::bytea[], $25::uuid[], $26::jsonb[], $27::jsonb[],
    $28::float8[], $29::float8[], $32::int[], $33::uuid[], $34::text[], $35::bool[], $36::int[], $37::text[], $38::text[],
    $39::bytea[], $40::float8[], $41::text[], $42::text[], $43::bool[], $44::text[], $45::text[], $46::text[], $47::text[],
    $48::uuid[], $49::text[], $50::text[], $51::text[])
  with ordinality as t(tenant_id, run_id, revision, ordinal, move, to_state, attempt, owner, hold_reason, next_seconds, maybe_sent,
    external_id, record_version, absent, clear_unread, run_move, run_from, run_to, run_outcome, reason, event_id, stream, subject,
    event, approval_id, audience, review_reasons, decide_seconds, execute_seconds, made_attempt, made_by, class, sent, http_status,
    receipt, request_id, digest, duration, detail, verdict, conclusive, found_id, evidence, actor, note, move_id, postcondition,
    postcondition_version, provider_event, ord)
), locked_runs as materialized (
  select from input i cross join lateral (
    select from runs r where i.run_move <> '' and r.tenant_id = i.tenant_id and r.run_id = i.run_id for no key update
  ) r
), locked as materialized (
  select i.*, e.*, clock_timestamp() as now,
    ((i.move, e.from_state) in (select * from unnest($30::text[], $31::text[]))) is true
      and (i.attempt = 0 or e.attempts = i.attempt) and (i.owner is null or e.lease_owner = i.owner)/*undisputed*/
      and not (i.move = 'confirm_not_done' and e.held_for is not distinct from 'mismatch') as may -- never sent again (R7)
  from input i cross join lateral (
    select e.state as from_state, e.attempts, e.lease_owner, e.lookups, e.move_id as last_move, e.intent_hash, e.action_type,
      e.hold_reason as held_for, e.target_system, e.target_record, e.connector
    from effects e
    where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal
      and (select count(*) from locked_runs) >= 0 and ($52 or not ` + apartSQL + `)
    for no key update
  ) e
), moved as (
  update effects e set state = m.to_state, hold_reason = nullif(m.hold_reason, ''),
    open = m.to_state not in ('completed', 'failed', 'cancelled'),
    maybe_sent = m.maybe_sent or (e.maybe_sent and m.move not in ('prove_absent', 'confirm_not_done')), -- sticks till proof (D6)
    first_sent_at = coalesce(e.first_sent_at, case when m.maybe_sent then coalesce((select t.started_at from effect_attempts t
      where t.tenant_id = e.tenant_id and t.run_id = e.run_id and t.revision = e.revision and t.ordinal = e.ordinal
        and t.attempt = e.attempts), m.now) end),
    lease_owner = null, lease_expires_at = null, next_check_at = m.now + make_interval(secs => m.next_seconds),
    external_id = coalesce(nullif(m.external_id, ''), e.external_id),
    record_version = coalesce(nullif(m.record_version, ''), e.record_version),
    unknown_since = case when m.to_state = 'unknown' then coalesce(e.unknown_since, m.now) end,
    absences = case when m.absent then e.absences + 1 when m.to_state = 'unknown' then e.absences else 0 end,
    unread_outcome = e.unread_outcome and not m.clear_unread,
    succeeded_at = case when m.move in ('verify', 'verify_found') or m.to_state = 'completed' then coalesce(e.succeeded_at, m.now)
      else e.succeeded_at end,
    postcondition = coalesce(nullif(m.postcondition, ''), e.postcondition),
    postcondition_version = coalesce(nullif(m.postcondition_version, ''), e.postcondition_version),
    lookups = e.lookups + (m.verdict <> '')::int, move_id = m.move_id, updated_at = m.now
  from (select tenant_id, run_id, revision, ordinal, move, to_state, hold_reason, maybe_sent, now, next_seconds, external_id,
      record_version, absent, clear_unread, verdict, move_id, postcondition, postcondition_version from locked where may offset 0) m
  where e.tenant_id = m.tenant_id and e.run_id = m.run_id and e.revision = m.revision and e.ordinal = m.ordinal
), /*recorded*//*looked*//*heard*/runs_moved as (
  update runs r set state = m.run_to, outcome = nullif(m.run_outcome, ''), outcome_reason = coalesce(nullif(m.reason, ''), r.outcome_reason),
    version = r.version + 1, updated_at = m.now, next_check_at = null,
    ended_at = case when m.run_outcome <> '' then m.now end
  from (select tenant_id, run_id, run_from, run_to, run_outcome, reason, now, ord from locked where may and run_move <> '' offset 0) m
  where r.tenant_id = m.tenant_id and r.run_id = m.run_id and r.state = m.run_from
  returning m.ord
), told as materialized (
  select * from locked where may and event_id is not null and (ord in (select ord from runs_moved)) is true
), /*asked*/log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from told
), queue as (
  insert into pending (event_id) select event_id from told
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, actor, move, from_state, to_state, jsonb_strip_nulls(jsonb_build_object(
    'revision', revision, 'ordinal', ordinal, 'hold_reason', nullif(hold_reason, ''), 'external_id', nullif(external_id, ''),
    'run', nullif(run_to, ''), 'provider_event', nullif(provider_event, ''), 'note', nullif(note, '')/*signed*/))
  from locked where may
)
select ord, false from locked where may or last_move = move_id/*found*/
union all
select i.ord, true from input i join effects e using (tenant_id, run_id, revision, ordinal)
where not $52 and ` + apartSQL

// apartSQL is whether the move i of an effect e needs its siblings to be seen.
const apartSQL = `(e.actions > 1 and (i.run_move <> '' or i.to_state = 'pending' and e.stage > 1))`

// Parts of the statement that only some services may run, because a statement needs the right to all that stands in it: attempts
// are the dispatcher's, lookups the reconciler's, and operators ask nobody again. A former owner's report that it may have sent
// takes an effect that waits to be sent again back to unknown, at once: the next dispatcher must not be faster than the reader.
const (
	recordedSQL = `recorded as (
  update effect_attempts t set class = k.class, sent = k.sent, http_status = nullif(k.http_status, 0),
    external_id = nullif(k.receipt, ''), provider_request_id = nullif(k.request_id, ''), request_digest = k.digest,
    duration = make_interval(secs => k.duration), detail = nullif(k.detail, ''), finished_at = k.now
  from (select tenant_id, run_id, revision, ordinal, made_attempt, made_by, class, sent, http_status, receipt, request_id, digest,
      duration, detail, now, ord from locked where class <> '' offset 0) k
  where t.tenant_id = k.tenant_id and t.run_id = k.run_id and t.revision = k.revision and t.ordinal = k.ordinal
    and t.attempt = k.made_attempt and t.owner = k.made_by and t.class is null
  returning k.ord
), late as materialized (
  select tenant_id, run_id, revision, ordinal, from_state, made_attempt, now from locked
  where not may and sent and (ord in (select ord from recorded)) is true
), unread as (
  update effects e set unread_outcome = true, next_check_at = k.now, updated_at = k.now,
    state = case when k.from_state = 'pending' then 'unknown' else e.state end,
    maybe_sent = true, first_sent_at = coalesce(e.first_sent_at, k.now),
    unknown_since = case when k.from_state = 'pending' then k.now else e.unknown_since end
  from late k
  where e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal
), doubted as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, 'dispatcher', 'doubt', 'pending', 'unknown',
    jsonb_build_object('revision', revision, 'ordinal', ordinal, 'attempt', made_attempt) from late where from_state = 'pending'
), `
	lookedSQL = `looked as (
  insert into lookups (tenant_id, run_id, revision, ordinal, lookup, verdict, conclusive, external_id, evidence)
  select tenant_id, run_id, revision, ordinal, lookups + 1, verdict, conclusive, nullif(found_id, ''), evidence
  from locked where may and verdict <> ''
), `
	// A move that another one came before leaves what was told waiting.
	heardSQL = `heard as (
  update provider_events p set state = 'applied', detail = nullif(m.note, ''), run_id = m.run_id, revision = m.revision,
    ordinal = m.ordinal
  from (select tenant_id, connector, provider_event, run_id, revision, ordinal, note from locked
    where may and provider_event <> '' offset 0) m
  where p.tenant_id = m.tenant_id and p.connector = m.connector and p.provider_event_id = m.provider_event
), `
	askedSQL = `asked as (
  insert into approvals (tenant_id, run_id, intent_hash, approval_id, action_type, audience, reasons, correlation_id, decide_by,
    execute_within, target_system, target_record)
  select tenant_id, run_id, intent_hash, approval_id, (select n.action_type from intents n where n.tenant_id = told.tenant_id
      and n.run_id = told.run_id and n.intent_hash = told.intent_hash limit 1), array(select jsonb_array_elements_text(audience)),
    review_reasons, (select r.correlation_id from runs r where r.tenant_id = told.tenant_id and r.run_id = told.run_id),
    now + make_interval(secs => decide_seconds), make_interval(secs => execute_seconds), target_system, target_record
  from told where approval_id is not null
), `
)

// An operator is told whether the move was made also where the effect has moved on before the command was repeated: other services
// need not know, and write no more than they must.
const (
	signedSQL = `, 'move_id', move_id`
	foundSQL  = ` or exists (select from audit_events a where a.tenant_id = locked.tenant_id and a.run_id = locked.run_id
  and a.detail->>'move_id' = locked.move_id::text)`
)

// undisputedSQL keeps the reconciler from reviving what an operator disputes, also where that happened while it was deciding (R4).
const undisputedSQL = ` and e.held_for is distinct from 'disputed'`

var settleSQL = map[string]string{
	Dispatcher: settleFor("/*recorded*/", recordedSQL, "/*asked*/", askedSQL),
	Reconciler: settleFor("/*looked*/", lookedSQL, "/*heard*/", heardSQL, "/*asked*/", askedSQL, "/*undisputed*/", undisputedSQL),
	Operator:   settleFor("/*signed*/", signedSQL, "/*found*/", foundSQL),
}

// settleFor is the template with the parts that a service may run, each after its place.
func settleFor(parts ...string) string { return strings.NewReplacer(parts...).Replace(settleTemplate) }

func settleArgs(batch []*settlement, seen bool) []any {
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
		column(batch, func(s *settlement) uuid.UUID { return s.id }),
		column(batch, func(s *settlement) string { return s.Postcondition }),
		column(batch, func(s *settlement) string { return s.PostconditionVersion }),
		column(batch, func(s *settlement) string { return s.ProviderEvent }),
		seen,
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
