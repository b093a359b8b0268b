package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// The statements that write what the rulings came to. All rows are locked and have been looked at, so none needs a guard of its
// own; the constraints are the second word.
const (
	castInsertSQL = `
insert into reviews (tenant_id, run_id, approval_id, ordinal, command_id, decision, issuer, subject, reviewer_id, authority, reason,
  channel, intent_hash, page_digest, decided_at, for_issuer, for_subject, for_id, roles, seen)
select i.tenant_id, i.run_id, i.approval_id, i.ordinal, i.command_id, i.decision, i.issuer, i.subject, i.reviewer_id, i.authority,
  i.reason, i.channel, i.intent_hash, i.page_digest, i.decided_at, i.for_issuer, i.for_subject, i.for_id,
  array(select jsonb_array_elements_text(i.roles)), i.seen
from unnest($1::text[], $2::uuid[], $3::uuid[], $4::int[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::jsonb[], $11::text[], $12::text[], $13::bytea[], $14::bytea[], $15::timestamptz[], $16::text[], $17::text[], $18::text[],
  $19::jsonb[], $20::jsonb[])
  as i(tenant_id, run_id, approval_id, ordinal, command_id, decision, issuer, subject, reviewer_id, authority, reason, channel,
  intent_hash, page_digest, decided_at, for_issuer, for_subject, for_id, roles, seen)`

	// An approval that nobody was told of yet keeps the terms of its first vote.
	termsKeptSQL = `
update approvals a set terms = i.terms from unnest($1::uuid[], $2::jsonb[]) as i(approval_id, terms)
where a.approval_id = i.approval_id and a.terms is null`

	approvalsMovedSQL = `
update approvals a set state = i.state, decided_at = i.at
from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as i(approval_id, state, at) where a.approval_id = i.approval_id`

	// A final decision spends every token of the approval (A7); what was not told yet need not be told any more.
	tokensSpentSQL = `
update approval_tokens t set spent_at = clock_timestamp() where t.approval_id = any($1) and t.spent_at is null`
	noticesMootSQL = `
with locked as materialized (
  select n.approval_id, n.channel, n.recipient from notifications n where n.approval_id = any($1) and n.state = 'waiting'
  order by n.approval_id, n.channel, n.recipient for no key update
)
update notifications n set state = 'moot' from locked k
where n.approval_id = k.approval_id and n.channel = k.channel and n.recipient = k.recipient`

	// A vote that is not the last one spends the token that led to it.
	tokenUsedSQL = `
update approval_tokens t set spent_at = clock_timestamp() where t.token_hash = any($1) and t.spent_at is null`

	runsMovedSQL = `
update runs r set state = i.state, outcome = nullif(i.outcome, ''), outcome_reason = nullif(i.reason, ''), version = r.version + 1,
  updated_at = i.at, next_check_at = null, ended_at = case when i.outcome <> '' then i.at end
from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) as i(tenant_id, run_id, state, outcome,
  reason, at)
where r.tenant_id = i.tenant_id and r.run_id = i.run_id`

	authorizedSQL = `
insert into authorizations (tenant_id, run_id, intent_hash, authorization_id, approval_id, approval_state, execute_by)
select * from unnest($1::text[], $2::uuid[], $3::bytea[], $4::uuid[], $5::uuid[], $6::text[], $7::timestamptz[])`

	// An unchanged intent that is approved again authorizes the same rows again (D2); each keeps its operation id and attempts. Of a run
	// with several effects that is what was sent back and what waits for its stage; the others stay as they are (D10).
	requestedSQL = `
insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation,
  target_system, target_record, execute_by, next_check_at, stage, actions, ordered_at)
select tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation, target_system,
  target_record, execute_by,
  clock_timestamp() + case when stage > min(stage) over (partition by run_id, tenant_id) then ` + stageWait + ` else interval '0' end,
  stage, actions, case when in_order then transaction_timestamp() end
from unnest($1::text[], $2::uuid[], $3::int[], $4::bytea[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
  $11::text[], $12::timestamptz[], $13::int[], $14::int[], $15::int[], $16::bool[])
  as i(tenant_id, run_id, revision, intent_hash, authorization_id, operation_id, action_type, connector, operation, target_system,
  target_record, execute_by, ordinal, stage, actions, in_order)
on conflict (run_id, tenant_id, revision, ordinal) do update set authorization_id = excluded.authorization_id, state = 'pending',
  hold_reason = null, execute_by = excluded.execute_by, next_check_at = clock_timestamp(), updated_at = clock_timestamp()
where (effects.state = 'held' and effects.hold_reason = 'review'
    or effects.state = 'pending' and effects.attempts = 0 and not effects.maybe_sent and not effects.unread_outcome)
  and effects.intent_hash = excluded.intent_hash`

	// Nothing more of a run whose approval ends here is sent: what had been sent back to review, and what waits for its stage, is taken off
	// the queue for good, and so is what was recalled. What may have been sent after all is an operator's to settle (D6).
	cancelledSQL = `
update effects e set state = case when k.maybe then 'held' else 'cancelled' end, open = k.maybe,
  hold_reason = case when k.maybe then 'incident' end, next_check_at = clock_timestamp(), updated_at = clock_timestamp()
from (
  select e.tenant_id, e.run_id, e.revision, e.ordinal, ` + maybeSentSQL + ` as maybe
  from unnest($1::text[], $2::uuid[]) as i(tenant_id, run_id) join effects e using (tenant_id, run_id)
  where e.state = 'held' and e.hold_reason = 'review' or not e.maybe_sent and not e.unread_outcome
    and (e.state = 'held' and e.hold_reason = 'recalled' or e.state = 'pending' and e.attempts = 0)
) k
where e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.revision and e.ordinal = k.ordinal`

	rulingEventsSQL = `
insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::bytea[])`
	rulingPendingSQL = `insert into pending (event_id) select * from unnest($1::uuid[])`

	rulingAuditSQL = `
insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
select tenant_id, run_id, actor, move, from_state, to_state, detail
from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[])
  as i(tenant_id, run_id, actor, move, from_state, to_state, detail)`
)

