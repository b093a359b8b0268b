package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Owned is what the owner of a lease does with its run: exactly one of Renew, Submit and Fail is set. It succeeds only while
// the lease is the caller's, in this version, and has not ended (K8).
type Owned struct {
	TenantID string
	RunID    uuid.UUID
	Ref      contracts.RunRef // for the event that tells of the run's end
	Owner    uuid.UUID
	Version  int64         // of the run, as the owner last saw it
	Renew    time.Duration // length of the next lease, which never passes the cap (K7)
	Submit   *Intent       // ends the lease (K6)
	Fail     *Failure
	Revising bool // a proposal of the run was sent back: it never becomes failed_retryable again (K6)
}

// Failure is how a worker gives its run back.
type Failure struct {
	Retryable bool   // anybody may claim the run again; else it has ended
	Invalid   bool   // the worker could not make a valid proposal; else it failed for another reason
	Reason    string // for people
	Class     string // what kind of failure it was, as a contracts.Failed…; "" where the worker does not say
	// RetryAfter is how long the run waits before another worker is given it. Who brings its event again may have it at once.
	RetryAfter time.Duration
}

// owned is an Owned on its way through the batch.
type owned struct {
	*Owned
	move    Move
	outcome string
	reason  string
	event   *outgoing
	answer  *Claimed
}

// Own makes the moves of lease owners. An answer is accepted, with the run as it now stands, or ownership_lost.
func (l *Ledger) Own(ctx context.Context, requests []Owned) ([]Claimed, error) {
	answers := make([]Claimed, len(requests))
	items := make([]*owned, 0, len(requests))
	for i := range requests {
		item, err := newOwned(&requests[i], &answers[i])
		if err != nil {
			answers[i].Err = err
			continue
		}
		items = append(items, item)
	}
	items = inOrder(items, (*owned).key)
	for len(items) > 0 {
		batch, rest := firstOfEach(items, (*owned).key)
		if err := l.ownBatch(ctx, batch); err != nil {
			return nil, err
		}
		items = rest
	}
	return answers, nil
}

func newOwned(o *Owned, answer *Claimed) (*owned, error) {
	item := &owned{Owned: o, answer: answer}
	var data contracts.Data
	switch {
	case o.Submit != nil:
		item.move = runMove("submit")
		data = &contracts.IntentSubmitted{TenantID: o.TenantID, RunID: o.RunID.String(), IntentRevision: o.Submit.Revision,
			IntentHash: o.Submit.Hash.String()}
	case o.Fail != nil && o.Fail.Retryable && o.Revising:
		item.move, item.reason = runMove("put_back"), o.Fail.Reason
	case o.Fail != nil && o.Fail.Retryable:
		item.move, item.reason = runMove("fail_retryable"), o.Fail.Reason
	case o.Fail != nil:
		item.move, item.reason, item.outcome = runMove("fail_terminal"), o.Fail.Reason, OutcomeFailed
		if o.Fail.Invalid {
			item.outcome = OutcomeInvalid
		}
		data = &contracts.RunEnded{RunRef: o.Ref, Outcome: item.outcome, Reason: o.Fail.Reason}
	case o.Renew > 0:
		item.move = runMove("renew")
	default:
		return nil, fmt.Errorf("run %s: nothing to do with the lease: renew, submit or fail", o.RunID)
	}
	if data == nil {
		return item, nil
	}
	event, err := newOutgoing(o.TenantID, o.RunID, "", data)
	item.event = &event
	return item, err
}

func (o *owned) key() runKey { return runKey{o.TenantID, o.RunID} }

