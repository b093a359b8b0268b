package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Card is all that a reviewer is shown about one approval, and what happened after the decision.
type Card struct {
	ApprovalSummary
	IntentHash    canonical.Digest
	Canonical     []byte // the snapshot that is approved, and nothing else (A11)
	Revision      int
	Model         json.RawMessage
	Reasons       json.RawMessage // why a person is asked
	PolicyVersion string          // that asked
	Route         string
	SentBy        string // the credential that brought the event in
	ReceivedAt    time.Time
	ExecuteWithin time.Duration
	OutcomeReason string
	Cast          []Cast
	Effects       []EffectView
	History       []HistoryRow
	Earlier       int             // approvals of this run before this one
	Corrects      *CorrectionView // nil where the event corrects no other
	Readings      Readings        // what the targets of its actions hold
	Glass         *GlassReview    // nil where nobody approved it alone
	Looks         []Look          // by which people decided earlier requests of this run, the latest first (A17)
}

// CorrectionView is what a correction says of the run that it corrects, and what that run had done by then (K10).
type CorrectionView struct {
	RunID   uuid.UUID         `json:"run_id"`
	Key     string            `json:"key"`
	By      string            `json:"by"`
	Reason  string            `json:"reason"`
	Outcome string            `json:"outcome"`
	Effects []CorrectedEffect `json:"effects"`
}

// CorrectedEffect is one effect of a run that was corrected.
type CorrectedEffect struct {
	OperationID string  `json:"operation_id"`
	State       string  `json:"state"`
	ExternalID  *string `json:"external_id"`
}

// EffectView is one effect of the run as people are shown it.
type EffectView struct {
	OperationID string    `json:"operation_id"`
	State       string    `json:"state"`
	HoldReason  *string   `json:"hold_reason"`
	ExternalID  *string   `json:"external_id"`
	Attempts    int       `json:"attempts"`
	ExecuteBy   time.Time `json:"execute_by"`
	Detail      *string   `json:"detail"` // of the last attempt that reported
	// Postcondition is what the target was found to hold after a success, one of the Postcondition… constants, and at which version
	// (R7); nil where it was not read.
	Postcondition        *string `json:"postcondition"`
	PostconditionVersion *string `json:"postcondition_version"`
}

// HistoryRow is one line of the run's audit.
type HistoryRow struct {
	At    time.Time       `json:"at"`
	Actor string          `json:"actor"`
	Move  string          `json:"move"`
	To    *string         `json:"to"`
	Facts json.RawMessage `json:"detail"`
}

// Execution statuses, derived from the effects.
const (
	ExecutionNotStarted = "not_started"
	ExecutionExecuting  = "executing"
	ExecutionExecuted   = "executed"
	ExecutionFailed     = "failed"
	ExecutionUnknown    = "unknown"
)

// ExecutionStatus is what became of an approval's effects: unknown before failed before executing before executed, so that the
// worst is not hidden by the rest.
func ExecutionStatus(effects []EffectView) string {
	seen := map[string]bool{}
	for _, e := range effects {
		switch e.State {
		case EffectUnknown:
			seen[ExecutionUnknown] = true
		case EffectHeld:
			if e.HoldReason == nil || *e.HoldReason != HoldReview { // else people decide again, and nothing was sent
				seen[ExecutionFailed] = true
			}
		case EffectFailed, EffectCancelled:
			seen[ExecutionFailed] = true
		case EffectCompleted:
			seen[ExecutionExecuted] = true
		default:
			seen[ExecutionExecuting] = true
		}
	}
	for _, status := range []string{ExecutionUnknown, ExecutionFailed, ExecutionExecuting, ExecutionExecuted} {
		if seen[status] {
			return status
		}
	}
	return ExecutionNotStarted
}

