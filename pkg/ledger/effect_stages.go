package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// stage of an effect, from 1.
func (e EffectRequest) stage() int32 { return int32(max(e.Stage, 1)) }

// stageWait is how long what waits for its stage is not looked at, unless it is woken.
const stageWait = `interval '1 hour'`

// requestSQL adds the further effects of intents to their first one, by the same authorization and with the same clocks. What has to wait
// for its stage is not looked at meanwhile, so that however much waits takes nothing from what can go.
const requestSQL = `
insert into effects (tenant_id, run_id, revision, ordinal, intent_hash, authorization_id, operation_id, action_type, connector, operation,
  target_system, target_record, execute_by, next_check_at, cancel_until, not_before, stage, actions, ordered_at)
select e.tenant_id, e.run_id, e.revision, i.ordinal, e.intent_hash, e.authorization_id,
  'op1-' || e.run_id::text || '-' || e.revision || '-' || i.ordinal, i.action_type, i.connector, i.operation, i.target_system,
  i.target_record, e.execute_by, e.next_check_at
    + case when i.stage > least(e.stage, min(i.stage) over (partition by i.run_id, i.tenant_id)) then ` + stageWait + ` else interval '0' end,
  e.cancel_until, e.not_before, i.stage, e.actions, case when i.in_order then transaction_timestamp() end
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::int[], $11::bool[])
  as i(tenant_id, run_id, revision, ordinal, action_type, connector, operation, target_system, target_record, stage, in_order)
join effects e on e.run_id = i.run_id and e.tenant_id = i.tenant_id and e.revision = i.revision and e.ordinal = 1
order by i.run_id, i.tenant_id, i.ordinal
on conflict do nothing`

// nearEffectsSQL has what further actions want be found by those who want nearly the same (K13).
const nearEffectsSQL = `
insert into near_effects (tenant_id, near_hash, run_id)
select distinct * from unnest($1::text[], $2::bytea[], $3::uuid[]) on conflict do nothing`