// ownSQL makes the moves of a batch. The row is locked first and the clock read after it, so that a lease that ends while the
// statement waits has ended.
const ownSQL = `
with locked as materialized (
  select i.*, clock_timestamp() as now, r.state = i.from_state
    and case i.move when 'submit' then i.revision = r.intent_revision + 1 and (r.intent_revision = 0 or r.revise_by is not null)
      when 'fail_retryable' then r.intent_revision = 0 when 'put_back' then r.revise_by is not null
      else r.intent_revision = 0 or r.revise_by is not null end
    and r.lease_owner = i.owner and r.version = i.seen_version and r.lease_expires_at > clock_timestamp() as may
  from unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::float8[], $11::int[], $12::bytea[], $13::bytea[], $14::text[], $15::jsonb[], $16::uuid[], $17::text[], $18::text[],
    $19::bytea[], $22::bytea[], $23::text[], $24::float8[])
  with ordinality as i(tenant_id, run_id, owner, seen_version, move, from_state, to_state, outcome, reason, renew_seconds,
    revision, intent_hash, canonical, action_type, model, event_id, stream, subject, event, near_hash,
    class, retry_seconds, ord)
  cross join lateral (
    select r.state, r.version, r.intent_revision, r.revise_by, r.lease_owner, r.lease_expires_at from runs r
    where r.tenant_id = i.tenant_id and r.run_id = i.run_id for no key update
  ) r
), moved as (
  update runs r set state = k.to_state, outcome = nullif(k.outcome, ''), outcome_reason = nullif(k.reason, ''),
    version = r.version + 1, updated_at = k.now, ended_at = case when k.outcome <> '' then k.now end,
    lease_owner = case when k.move = 'renew' then r.lease_owner end,
    lease_expires_at = case when k.move = 'renew' then least(k.now + make_interval(secs => k.renew_seconds), r.lease_cap_at) end,
    lease_cap_at = case when k.move = 'renew' then r.lease_cap_at end,
    intent_revision = case when k.move = 'submit' then k.revision else r.intent_revision end,
    revise_by = case when k.move in ('renew', 'put_back') then r.revise_by end,
    next_check_at = case when k.move = 'submit' then k.now + make_interval(secs => $20) end
  from (select tenant_id, run_id, move, to_state, outcome, reason, renew_seconds, revision, now from locked where may offset 0) k
  where r.tenant_id = k.tenant_id and r.run_id = k.run_id
), proposed as (
  insert into intents (tenant_id, run_id, intent_hash, revision, canonical, action_type, model, near_hash, submitted_by)
  select tenant_id, run_id, intent_hash, revision, canonical, action_type, model, near_hash, owner
  from locked where may and move = 'submit'
), gone as (
  delete from waiting_runs w using locked k
  where k.may and k.move in ('submit', 'fail_terminal') and w.tenant_id = k.tenant_id and w.run_id = k.run_id
), waiting as (
  update waiting_runs w set available_at = k.now + make_interval(secs => k.retry_seconds), owner = null
  from (select tenant_id, run_id, retry_seconds, now from locked where may and move in ('fail_retryable', 'put_back') offset 0) k
  where w.tenant_id = k.tenant_id and w.run_id = k.run_id
), log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from locked where may and event_id is not null
), queue as (insert into pending (event_id) select event_id from locked where may and event_id is not null),
audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $21, move, from_state, to_state,
    case when reason <> '' then jsonb_strip_nulls(jsonb_build_object('reason', reason, 'class', nullif(class, ''))) end
  from locked where may
)
select ord from locked where may`

func (l *Ledger) ownBatch(ctx context.Context, batch []*owned) error {
	err := l.command(ctx, "own", func(ctx context.Context) error {
		return split(batch, func(part []*owned) error {
			_, err := collect(ctx, l, l.site("own"), ownedKeys(part), pgx.RowTo[int64], ownSQL, ownArgs(part)...)
			return err
		}, func(o *owned, err error) { o.answer.Err = fmt.Errorf("%s: %w", o.move.Name, err) })
	})
	if err != nil {
		return err
	}
	return l.command(ctx, "own", func(ctx context.Context) error { return l.answerOwners(ctx, batch) })
}

// answerOwners reads the runs back. A move bumps the version by one, and only the owner of that version can have made it, so a
// run that stands where the move leads, one version on, has been moved by this caller: now, or when an answer was lost. After a
// submission others move the run on, but the intent remembers who submitted it.
func (l *Ledger) answerOwners(ctx context.Context, batch []*owned) error {
	batch = slices.DeleteFunc(slices.Clone(batch), func(o *owned) bool { return o.answer.Err != nil })
	found, err := l.readRuns(ctx, column(batch, (*owned).key))
	if err != nil {
		return err
	}
	submitted, err := l.submitted(ctx, batch)
	if err != nil {
		return err
	}
	for _, o := range batch {
		run := found[o.key()]
		if run == nil {
			o.answer.Err = ErrNoSuchRun
			continue
		}
		o.answer.Run = *run
		o.answer.Result = contracts.ResultOwnershipLost
		switch {
		case o.Submit != nil && submitted[o],
			o.Submit == nil && run.Version == o.Version+1 && run.State == o.move.To && (o.Renew == 0 || run.LeaseOwner == o.Owner):
			o.answer.Result = contracts.ResultAccepted
		}
	}
	return nil
}

// submitted tells which of the batch's intents are stored from this owner: a submission that is repeated is answered as the first
// was.
func (l *Ledger) submitted(ctx context.Context, batch []*owned) (map[*owned]bool, error) {
	submits := slices.DeleteFunc(slices.Clone(batch), func(o *owned) bool { return o.Submit == nil })
	found := map[*owned]bool{}
	if len(submits) == 0 {
		return found, nil
	}
	rows, err := l.pool.Query(ctx, `select i.ord
from unnest($1::text[], $2::uuid[], $3::bytea[], $4::uuid[]) with ordinality as i(tenant_id, run_id, intent_hash, owner, ord)
cross join lateral (
  select 1 from intents n where n.tenant_id = i.tenant_id and n.run_id = i.run_id and n.intent_hash = i.intent_hash
    and n.submitted_by = i.owner limit 1
) n`,
		column(submits, func(o *owned) string { return o.TenantID }),
		column(submits, func(o *owned) uuid.UUID { return o.RunID }),
		column(submits, func(o *owned) []byte { return o.Submit.Hash[:] }),
		column(submits, func(o *owned) uuid.UUID { return o.Owner }))
	if err != nil {
		return nil, err
	}
	ords, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, ord := range ords {
		found[submits[ord-1]] = true
	}
	return found, err
}