const cardSQL = `
select ` + summaryColumns + `,
  a.intent_hash, n.canonical, n.revision, n.model, a.reasons, coalesce(d.policy_version, ''), coalesce(d.route, ''), r.sent_by, r.created_at,
  extract(epoch from a.execute_within)::float8, coalesce(r.outcome_reason, ''),
  (select coalesce(jsonb_agg(jsonb_build_object('operation_id', e.operation_id, 'state', e.state, 'hold_reason', e.hold_reason,
      'external_id', e.external_id, 'attempts', e.attempts, 'execute_by', e.execute_by,
      'postcondition', e.postcondition, 'postcondition_version', e.postcondition_version,
      'detail', (select t.detail from effect_attempts t where t.tenant_id = e.tenant_id and t.run_id = e.run_id
        and t.revision = e.revision and t.ordinal = e.ordinal and t.class is not null order by t.attempt desc limit 1))
      order by e.revision, e.ordinal), '[]') from effects e where e.tenant_id = a.tenant_id and e.run_id = a.run_id),
  (select coalesce(jsonb_agg(jsonb_build_object('at', h.at, 'actor', h.actor, 'move', h.move, 'to', h.to_state, 'detail', h.detail)
      order by h.audit_id), '[]') from audit_events h where h.tenant_id = a.tenant_id and h.run_id = a.run_id),
  (select count(*) from approvals o where o.tenant_id = a.tenant_id and o.run_id = a.run_id and o.requested_at < a.requested_at)::int,
  (select jsonb_build_object('run_id', c.original_run, 'key', o.idempotency_key, 'by', c.corrected_by, 'reason', c.reason,
      'outcome', c.original_outcome, 'effects', c.original_effects)
    from corrections c join runs o on o.run_id = c.original_run and o.tenant_id = c.tenant_id
    where c.run_id = a.run_id and c.tenant_id = a.tenant_id),
  (select ` + glassView + ` from glass_reviews b where b.tenant_id = a.tenant_id and b.approval_id = a.approval_id),
  ` + readingsView + `
from approvals a join runs r using (run_id, tenant_id) join intents n using (run_id, tenant_id, intent_hash)
left join lateral (
  select d.policy_version, d.route from policy_decisions d where d.tenant_id = a.tenant_id and d.run_id = a.run_id
    and d.intent_hash = a.intent_hash order by d.decided_at desc limit 1
) d on true
where a.approval_id = $1`

// ErrNoApproval means that no approval has that id.
var ErrNoApproval = errors.New("there is no such approval")

// Card reads one approval with its run, whatever the tenant: who may see it is the caller's to check.
func (l *Ledger) Card(ctx context.Context, approval uuid.UUID) (*Card, error) {
	var c Card
	var hash, effects, history, readings []byte
	var within float64
	var read []readRow
	s := &c.ApprovalSummary
	err := l.pool.QueryRow(ctx, cardSQL, approval).Scan(slices.Concat(s.columns(), []any{&hash, &c.Canonical,
		&c.Revision, &c.Model, &c.Reasons, &c.PolicyVersion, &c.Route, &c.SentBy, &c.ReceivedAt, &within, &c.OutcomeReason, &effects,
		&history, &c.Earlier, &c.Corrects, &c.Glass, &readings})...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoApproval
	}
	if err != nil {
		return nil, unread(fmt.Sprintf("read approval %s", approval), err)
	}
	copy(c.IntentHash[:], hash)
	c.ExecuteWithin = time.Duration(within * float64(time.Second))
	if err := errors.Join(json.Unmarshal(effects, &c.Effects), json.Unmarshal(history, &c.History), json.Unmarshal(readings, &read)); err != nil {
		return nil, fmt.Errorf("read approval %s: %w", approval, err)
	}
	c.Readings = readingsOf(read)
	if c.Cast, err = l.cast(ctx, s.TenantID, s.RunID, s.ApprovalID); err == nil && c.Earlier > 0 {
		c.Looks, err = l.looks(ctx, s)
	}
	return &c, err
}

func (l *Ledger) cast(ctx context.Context, tenant string, run, approval uuid.UUID) ([]Cast, error) {
	rows, err := l.pool.Query(ctx, `
select v.decision, v.issuer, v.subject, v.reviewer_id, v.reason, v.decided_at, v.roles,
  v.for_issuer, v.for_subject, v.for_id
from reviews v where v.tenant_id = $1 and v.run_id = $2 and v.approval_id = $3 order by v.ordinal`, tenant, run, approval)
	if err == nil {
		var all []Cast
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Cast, err error) {
			var principal [3]*string
			err = row.Scan(&c.Decision, &c.Issuer, &c.Subject, &c.ReviewerID, &c.Reason, &c.DecidedAt, &c.Roles, &principal[0],
				&principal[1], &principal[2])
			c.For = principalOf(principal)
			return c, err
		})
		if err == nil {
			return all, nil
		}
	}
	return nil, unread(fmt.Sprintf("read the votes on approval %s", approval), err)
}