// writeRulings stores what was decided, in one round trip.
func writeRulings(ctx context.Context, tx pgx.Tx, batch []*ruling) error {
	w := &rulingWriter{batch: &pgx.Batch{}}
	cast := pick(batch, func(r *ruling) bool { return r.cast })
	moved := pick(batch, func(r *ruling) bool { return r.move != "" })
	if len(cast) == 0 && len(moved) == 0 {
		return nil
	}
	w.votes(cast)
	w.moved(moved)
	w.broken(pick(cast, func(r *ruling) bool { return r.vote.Decision == BreakGlass }))
	w.approved(pick(moved, func(r *ruling) bool { return r.move == "approve" }))
	w.ended(pick(moved, func(r *ruling) bool { return r.move != "approve" }))
	w.sentBack(pick(moved, func(r *ruling) bool { return r.move == "send_back" }))
	if err := w.told(batch); err != nil {
		return err
	}
	return tx.SendBatch(ctx, w.batch).Close()
}

func pick(batch []*ruling, want func(*ruling) bool) []*ruling {
	var picked []*ruling
	for _, r := range batch {
		if want(r) {
			picked = append(picked, r)
		}
	}
	return picked
}

// rulingWriter queues the statements of a batch.
type rulingWriter struct{ batch *pgx.Batch }

func (w *rulingWriter) votes(cast []*ruling) {
	if len(cast) == 0 {
		return
	}
	w.batch.Queue(castInsertSQL, rulingTenants(cast), rulingIDs(cast), rulingApprovals(cast),
		column(cast, func(r *ruling) int32 { return int32(len(r.locked.votes) + 1) }),
		column(cast, func(r *ruling) uuid.UUID { return r.vote.CommandID }),
		column(cast, func(r *ruling) string { return r.vote.Decision }),
		column(cast, func(r *ruling) string { return r.vote.Reviewer.Issuer }),
		column(cast, func(r *ruling) string { return r.vote.Reviewer.Subject }),
		column(cast, func(r *ruling) string { return r.vote.Reviewer.ID }),
		column(cast, func(r *ruling) string { return modelJSON(r.vote.Reviewer.Authority) }),
		column(cast, func(r *ruling) string { return r.vote.Reason }),
		column(cast, func(r *ruling) string { return r.vote.Channel }),
		column(cast, func(r *ruling) []byte { return r.vote.Shown[:] }),
		column(cast, func(r *ruling) []byte { return r.vote.PageDigest }),
		column(cast, func(r *ruling) time.Time { return r.locked.now }),
		column(cast, principalText(func(p *Principal) string { return p.Issuer })),
		column(cast, principalText(func(p *Principal) string { return p.Subject })),
		column(cast, principalText(func(p *Principal) string { return p.ID })),
		column(cast, func(r *ruling) string { return jsonText(append([]string{}, r.vote.Reviewer.Roles...)) }),
		column(cast, func(r *ruling) *string { return seenText(r.vote.Seen) }))
	if kept := pick(cast, (*ruling).keeps); len(kept) > 0 {
		w.batch.Queue(termsKeptSQL, rulingApprovals(kept), column(kept, func(r *ruling) string { return jsonText(r.vote.Terms) }))
	}
	if used := pick(cast, func(r *ruling) bool { return r.vote.Token != nil }); len(used) > 0 {
		w.batch.Queue(tokenUsedSQL, column(used, (*ruling).token))
	}
}

