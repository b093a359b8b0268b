package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The statements that lock, always in the order run, approval, token, effect (A7). Each is a statement of its own, so that what
// it reads is what stands after the locks before it were granted; the clock is read last.
const (
	lockRunsSQL = `
select from unnest($1::text[], $2::uuid[]) as i(tenant_id, run_id)
cross join lateral (
  select from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id for no key update
) r`

	lockApprovalsSQL = `
select i.ord, a.state, a.decided_at, a.intent_hash, a.decide_by, extract(epoch from a.execute_within)::float8, a.terms
from unnest($1::text[], $2::uuid[], $3::uuid[]) with ordinality as i(tenant_id, run_id, approval_id, ord)
cross join lateral (
  select * from approvals a
  where a.approval_id = i.approval_id and a.tenant_id = i.tenant_id and a.run_id = i.run_id for update
) a`

	lockTokensSQL = `
select i.ord, t.spent_at is null and t.expires_at > clock_timestamp() and i.decision = any(t.decisions)
from unnest($1::uuid[], $2::bytea[], $3::text[]) with ordinality as i(approval_id, token_hash, decision, ord)
cross join lateral (
  select * from approval_tokens t where t.token_hash = i.token_hash and t.approval_id = i.approval_id for update
) t`

	// An effect that was sent back, or whose time had passed, unsent, is authorized anew, and with it what waits for its stage.
	lockEffectsSQL = `
select i.ord, e.ordinal, e.state, coalesce(e.external_id, ''), case
  when ` + maybeSentSQL + ` then false
  when e.state = 'held' then e.hold_reason in ('review', 'recalled')
  else e.state = 'pending' and e.attempts = 0 end,
  (e.state = 'held' and e.hold_reason = 'review' and not e.maybe_sent and not e.unread_outcome) is true
from unnest($1::text[], $2::uuid[], $3::uuid[]) with ordinality as i(tenant_id, run_id, approval_id, ord)
cross join lateral (
  select n.revision from approvals a join intents n using (run_id, tenant_id, intent_hash)
  where a.approval_id = i.approval_id and a.tenant_id = i.tenant_id and a.run_id = i.run_id limit 1
) n
cross join lateral (
  select * from effects e where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = n.revision order by e.ordinal
  for update
) e`

	runFactsSQL = `
select i.ord, r.state, coalesce(r.outcome_reason, ''), n.revision = r.intent_revision, r.idempotency_key, r.correlation_id, r.traceparent, n.revision, n.action_type,
  clock_timestamp()
from unnest($1::text[], $2::uuid[], $3::uuid[]) with ordinality as i(tenant_id, run_id, approval_id, ord)
cross join lateral (select * from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id limit 1) r
cross join lateral (
  select n.revision, n.action_type from approvals a join intents n using (run_id, tenant_id, intent_hash)
  where a.approval_id = i.approval_id and a.tenant_id = i.tenant_id and a.run_id = i.run_id limit 1
) n`

	castSQL = `
select i.ord, v.decision, v.issuer, v.subject, v.reviewer_id, v.reason, v.decided_at, v.command_id,
  v.roles, v.for_issuer, v.for_subject, v.for_id
from unnest($1::text[], $2::uuid[], $3::uuid[]) with ordinality as i(tenant_id, run_id, approval_id, ord)
join reviews v using (run_id, tenant_id, approval_id) order by i.ord, v.ordinal`
)

