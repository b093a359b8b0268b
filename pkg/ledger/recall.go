package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Recall holds what was drafted by a model, a prompt, a policy or a workflow version and was not sent yet (D16). Of the names at
// least one is given, besides ModelRevision; a draft is recalled where all that are given are its own.
type Recall struct {
	ID              uuid.UUID
	TenantID        string
	ModelName       string
	ModelRevision   string // of the model; "" is any
	PromptVersion   string
	WorkflowVersion string
	PolicyVersion   string    // under which it was decided, by rules or for people
	Since           time.Time // drafts before it are not recalled; zero is none
	By, Reason      string
	At              time.Time // set by StartRecall
	Lifted          bool
}

// coversSQL is true where a recall, by its alias, covers the draft n.
func coversSQL(rc string) string {
	return `(` + rc + `.model_name is null or n.model->>'name' = ` + rc + `.model_name)
  and (` + rc + `.model_revision is null or n.model->>'revision' = ` + rc + `.model_revision)
  and (` + rc + `.prompt_version is null or n.model->>'prompt_version' = ` + rc + `.prompt_version)
  and (` + rc + `.workflow_version is null or convert_from(n.canonical, 'UTF8')::json->>'workflow_version' = ` + rc + `.workflow_version)
  and (` + rc + `.policy_version is null or exists (select from policy_decisions pd where pd.tenant_id = n.tenant_id
    and pd.run_id = n.run_id and pd.intent_hash = n.intent_hash and pd.policy_version = ` + rc + `.policy_version))
  and (` + rc + `.drafted_since is null or n.created_at >= ` + rc + `.drafted_since)`
}

// standingRecallSQL says who has recalled the draft of an effect, by the effect's alias, and why; null where nobody has.
func standingRecallSQL(effect string) string {
	return `(select rc.recalled_by || ': ' || rc.reason from recalls rc join intents n on n.tenant_id = rc.tenant_id
  where rc.lifted_at is null and n.tenant_id = ` + effect + `.tenant_id and n.run_id = ` + effect + `.run_id
    and n.intent_hash = ` + effect + `.intent_hash and ` + coversSQL("rc") + ` limit 1)`
}