// requestMore stores what the decisions that moved their runs are about besides their first effect.
func requestMore(ctx context.Context, tx pgx.Tx, batch []*decision, moved []uuid.UUID) error {
	has := setOf(moved)
	var keys []EffectKey
	var effects []EffectRequest
	var tenants []string
	var hashes [][]byte
	var runs []uuid.UUID
	for _, d := range batch {
		if !has[d.Intent.RunID] {
			continue
		}
		for i, e := range d.Effects {
			if d.authorization != nil && i > 0 {
				keys = append(keys, EffectKey{d.Intent.TenantID, d.Intent.RunID, d.Intent.Revision, i + 1})
				effects = append(effects, e)
			}
		}
		if d.authorization == nil && d.approval == nil || d.Near == nil {
			continue
		}
		for _, wish := range d.Near.Others {
			tenants, hashes, runs = append(tenants, d.Intent.TenantID), append(hashes, wish.Hash), append(runs, d.Intent.RunID)
		}
	}
	if len(hashes) > 0 {
		if _, err := tx.Exec(ctx, nearEffectsSQL, tenants, hashes, runs); err != nil {
			return fmt.Errorf("store what further actions want: %w", err)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, requestSQL, append(keyColumns(keys),
		column(effects, func(e EffectRequest) string { return e.ActionType }),
		column(effects, func(e EffectRequest) string { return e.Connector }),
		column(effects, func(e EffectRequest) string { return e.Operation }),
		column(effects, func(e EffectRequest) string { return e.TargetSystem }),
		column(effects, func(e EffectRequest) string { return e.TargetRecord }),
		column(effects, EffectRequest.stage), column(effects, func(e EffectRequest) bool { return e.InOrder }))...)
	return err
}

const (
	// siblingsSQL is a statement of its own after the locks of the runs, so that it sees what others have come to. It locks all effects of
	// each run in one order, the settled one too.
	siblingsSQL = `
select i.ord, e.ordinal, e.stage, e.state, coalesce(e.external_id, ''),
  not ` + maybeSentSQL + ` and (e.state = 'pending' or e.state = 'held' and e.hold_reason in ('review', 'recalled'))
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) with ordinality as i(tenant_id, run_id, revision, ordinal, ord)
cross join lateral (
  select * from effects e where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision
  order by e.ordinal for no key update
) e`

	// dropSQL cancels what was certainly not sent, because something of an earlier stage has failed.
	dropSQL = `
with dropped as (
  update effects e set state = 'cancelled', open = false, hold_reason = null, next_check_at = clock_timestamp(),
    updated_at = clock_timestamp()
  from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
  where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal and e.open
  returning e.tenant_id, e.run_id, e.revision, e.ordinal
)
insert into audit_events (tenant_id, run_id, actor, move, to_state, detail)
select tenant_id, run_id, $5, 'drop', 'cancelled', jsonb_build_object('revision', revision, 'ordinal', ordinal,
  'note', 'An effect of an earlier stage failed.') from dropped`

	// wakeSQL has what waits for its stage be looked at now.
	wakeSQL = `
update effects e set next_check_at = greatest(clock_timestamp(), e.not_before)
from unnest($1::text[], $2::uuid[], $3::int[], $4::int[]) as i(tenant_id, run_id, revision, ordinal)
where e.tenant_id = i.tenant_id and e.run_id = i.run_id and e.revision = i.revision and e.ordinal = i.ordinal and e.state = 'pending'`
)

// sibling is another effect of the same intent.
type sibling struct {
	EffectKey
	stage      int
	state      string
	externalID string
	unsent     bool // certainly, and it waits
	asked      bool // people are asked about it again; a ruling alone knows
}

func (s *sibling) ended() bool {
	return s.state == EffectCompleted || s.state == EffectFailed || s.state == EffectCancelled
}

// siblings are the other effects of an intent, and what an effect's move means for them.
type siblings struct {
	others []sibling
	stage  int // of the effect itself
	drops  []EffectKey
	wakes  []EffectKey
	next   []EffectKey // whose stage has come
}

// settleApart settles effects of runs that may have several (D10): it sees what stands under the locks of the runs, so that of two
// effects that end at once exactly one ends the run.
func (l *Ledger) settleApart(ctx context.Context, tx pgx.Tx, batch []*settlement) error {
	if err := lockSiblings(ctx, tx, batch); err != nil {
		return err
	}
	for _, s := range batch {
		if err := s.tell(l.service, s.among()); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, settleSQL[l.service], settleArgs(batch, true)...)
	if err != nil {
		return err
	}
	made, err := pgx.CollectRows(rows, pgx.RowToStructByPos[settledRow])
	if err != nil {
		return err
	}
	var drops, wakes []EffectKey
	var asked []*settlement
	for _, row := range made {
		s := batch[row.Ord-1]
		*s.moved = true
		drops, wakes, asked = append(drops, s.drops...), append(wakes, s.wakes...), append(asked, s)
	}
	if err := l.dropAndWake(ctx, tx, drops, wakes); err != nil {
		return err
	}
	return tellNext(ctx, tx, asked)
}

func (l *Ledger) dropAndWake(ctx context.Context, tx pgx.Tx, drops, wakes []EffectKey) error {
	if len(drops) > 0 {
		if _, err := tx.Exec(ctx, dropSQL, append(keyColumns(drops), l.service)...); err != nil {
			return err
		}
	}
	if len(wakes) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, wakeSQL, keyColumns(wakes)...)
	return err
}

// tellNext asks the dispatcher for the effects whose stage has come, as it was asked for those of the first.
func tellNext(ctx context.Context, tx pgx.Tx, settled []*settlement) error {
	var events []outgoing
	var about []EffectKey
	for _, s := range settled {
		for _, key := range s.next {
			event, err := newOutgoing(key.TenantID, key.RunID, s.TraceParent, &contracts.EffectRequested{TenantID: key.TenantID,
				RunID: key.RunID.String(), OperationID: key.OperationID()})
			if err != nil {
				return err
			}
			events, about = append(events, event), append(about, key)
		}
	}
	if len(events) == 0 {
		return nil
	}
	ids := column(events, func(e outgoing) uuid.UUID { return e.id })
	if _, err := tx.Exec(ctx, rulingEventsSQL, ids, column(about, func(k EffectKey) string { return k.TenantID }),
		column(about, func(k EffectKey) uuid.UUID { return k.RunID }), column(events, func(e outgoing) string { return e.stream }),
		column(events, func(e outgoing) string { return e.subject }), column(events, func(e outgoing) []byte { return e.payload })); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, rulingPendingSQL, ids)
	return err
}