// principalText is null where the vote is the reviewer's own.
func principalText(of func(*Principal) string) func(*ruling) *string {
	return func(r *ruling) *string {
		if r.vote.Reviewer.For == nil {
			return nil
		}
		text := of(r.vote.Reviewer.For)
		return &text
	}
}

// seenText is null where the page showed nothing of the targets.
func seenText(seen Readings) *string {
	if !seen.Answered() {
		return nil
	}
	text := jsonText(seen)
	return &text
}

// jsonText is for values of texts and numbers, which always marshal.
func jsonText(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func (w *rulingWriter) moved(moved []*ruling) {
	if len(moved) == 0 {
		return
	}
	at := column(moved, func(r *ruling) time.Time { return r.locked.now })
	w.batch.Queue(approvalsMovedSQL, rulingApprovals(moved),
		column(moved, func(r *ruling) string { return approvalMove(r.move).To }), at)
	w.batch.Queue(tokensSpentSQL, rulingApprovals(moved))
	w.batch.Queue(noticesMootSQL, rulingApprovals(moved))
	w.batch.Queue(runsMovedSQL, rulingTenants(moved), rulingIDs(moved),
		column(moved, func(r *ruling) string { return r.runMove().To }),
		column(moved, (*ruling).outcome), column(moved, func(r *ruling) string { return r.reason }), at)
}

func (w *rulingWriter) approved(approved []*ruling) {
	if len(approved) == 0 {
		return
	}
	authorizations := column(approved, func(*ruling) uuid.UUID { return uuid.New() })
	executeBy := column(approved, func(r *ruling) time.Time { return r.locked.now.Add(r.locked.executeWithin) })
	hashes := column(approved, func(r *ruling) []byte { return r.locked.intentHash[:] })
	w.batch.Queue(authorizedSQL, rulingTenants(approved), rulingIDs(approved), hashes, authorizations, rulingApprovals(approved),
		column(approved, func(*ruling) string { return ApprovalApproved }), executeBy)
	w.requested(approved, hashes, authorizations, executeBy)
	var all drawn
	for _, r := range approved {
		all.add(EffectKey{TenantID: r.TenantID, RunID: r.RunID, Revision: r.locked.revision}, r.vote.Draws)
	}
	if len(all.draws) > 0 {
		w.batch.Queue(drawSQL, all.args()...)
	}
}

// wanted is one effect that an approved ruling asks for.
type wanted struct {
	*ruling
	EffectRequest
	of, ordinal int // index of the ruling, and which of its effects
}

func (w *rulingWriter) requested(approved []*ruling, hashes [][]byte, authorizations []uuid.UUID, executeBy []time.Time) {
	var all []wanted
	for i, r := range approved {
		for n, e := range r.vote.Effects {
			all = append(all, wanted{r, e, i, n + 1})
		}
	}
	w.batch.Queue(requestedSQL, column(all, func(e wanted) string { return e.TenantID }), column(all, func(e wanted) uuid.UUID { return e.RunID }),
		column(all, func(e wanted) int32 { return int32(e.locked.revision) }),
		column(all, func(e wanted) []byte { return hashes[e.of] }), column(all, func(e wanted) uuid.UUID { return authorizations[e.of] }),
		column(all, func(e wanted) string { return OperationID(e.RunID, e.locked.revision, e.ordinal) }),
		column(all, func(e wanted) string { return cmp.Or(e.ActionType, e.locked.actionType) }),
		column(all, func(e wanted) string { return e.Connector }), column(all, func(e wanted) string { return e.Operation }),
		column(all, func(e wanted) string { return e.TargetSystem }), column(all, func(e wanted) string { return e.TargetRecord }),
		column(all, func(e wanted) time.Time { return executeBy[e.of] }), column(all, func(e wanted) int32 { return int32(e.ordinal) }),
		column(all, func(e wanted) int32 { return e.stage() }), column(all, func(e wanted) int32 { return int32(len(e.vote.Effects)) }),
		column(all, func(e wanted) bool { return e.InOrder }))
}

func (w *rulingWriter) ended(ended []*ruling) {
	if len(ended) > 0 {
		w.batch.Queue(cancelledSQL, rulingTenants(ended), rulingIDs(ended))
	}
}

// told queues the events and the audit rows.
func (w *rulingWriter) told(batch []*ruling) error {
	var events []outgoing
	var about []*ruling
	var audit []*ruling
	for _, r := range batch {
		if !r.cast && r.move == "" {
			continue
		}
		audit = append(audit, r)
		for _, data := range r.events() {
			event, err := newOutgoing(r.TenantID, r.RunID, r.locked.traceParent, data)
			if err != nil {
				return err
			}
			events, about = append(events, event), append(about, r)
		}
	}
	ids := column(events, func(e outgoing) uuid.UUID { return e.id })
	w.batch.Queue(rulingEventsSQL, ids, rulingTenants(about), rulingIDs(about),
		column(events, func(e outgoing) string { return e.stream }), column(events, func(e outgoing) string { return e.subject }),
		column(events, func(e outgoing) []byte { return e.payload }))
	w.batch.Queue(rulingPendingSQL, ids)
	w.batch.Queue(rulingAuditSQL, rulingTenants(audit), rulingIDs(audit), column(audit, (*ruling).actor),
		column(audit, (*ruling).auditMove), column(audit, func(*ruling) string { return RunAwaitingHuman }),
		column(audit, (*ruling).auditTo), column(audit, (*ruling).detail))
	return nil
}

// events tell of the vote, and of what follows where it is the last one.
func (r *ruling) events() []contracts.Data {
	f := &r.locked
	ref := contracts.RunRef{TenantID: r.TenantID, RunID: r.RunID.String(), IdempotencyKey: f.key, CorrelationID: f.correlationID}
	var events []contracts.Data
	if r.cast {
		events = append(events, &contracts.ApprovalDecided{RunRef: ref, ApprovalID: r.ApprovalID.String(), Decision: r.vote.Decision,
			Final: r.move != "", ReviewerID: r.vote.Reviewer.ID, Reason: r.vote.Reason, DecidedAt: f.now,
			IntentHash: f.intentHash.String(), IntentRevision: f.revision})
	}
	switch r.move {
	case "":
	case "approve":
		events = append(events, &contracts.EffectRequested{TenantID: r.TenantID, RunID: ref.RunID,
			OperationID: OperationID(r.RunID, f.revision, f.again())})
	case "send_back":
		events = append(events, &contracts.RunSentBack{RunRef: ref, IntentRevision: f.revision, IntentHash: f.intentHash.String(),
			SentBy: r.vote.Reviewer.ID, Reasons: []string{"sent_back"}, Reason: r.vote.Reason})
	default:
		if end := r.ended(ref); end != nil {
			events = append(events, end)
		}
	}
	return events
}

// again is the ordinal of the effect that people were asked about again, or of the first.
func (f *facts) again() int {
	for _, e := range f.effects {
		if e.asked {
			return e.Ordinal
		}
	}
	return 1
}

// ended tells of the run's end, nil where some of its effects go on.
func (r *ruling) ended(ref contracts.RunRef) contracts.Data {
	switch r.outcome() {
	case "":
		return nil
	case OutcomePartial, OutcomeExecuted:
		done := r.locked.done()
		return &contracts.RunCompleted{RunRef: ref, Outcome: r.outcome(), TargetReceipt: done.externalID,
			OperationID: OperationID(r.RunID, r.locked.revision, done.Ordinal)}
	}
	return &contracts.RunEnded{RunRef: ref, Outcome: r.outcome(), Reason: r.reason}
}

// outcome of the run, "" where it goes on.
func (r *ruling) outcome() string {
	switch r.runMove().Name {
	case "end_partly":
		if !slices.ContainsFunc(r.locked.effects, func(e sibling) bool { return e.state != EffectCompleted }) {
			return OutcomeExecuted // all was done meanwhile
		}
		return OutcomePartial
	case "reject", "withdraw":
		return OutcomeRejected
	case "expire":
		return OutcomeExpired
	}
	return ""
}

func rulingTenants(batch []*ruling) []string {
	return column(batch, func(r *ruling) string { return r.TenantID })
}

func rulingIDs(batch []*ruling) []uuid.UUID {
	return column(batch, func(r *ruling) uuid.UUID { return r.RunID })
}

func rulingApprovals(batch []*ruling) []uuid.UUID {
	return column(batch, func(r *ruling) uuid.UUID { return r.ApprovalID })
}