var (
	startRecallSQL = `
insert into recalls (recall_id, tenant_id, model_name, model_revision, prompt_version, workflow_version, policy_version, drafted_since,
  recalled_by, reason)
values ($1, $2, nullif($3, ''), nullif($4, ''), nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10)
on conflict do nothing`

	// movedSQL moves what was chosen, and says why in the audit: $1 to $7 are the recall, its tenant, the state before, how many, the
	// state after, the reason to hold, and the move.
	movedSQL = `, moved as (
  update effects e set state = $5, hold_reason = case when $5 = 'held' then $6 end, updated_at = clock_timestamp(),
    next_check_at = clock_timestamp() + case when $5 = 'held' then interval '100 years' else interval '0' end
  from due d where e.tenant_id = d.tenant_id and e.run_id = d.run_id and e.revision = d.revision and e.ordinal = d.ordinal
  returning e.tenant_id, e.run_id, e.revision, e.ordinal
)
insert into audit_events (tenant_id, run_id, actor, move, from_state, to_state, detail)
select m.tenant_id, m.run_id, coalesce(rc.lifted_by, rc.recalled_by), $7, $3, $5, jsonb_build_object('revision', m.revision,
  'ordinal', m.ordinal, 'recall_id', rc.recall_id, 'reason', coalesce(rc.lift_reason, rc.reason))
from moved m join recalls rc on rc.recall_id = $1 and rc.tenant_id = m.tenant_id`

	holdRecalledSQL = `
with due as materialized (
  select e.tenant_id, e.run_id, e.revision, e.ordinal from recalls rc join effects e using (tenant_id)
  join intents n using (tenant_id, run_id, intent_hash)
  where rc.recall_id = $1 and rc.tenant_id = $2 and rc.lifted_at is null and e.open and e.state = $3 and not e.maybe_sent
    and ` + coversSQL("rc") + `
  order by e.tenant_id, e.run_id, e.revision, e.ordinal limit $4 for no key update of e skip locked
)` + movedSQL

	liftRecallSQL = `
update recalls set lifted_at = clock_timestamp(), lifted_by = $3, lift_reason = $4
where recall_id = $1 and tenant_id = $2 and lifted_at is null`

	// What another recall covers stays held.
	releaseRecalledSQL = `
with due as materialized (
  select e.tenant_id, e.run_id, e.revision, e.ordinal from recalls rc join effects e using (tenant_id)
  join intents n using (tenant_id, run_id, intent_hash)
  where rc.recall_id = $1 and rc.tenant_id = $2 and rc.lifted_at is not null and e.open and e.state = $3 and e.hold_reason = $6
    and ` + coversSQL("rc") + ` and not exists (select from recalls o where o.tenant_id = e.tenant_id and o.lifted_at is null
      and ` + coversSQL("o") + `)
  order by e.tenant_id, e.run_id, e.revision, e.ordinal limit $4 for no key update of e skip locked
)` + movedSQL

	recallsSQL = `
select recall_id, tenant_id, coalesce(model_name, ''), coalesce(model_revision, ''), coalesce(prompt_version, ''),
  coalesce(workflow_version, ''), coalesce(policy_version, ''), drafted_since, recalled_by, reason, recalled_at, lifted_at is not null
from recalls where ($1 = '' or tenant_id = $1) and ($2 or lifted_at is null) order by recalled_at`

	recalledSQL = `
select r.idempotency_key, n.run_id, n.intent_hash, r.state, coalesce(e.operation_id, ''), coalesce(e.state, ''), coalesce(e.hold_reason, ''),
  coalesce(e.maybe_sent, false), coalesce(e.external_id, ''), n.action_type, coalesce(e.target_system, ''), coalesce(e.target_record, ''),
  n.created_at
from recalls rc join intents n using (tenant_id) join runs r using (run_id, tenant_id)
left join effects e using (run_id, tenant_id, intent_hash)
where rc.recall_id = $1 and rc.tenant_id = $2 and ` + coversSQL("rc") + ` order by n.created_at, n.run_id, n.revision, e.ordinal`
)

// StartRecall makes a recall stand. It takes the lock that leasing shares: when it returns, no first byte of what it covers is given
// leave any more, and what is authorized later is held when it would be sent. HoldRecalled holds what waits already. Started again
// under its id, it stands as it was.
func (l *Ledger) StartRecall(ctx context.Context, r Recall) error {
	switch {
	case r.By == "" || r.Reason == "":
		return errors.New("a recall is somebody's and has a reason: give both")
	case r.ModelName == "" && r.PromptVersion == "" && r.WorkflowVersion == "" && r.PolicyVersion == "":
		return errors.New("a recall names a model, a prompt, a workflow or a policy version")
	}
	return l.command(ctx, "recall", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("recall"), nil, func(tx pgx.Tx) error {
			if err := lockSending(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, startRecallSQL, r.ID, r.TenantID, r.ModelName, r.ModelRevision, r.PromptVersion, r.WorkflowVersion,
				r.PolicyVersion, orNull(r.Since), r.By, r.Reason)
			return err
		})
	})
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// HoldRecalled holds up to limit of the effects that wait to be sent and that a standing recall covers, and returns how many it held.
// One that may have been sent before is not held, where nobody would look for it any more: it stays open, and the dispatcher sends it no
// more and has it looked for (D6).
func (l *Ledger) HoldRecalled(ctx context.Context, tenant string, recall uuid.UUID, limit int) (int, error) {
	move := effectMove("recall")
	return l.recall(ctx, holdRecalledSQL, recall, tenant, move.From[0], limit, move.To, HoldRecalled, move.Name)
}

