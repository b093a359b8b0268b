package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// answerLosers tells every delivery that did not make its run where that run stands. It is a statement after the insert, because
// the insert's own snapshot cannot see the winner (STO-03).
func (l *Ledger) answerLosers(ctx context.Context, items []*claim) error {
	if len(items) == 0 {
		return nil
	}
	var keys []runKey
	for _, c := range items {
		keys = append(keys, runKey{c.TenantID, c.run})
		if c.previous != nil {
			keys = append(keys, runKey{c.TenantID, *c.previous})
		}
		if c.original != nil {
			keys = append(keys, runKey{c.TenantID, *c.original})
		}
	}
	found, err := l.readRuns(ctx, keys)
	if err != nil {
		return err
	}
	var conflicts, takers []*claim
	for _, c := range items {
		run := c.winner(found)
		if run == nil {
			c.answer.Err = c.whyNotStored(found)
			continue
		}
		if err := c.compare(run); err != nil {
			c.answer.Err = err
			continue
		}
		switch {
		case c.answer.Result == contracts.ResultPayloadMismatch:
			conflicts = append(conflicts, c)
		case c.Lease != nil && c.answer.Result == contracts.ResultDuplicate:
			takers = append(takers, c)
		}
	}
	if err := l.recordConflicts(ctx, conflicts); err != nil {
		return err
	}
	return l.reclaim(ctx, takers)
}

// winner is the run that this delivery belongs to: under its own key, or under the key that older rules gave it.
func (c *claim) winner(found map[runKey]*Run) *Run {
	if run := found[runKey{c.TenantID, c.run}]; run != nil {
		return run
	}
	if c.previous != nil {
		return found[runKey{c.TenantID, *c.previous}]
	}
	return nil
}

// whyNotStored says why a claim made no run, though no run had its key.
func (c *claim) whyNotStored(found map[runKey]*Run) error {
	if c.original != nil {
		switch original := found[runKey{c.TenantID, *c.original}]; {
		case original == nil:
			return ErrNoOriginal
		case !original.Ended():
			return ErrOriginalOpen
		}
	}
	return ErrStaleRules
}

// compare fills in the answer of a loser.
func (c *claim) compare(run *Run) error {
	if run.Key != c.Key && run.Key != c.PreviousKey {
		return ErrKeyCollision
	}
	hash := c.PayloadHash
	if run.RulesVersion != c.RulesVersion {
		var err error
		if c.HashUnder == nil {
			return fmt.Errorf("the run was claimed under rules version %d, and there is no hash under it", run.RulesVersion)
		}
		if hash, err = c.HashUnder(run.RulesVersion); err != nil {
			return fmt.Errorf("hash under the rules that the run was claimed with (version %d): %w", run.RulesVersion, err)
		}
	}
	c.answer.Run = *run
	c.answer.Result = resultOf(run, hash == run.PayloadHash, run.commandID == c.CommandID)
	return nil
}

// resultOf is the distinct answer to a delivery whose run exists (K14). An unknown outcome is never told as success or failure.
func resultOf(run *Run, samePayload, ownCommand bool) string {
	switch {
	case !samePayload:
		return contracts.ResultPayloadMismatch
	case ownCommand:
		return contracts.ResultAccepted // our own commit, whose answer was lost
	case run.Unknown():
		return contracts.ResultOutcomeUnknown
	case run.Ended():
		return contracts.ResultDuplicateWithResult
	default:
		return contracts.ResultDuplicate
	}
}

// conflictsSQL keeps what came under a key that another payload owns; only the first of each kind is news (K4).
const conflictsSQL = `
with input as materialized (
  select * from unnest($1::text[], $2::uuid[], $3::bytea[], $4::bytea[], $5::uuid[], $6::text[], $7::text[], $8::bytea[])
    with ordinality as t(tenant_id, run_id, payload_hash, payload, event_id, stream, subject, event, ord)
), kept as (
  insert into run_conflicts (tenant_id, run_id, payload_hash, payload)
  select tenant_id, run_id, payload_hash, payload from input order by ord
  on conflict do nothing returning tenant_id, run_id, payload_hash
), news as materialized (select i.* from input i join kept using (tenant_id, run_id, payload_hash)),
log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select event_id, tenant_id, run_id, stream, subject, event from news
), queue as (insert into pending (event_id) select event_id from news),
audit as (
  insert into audit_events (tenant_id, run_id, actor, move, detail)
  select tenant_id, run_id, $9, 'conflict', jsonb_build_object('payload_hash', encode(payload_hash, 'hex')) from news
)
select event_id from news`