// lockRulings locks all that the rulings are about, in one round trip, and reads what stands.
func lockRulings(ctx context.Context, tx pgx.Tx, batch []*ruling) error {
	tenants := column(batch, func(r *ruling) string { return r.TenantID })
	runs := column(batch, func(r *ruling) uuid.UUID { return r.RunID })
	approvals := column(batch, func(r *ruling) uuid.UUID { return r.ApprovalID })
	for _, r := range batch {
		r.locked = facts{}
	}
	b := &pgx.Batch{}
	b.Queue(lockRunsSQL, tenants, runs)
	b.Queue(lockApprovalsSQL, tenants, runs, approvals)
	b.Queue(lockTokensSQL, approvals, column(batch, (*ruling).token), column(batch, (*ruling).decision))
	b.Queue(lockEffectsSQL, tenants, runs, approvals)
	b.Queue(castSQL, tenants, runs, approvals)
	b.Queue(runFactsSQL, tenants, runs, approvals)
	results := tx.SendBatch(ctx, b)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return err
	}
	for _, read := range []func(pgx.Rows, []*ruling) error{readApprovals, readTokens, readEffects, readCast, readRunFacts} {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := read(rows, batch); err != nil {
			return err
		}
	}
	return results.Close()
}

func (r *ruling) token() []byte {
	if r.vote == nil {
		return nil
	}
	return r.vote.Token
}

func (r *ruling) decision() string {
	if r.vote == nil {
		return ""
	}
	return r.vote.Decision
}

func readApprovals(rows pgx.Rows, batch []*ruling) error {
	var ord int
	var state string
	var decidedAt *time.Time
	var decideBy time.Time
	var hash []byte
	var within float64
	var terms *Terms
	_, err := pgx.ForEachRow(rows, []any{&ord, &state, &decidedAt, &hash, &decideBy, &within, &terms}, func() error {
		f := &batch[ord-1].locked
		f.found, f.state, f.decideBy, f.terms = true, state, decideBy, terms
		terms = nil
		f.executeWithin = time.Duration(within * float64(time.Second))
		copy(f.intentHash[:], hash)
		if decidedAt != nil {
			f.decidedAt = *decidedAt
		}
		return nil
	})
	return err
}

func readTokens(rows pgx.Rows, batch []*ruling) error {
	var ord int
	var live bool
	_, err := pgx.ForEachRow(rows, []any{&ord, &live}, func() error {
		batch[ord-1].locked.tokenLive = live
		return nil
	})
	return err
}

func readEffects(rows pgx.Rows, batch []*ruling) error {
	var ord int
	var e sibling
	_, err := pgx.ForEachRow(rows, []any{&ord, &e.Ordinal, &e.state, &e.externalID, &e.unsent, &e.asked}, func() error {
		f := &batch[ord-1].locked
		f.effects = append(f.effects, e)
		return nil
	})
	return err
}

func readCast(rows pgx.Rows, batch []*ruling) error {
	var ord int
	var c Cast
	var principal [3]*string
	_, err := pgx.ForEachRow(rows, []any{&ord, &c.Decision, &c.Issuer, &c.Subject, &c.ReviewerID, &c.Reason, &c.DecidedAt, &c.commandID,
		&c.Roles, &principal[0], &principal[1], &principal[2]},
		func() error {
			f := &batch[ord-1].locked
			c.For = principalOf(principal)
			f.votes = append(f.votes, c)
			c.Roles = nil
			return nil
		})
	return err
}

func readRunFacts(rows pgx.Rows, batch []*ruling) error {
	var ord int
	var f facts
	_, err := pgx.ForEachRow(rows, []any{&ord, &f.runState, &f.outcomeReason, &f.current, &f.key, &f.correlationID, &f.traceParent, &f.revision, &f.actionType,
		&f.now}, func() error {
		into := &batch[ord-1].locked
		into.outcomeReason = f.outcomeReason
		into.runState, into.current, into.key, into.correlationID, into.traceParent = f.runState, f.current, f.key, f.correlationID, f.traceParent
		into.revision, into.actionType, into.now = f.revision, f.actionType, f.now
		return nil
	})
	return err
}

// principalOf is the person for whom a stored vote was cast: issuer, subject and id, nil where it was the reviewer's own.
func principalOf(stored [3]*string) *Principal {
	if stored[0] == nil {
		return nil
	}
	return &Principal{Issuer: *stored[0], Subject: *stored[1], ID: *stored[2]}
}