// ErrNoRecall means that no recall with that id stands.
var ErrNoRecall = errors.New("no recall with that id stands")

// LiftRecall ends a recall. ReleaseRecalled lets go what it held.
func (l *Ledger) LiftRecall(ctx context.Context, tenant string, recall uuid.UUID, by, reason string) error {
	if by == "" || reason == "" {
		return errors.New("a recall is lifted by somebody and for a reason: give both")
	}
	n, err := l.recall(ctx, liftRecallSQL, recall, tenant, by, reason)
	if err == nil && n == 0 {
		err = ErrNoRecall
	}
	return err
}

// ReleaseRecalled has up to limit of the effects that a lifted recall held wait to be sent again, and returns how many. What another
// recall covers stays held, and what is past its execute-by goes back to people as ever.
func (l *Ledger) ReleaseRecalled(ctx context.Context, tenant string, recall uuid.UUID, limit int) (int, error) {
	move := effectMove("release")
	return l.recall(ctx, releaseRecalledSQL, recall, tenant, move.From[0], limit, move.To, HoldRecalled, move.Name)
}

func (l *Ledger) recall(ctx context.Context, statement string, args ...any) (n int, err error) {
	err = l.command(ctx, "recall", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("recall"), nil, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, statement, args...)
			n = int(tag.RowsAffected())
			return err
		})
	})
	return n, err
}

// Recalls lists the recalls of a tenant, or of all where it is "", the oldest first; those that were lifted too where lifted is set.
func (l *Ledger) Recalls(ctx context.Context, tenant string, lifted bool) ([]Recall, error) {
	rows, err := l.pool.Query(ctx, recallsSQL, tenant, lifted)
	if err != nil {
		return nil, fmt.Errorf("list the recalls: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Recall, err error) {
		var since *time.Time
		err = row.Scan(&r.ID, &r.TenantID, &r.ModelName, &r.ModelRevision, &r.PromptVersion, &r.WorkflowVersion, &r.PolicyVersion, &since,
			&r.By, &r.Reason, &r.At, &r.Lifted)
		r.Since = orZero(since)
		return r, err
	})
}

// Recalled is one draft that a recall covers, with its effect where it has one.
type Recalled struct {
	Key          string    `json:"idempotency_key"`
	RunID        uuid.UUID `json:"run_id"`
	IntentHash   string    `json:"intent_hash"`
	RunState     string    `json:"run_state"`
	OperationID  string    `json:"operation_id,omitempty"` // "" where nothing was authorized, as are the effect's other members
	State        string    `json:"state,omitempty"`
	HoldReason   string    `json:"hold_reason,omitempty"`
	MaybeSent    bool      `json:"maybe_sent"` // it has reached the provider, or may have
	ExternalID   string    `json:"external_id,omitempty"`
	ActionType   string    `json:"action_type"`
	TargetSystem string    `json:"target_system,omitempty"`
	TargetRecord string    `json:"target_record,omitempty"`
	DraftedAt    time.Time `json:"drafted_at"`
}

// EachRecalled gives every draft that a recall covers, the oldest first, whatever became of it. It reads all drafts of the tenant.
func (l *Ledger) EachRecalled(ctx context.Context, tenant string, recall uuid.UUID, give func(*Recalled) error) error {
	rows, err := l.pool.Query(ctx, recalledSQL, recall, tenant)
	if err != nil {
		return fmt.Errorf("list what recall %s covers: %w", recall, err)
	}
	var r Recalled
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&r.Key, &r.RunID, &hash, &r.RunState, &r.OperationID, &r.State, &r.HoldReason, &r.MaybeSent,
		&r.ExternalID, &r.ActionType, &r.TargetSystem, &r.TargetRecord, &r.DraftedAt}, func() error {
		r.IntentHash = fmt.Sprintf("%x", hash)
		return give(&r)
	})
	return err
}