func (l *Ledger) recordConflicts(ctx context.Context, items []*claim) error {
	items = distinctConflicts(items)
	if len(items) == 0 {
		return nil
	}
	for _, c := range items {
		run := c.answer.Run
		event, err := newOutgoing(c.TenantID, run.RunID, c.TraceParent, &contracts.RunConflict{
			RunRef: contracts.RunRef{TenantID: c.TenantID, RunID: run.RunID.String(), IdempotencyKey: run.Key,
				CorrelationID: run.CorrelationID},
			Source: c.Source, StoredHash: run.PayloadHash.String(), ReceivedHash: c.PayloadHash.String(),
		})
		if err != nil {
			return err
		}
		c.event = event
	}
	_, err := collect(ctx, l, l.site("record_conflicts"), keysOf(items), pgx.RowTo[uuid.UUID], conflictsSQL,
		column(items, func(c *claim) string { return c.TenantID }),
		column(items, func(c *claim) uuid.UUID { return c.answer.Run.RunID }),
		column(items, func(c *claim) []byte { return c.PayloadHash[:] }),
		column(items, func(c *claim) []byte { return c.Payload }),
		column(items, func(c *claim) uuid.UUID { return c.event.id }),
		column(items, func(c *claim) string { return c.event.stream }),
		column(items, func(c *claim) string { return c.event.subject }),
		column(items, func(c *claim) []byte { return c.event.payload }), Intake)
	return err
}

// distinctConflicts sorts by the table's key and drops repeats, which one statement could not hold.
func distinctConflicts(items []*claim) []*claim {
	type key struct {
		run  runKey
		hash canonical.Digest
	}
	slices.SortStableFunc(items, func(a, b *claim) int {
		return cmp.Or(a.found().compare(b.found()), bytes.Compare(a.PayloadHash[:], b.PayloadHash[:]))
	})
	distinct, _ := firstOfEach(items, func(c *claim) key { return key{c.found(), c.PayloadHash} })
	return distinct
}

// reclaimSQL gives a run that nobody owns any more to a worker, with the same key and hash, while it has no intent (K6). The
// lock comes first and the clock is read after it, so two takers cannot both see an expired lease.
const reclaimSQL = `
with locked as materialized (
  select i.*, r.*
  from unnest($1::text[], $2::uuid[], $3::uuid[], $4::float8[], $5::float8[])
    with ordinality as i(tenant_id, run_id, owner, lease_seconds, cap_seconds, ord)
  cross join lateral (
    select r.state, r.intent_revision, r.lease_owner as former, r.lease_expires_at as former_until from runs r
    where r.tenant_id = i.tenant_id and r.run_id = i.run_id for no key update
  ) r
), free as materialized (
  select k.*, clock_timestamp() as now from locked k where k.state = any($7) and k.intent_revision = 0
    and (k.state <> 'processing' or k.former_until is null or k.former_until <= clock_timestamp())
    and k.former is distinct from k.owner -- whose lease has ended is not given another past its cap (K7)
), moved as (
  update runs r set state = $6, version = r.version + 1, lease_owner = k.owner,
    lease_expires_at = k.now + make_interval(secs => least(k.lease_seconds, k.cap_seconds)),
    lease_cap_at = k.now + make_interval(secs => k.cap_seconds),
    takeovers = r.takeovers + (k.former is not null)::int, attempts = r.attempts + 1, updated_at = k.now
  from free k where r.tenant_id = k.tenant_id and r.run_id = k.run_id
  returning r.tenant_id, r.run_id, k.ord, r.version, r.lease_expires_at, k.state as from_state, r.takeovers, r.attempts,
    k.former is not null as took_over
), audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $8, 'reclaim', from_state, $6, jsonb_build_object('takeovers', takeovers) from moved
)
select ord, version, lease_expires_at, takeovers, attempts, took_over from moved`

// reclaim tries to take over the runs of workers whose delivery was a duplicate. Who does not get one keeps that answer.
func (l *Ledger) reclaim(ctx context.Context, items []*claim) error {
	batch, _ := firstOfEach(inOrder(items, (*claim).found), (*claim).found)
	if len(batch) == 0 {
		return nil
	}
	move := runMove("reclaim")
	taken, err := collect(ctx, l, l.site("reclaim"), keysOf(batch), scanTaken, reclaimSQL,
		column(batch, func(c *claim) string { return c.TenantID }),
		column(batch, func(c *claim) uuid.UUID { return c.answer.Run.RunID }),
		column(batch, func(c *claim) uuid.UUID { return c.Lease.Owner }),
		column(batch, func(c *claim) float64 { return c.Lease.Duration.Seconds() }),
		column(batch, func(c *claim) float64 { return c.Lease.MaxLifetime.Seconds() }),
		move.To, move.From, Intake)
	if err != nil {
		return err
	}
	for _, t := range taken {
		c := batch[t.ord-1]
		c.answer.Result = contracts.ResultAccepted
		c.answer.Run.State, c.answer.Run.Version = RunProcessing, t.version
		c.answer.Run.LeaseOwner, c.answer.Run.leaseExpiresAt, c.answer.Run.leaseLeft = c.Lease.Owner, t.leaseExpiresAt, c.Lease.left()
		c.answer.Run.Takeovers, c.answer.Run.Attempts, c.answer.TookOver = t.takeovers, t.attempts, t.tookOver
	}
	for _, c := range items {
		switch run := &c.answer.Run; {
		case c.answer.Result == contracts.ResultAccepted || run.LeaseOwner != c.Lease.Owner:
		case run.LeaseLeft() > 0:
			c.answer.Result = contracts.ResultAccepted // it is the caller's already; the lease is neither renewed nor lengthened
		default:
			c.answer.Result = contracts.ResultOwnershipLost // another execution may take the run, under an owner of its own
		}
	}
	return nil
}
