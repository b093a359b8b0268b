package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// TakeBack is somebody's wish that what was authorized is not sent (D14).
type TakeBack struct {
	TenantID string
	RunID    uuid.UUID
	By       string // id of a person
	Reason   string
}

// outcomeReason is what the run ends with. It tells a wish that is repeated, because the answer to its COMMIT was lost, from another.
func (b *TakeBack) outcomeReason() string {
	return fmt.Sprintf("Taken back by %s before it was sent: %s", b.By, b.Reason)
}

// TakenBack is what became of the wish. Where Done is false it was too late, and the rest says why.
type TakenBack struct {
	Done          bool
	RunState      string
	OutcomeReason string // of a run that has ended
	Effect        *EffectView
	FirstSentAt   *time.Time // when the first request may have left
	MaybeSent     bool       // it may have reached the provider, also where a restored database does not know of it (D17)
}

// Unsent reports whether the effect waits to be sent, so that it can still be taken back.
func (e EffectView) Unsent() bool { return effectMove("take_back").Allowed(e.State) }

// ErrNoRun means that no run has that id.
var ErrNoRun = errors.New("there is no such run")

// lockRunEffectsSQL waits for whoever moves an effect of the run, in a statement before the one that looks.
const lockRunEffectsSQL = `
with locked as materialized (select from runs where tenant_id = $1 and run_id = $2 for no key update)
select from effects where tenant_id = $1 and run_id = $2 and (select count(*) from locked) >= 0 order by revision, ordinal for no key update`

// takeBackSQL races the dispatcher's lease by the locks of the effects' rows: only one of them finds them pending. What may have reached
// the provider, and what a former owner has yet to report of, cannot be taken back, and neither can the rest of a run that has begun.
const takeBackSQL = `
with locked as materialized (
  select r.tenant_id, r.run_id, r.intent_revision, clock_timestamp() as now from runs r
  where r.tenant_id = $1 and r.run_id = $2 and r.state = any($3) for no key update
), cancelled as (
  update effects e set state = $4, open = false, next_check_at = k.now, updated_at = k.now
  from locked k where e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.intent_revision and e.state = any($5)
    and not exists (select from effects e where e.tenant_id = k.tenant_id and e.run_id = k.run_id and e.revision = k.intent_revision
      and (e.state <> all($5) or ` + maybeSentSQL + `))
  returning e.tenant_id, e.run_id, e.operation_id, e.ordinal, k.now
), ended as (
  update runs r set state = $6, outcome = $7, outcome_reason = $8, version = r.version + 1, updated_at = c.now, next_check_at = null,
    ended_at = c.now
  from cancelled c where c.ordinal = 1 and r.tenant_id = c.tenant_id and r.run_id = c.run_id
  returning r.tenant_id, r.run_id, c.operation_id
), log as (
  insert into event_log (event_id, tenant_id, run_id, stream, subject, payload)
  select $9, tenant_id, run_id, $10, $11, $12 from ended
), queue as (insert into pending (event_id) select $9 from ended),
audit as (
  insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
  select tenant_id, run_id, $13, 'take_back', ($3::text[])[1], $6, jsonb_build_object('operation_id', operation_id, 'reason', $14::text)
  from ended
)
select count(*) from ended`

// TakeBack ends a run whose effect was certainly not sent, and has it not sent (D14). What was sent, or may have been, stays as it is;
// the answer then says what is known.
func (l *Ledger) TakeBack(ctx context.Context, b TakeBack) (done TakenBack, err error) {
	err = l.command(ctx, "take_back", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("take_back"), []string{b.RunID.String()}, func(tx pgx.Tx) error {
			run := contracts.RunRef{TenantID: b.TenantID, RunID: b.RunID.String()}
			var trace string
			err := tx.QueryRow(ctx, `select idempotency_key, correlation_id, traceparent from runs where tenant_id = $1 and run_id = $2`,
				b.TenantID, b.RunID).Scan(&run.IdempotencyKey, &run.CorrelationID, &trace)
			if errors.Is(err, pgx.ErrNoRows) {
				return ErrNoRun
			}
			if err != nil {
				return err
			}
			event, err := newOutgoing(b.TenantID, b.RunID, trace, &contracts.RunEnded{RunRef: run, Outcome: OutcomeRejected,
				Reason: b.outcomeReason()})
			if err != nil {
				return err
			}
			if _, err = tx.Exec(ctx, lockRunEffectsSQL, b.TenantID, b.RunID); err != nil {
				return err
			}
			ofRun, ofEffect := runMove("take_back"), effectMove("take_back")
			if _, err = tx.Exec(ctx, takeBackSQL, b.TenantID, b.RunID, ofRun.From, ofEffect.To, ofEffect.From, ofRun.To, OutcomeRejected,
				b.outcomeReason(), event.id, event.stream, event.subject, event.payload, b.By, b.Reason); err != nil {
				return err
			}
			done, err = takenBack(ctx, tx, b)
			return err
		})
	})
	return done, err
}

// takenBack reads what stands, in a statement after the move: a wish that is repeated is done as well.
func takenBack(ctx context.Context, tx pgx.Tx, b TakeBack) (t TakenBack, err error) {
	var e EffectView
	var operation, state *string
	var attempts *int
	var executeBy *time.Time
	var maybeSent *bool
	err = tx.QueryRow(ctx, `
select r.state, coalesce(r.outcome_reason, ''), e.operation_id, e.state, e.hold_reason, e.external_id, e.attempts, e.execute_by,
  e.first_sent_at, e.maybe
from runs r left join lateral (
  select * from (
    select *, `+maybeSentSQL+` as maybe from effects e
    where e.tenant_id = r.tenant_id and e.run_id = r.run_id and e.revision = r.intent_revision
  ) e order by e.state = any($3) and not e.maybe, e.ordinal limit 1 -- the one in the way, if there is one
) e on true
where r.tenant_id = $1 and r.run_id = $2`, b.TenantID, b.RunID, effectMove("take_back").From).Scan(&t.RunState, &t.OutcomeReason,
		&operation, &state, &e.HoldReason, &e.ExternalID, &attempts, &executeBy, &t.FirstSentAt, &maybeSent)
	if err != nil {
		return t, err
	}
	if operation != nil {
		e.OperationID, e.State, e.Attempts, e.ExecuteBy = *operation, *state, *attempts, *executeBy
		t.Effect, t.MaybeSent = &e, *maybeSent
	}
	t.Done = t.RunState == RunFailedTerminal && t.OutcomeReason == b.outcomeReason()
	return t, nil
}