func lockSiblings(ctx context.Context, tx pgx.Tx, batch []*settlement) error {
	keys := column(batch, func(s *settlement) EffectKey { return s.EffectKey })
	columns := keyColumns(keys)
	if _, err := tx.Exec(ctx, lockRunsSQL, columns[:2]...); err != nil {
		return err
	}
	for _, s := range batch {
		s.siblings = siblings{}
	}
	rows, err := tx.Query(ctx, siblingsSQL, columns...)
	if err != nil {
		return err
	}
	var ord int
	var one sibling
	_, err = pgx.ForEachRow(rows, []any{&ord, &one.Ordinal, &one.stage, &one.state, &one.externalID, &one.unsent}, func() error {
		s, other := batch[ord-1], one
		if one.Ordinal == s.Ordinal {
			s.stage = one.stage
			return nil
		}
		other.TenantID, other.RunID, other.Revision = s.TenantID, s.RunID, s.Revision
		s.others = append(s.others, other)
		return nil
	})
	return err
}

// among is what the effect's move means for the run and for its siblings, and the event that tells of it. The run ends with the last of
// its effects: executed where all are done, partial where only some are, failed where none is.
func (s *settlement) among() contracts.Data {
	data := s.consequence()
	fails := s.move.To == EffectFailed
	switch {
	case !s.stranded():
	case s.move.Name == "retry_same_key":
		// It may have been sent all the same, by what a restored database does not know (D17), and is not sent again.
		s.move, s.HoldReason, s.NextCheck = effectMove("exhaust"), HoldExhausted, Never
		s.Note = "An effect of an earlier stage failed, so that it cannot be sent again; it may have been sent."
		return nil
	default:
		s.drops, fails, data = append(s.drops, s.EffectKey), true, s.fail()
	}
	if len(s.others) == 0 || s.move.To != EffectCompleted && !fails {
		return data
	}
	done := 0
	open := false
	for i := range s.others {
		o := &s.others[i]
		switch {
		case o.state == EffectCompleted:
			done++
		case o.ended():
		case fails && o.stage > s.stage && o.unsent:
			s.drops = append(s.drops, o.EffectKey)
		case fails && o.stage > s.stage:
			s.wakes, open = append(s.wakes, o.EffectKey), true // it is looked for (D17)
		default:
			open = true
		}
	}
	if s.move.To == EffectCompleted {
		s.releases()
	}
	switch {
	case open:
		s.runMove, s.outcome = Move{}, ""
		return nil
	case s.move.To == EffectCompleted && done == len(s.others), fails && done == 0:
		return data
	}
	return s.partly()
}

// stranded reports whether the effect would wait for a stage that never comes: it is not done, and something before it never will be.
func (s *settlement) stranded() bool {
	return s.move.To == EffectPending && slices.ContainsFunc(s.others, func(o sibling) bool {
		return o.stage < s.stage && o.ended() && o.state != EffectCompleted
	})
}

// releases finds the siblings whose stage comes, now that this effect is completed.
func (s *settlement) releases() {
	next := 0
	for i := range s.others {
		if o := &s.others[i]; o.state == EffectPending && o.stage > s.stage {
			s.wakes = append(s.wakes, o.EffectKey)
			if next == 0 || o.stage < next {
				next = o.stage
			}
		}
	}
	if next == 0 || slices.ContainsFunc(s.others, func(o sibling) bool { return o.stage < next && o.state != EffectCompleted }) {
		return
	}
	for _, o := range s.others {
		if o.stage == next && o.state == EffectPending {
			s.next = append(s.next, o.EffectKey)
		}
	}
}

// partly ends the run with some of its effects done and some not.
func (s *settlement) partly() contracts.Data {
	s.runMove, s.outcome = runMove("complete"), OutcomePartial
	done, receipt := s.EffectKey, s.ExternalID
	if s.move.To != EffectCompleted {
		for _, o := range s.others {
			if o.state == EffectCompleted {
				done, receipt = o.EffectKey, o.externalID
			}
		}
	}
	return &contracts.RunCompleted{RunRef: contracts.RunRef{TenantID: s.TenantID, RunID: s.RunID.String(), IdempotencyKey: s.RunKey,
		CorrelationID: s.CorrelationID}, Outcome: OutcomePartial, OperationID: done.OperationID(), TargetReceipt: receipt}
}
