package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Unattended is a case that a rule let act with no person asked.
type Unattended struct {
	TenantID      string
	RunID         uuid.UUID
	Key           string
	CorrelationID string
	Source        string
	RequestedBy   string // as the event says it
	RunState      string
	OutcomeReason string
	ActionType    string
	TargetSystem  string
	TargetRecord  string
	IntentHash    canonical.Digest
	Canonical     []byte
	PolicyVersion string
	Reasons       json.RawMessage
	AuthorizedAt  time.Time
	CancelUntil   *time.Time // nil where the rule holds nothing
	Effect        EffectView
	Samples       []SampleView
	Now           time.Time // the database's clock
}

// Open reports whether it is still certain that nothing was sent, so that it can be taken back.
func (u *Unattended) Open() bool { return u.Effect.Unsent() }

// SampleView is one case that people look at afterwards.
type SampleView struct {
	SampleID   uuid.UUID  `json:"sample_id"`
	Rule       string     `json:"rule"`
	Evaluation string     `json:"evaluation"`
	Audience   []string   `json:"audience"`
	ReviewBy   time.Time  `json:"review_by"`
	Verdict    *string    `json:"verdict"` // nil while it waits
	By         *string    `json:"by"`
	Reason     *string    `json:"reason"`
	At         *time.Time `json:"at"`
	StoppedBy  *string    `json:"stopped_by"` // who stopped the class, nil where it goes on
}

const (
	unattendedSQL = `
select e.tenant_id, e.run_id, r.idempotency_key, r.correlation_id, r.source, r.requested_by, r.state, coalesce(r.outcome_reason, ''),
  e.action_type, e.target_system, e.target_record, e.intent_hash, n.canonical, d.policy_version, d.reasons, a.authorized_at,
  e.cancel_until, e.operation_id, e.state, e.hold_reason, e.external_id, e.attempts, e.execute_by,
  (select coalesce(jsonb_agg(jsonb_build_object('sample_id', u.sample_id, 'rule', c.rule_id, 'evaluation', c.evaluation_id,
      'audience', u.audience, 'review_by', u.review_by, 'verdict', u.verdict, 'by', u.reviewer_id, 'reason', u.reason, 'at', u.judged_at,
      'stopped_by', c.stopped_by) order by u.review_by), '[]')
    from exception_uses u join exception_classes c using (class_id)
    where u.tenant_id = e.tenant_id and u.run_id = e.run_id and u.intent_hash = e.intent_hash and u.sample_id is not null),
  clock_timestamp()
from (%s) e
join runs r using (run_id, tenant_id) join intents n using (run_id, tenant_id, intent_hash)
join authorizations a using (run_id, tenant_id, intent_hash, authorization_id)
join policy_decisions d on d.tenant_id = e.tenant_id and d.run_id = e.run_id and d.intent_hash = e.intent_hash
  and d.decision_id = a.decision_id and d.route = 'auto'`

	// Both lists are cut along an index before anything is joined. The first effect of an intent stands for all.
	heldBackSQL = `select * from effects where not_before is not null and state = 'pending' and tenant_id = any($1) and ordinal = 1
order by not_before limit $2`
	sampledSQL = `select e.* from (
  select u.tenant_id, u.run_id, u.intent_hash from exception_uses u
  where u.sample_id is not null and u.verdict is null and u.tenant_id = any($1) and u.audience && $3 order by u.review_by limit $2
) u join effects e using (run_id, tenant_id, intent_hash) where e.ordinal = 1`
	oneUnattendedSQL = `select * from effects where run_id = $1 order by revision desc, ordinal limit 1`
)

// HeldBack lists up to limit effects of some tenants that wait for the end of their window, the next one first (D14).
func (l *Ledger) HeldBack(ctx context.Context, tenants []string, limit int) ([]Unattended, error) {
	return l.unattended(ctx, heldBackSQL, " order by e.not_before", tenants, limit)
}

// Samples lists up to limit cases that people of the audience have to look at, the most urgent first (P4).
func (l *Ledger) Samples(ctx context.Context, tenants, audience []string, limit int) ([]Unattended, error) {
	return l.unattended(ctx, sampledSQL, "", tenants, limit, audience)
}

// ErrNoUnattended means that the run has no effect that a rule let act.
var ErrNoUnattended = errors.New("no rule let that run act")

// UnattendedOf reads the latest effect of a run, whatever the tenant: who may see it is the caller's to check.
func (l *Ledger) UnattendedOf(ctx context.Context, run uuid.UUID) (*Unattended, error) {
	list, err := l.unattended(ctx, oneUnattendedSQL, "", run)
	if err == nil && len(list) == 0 {
		err = ErrNoUnattended
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func (l *Ledger) unattended(ctx context.Context, which, order string, args ...any) ([]Unattended, error) {
	rows, err := l.pool.Query(ctx, fmt.Sprintf(unattendedSQL, which)+order, args...)
	if err == nil {
		var list []Unattended
		if list, err = pgx.CollectRows(rows, scanUnattended); err == nil {
			return list, nil
		}
	}
	return nil, unread("list what acts with no person asked", err)
}

func scanUnattended(row pgx.CollectableRow) (u Unattended, err error) {
	var hash, samples []byte
	err = row.Scan(&u.TenantID, &u.RunID, &u.Key, &u.CorrelationID, &u.Source, &u.RequestedBy, &u.RunState, &u.OutcomeReason,
		&u.ActionType, &u.TargetSystem, &u.TargetRecord, &hash, &u.Canonical, &u.PolicyVersion, &u.Reasons, &u.AuthorizedAt,
		&u.CancelUntil, &u.Effect.OperationID, &u.Effect.State, &u.Effect.HoldReason, &u.Effect.ExternalID, &u.Effect.Attempts,
		&u.Effect.ExecuteBy, &samples, &u.Now)
	if err != nil {
		return u, err
	}
	copy(u.IntentHash[:], hash)
	return u, json.Unmarshal(samples, &u.Samples)
}
