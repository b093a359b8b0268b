package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Run is where one run stands.
type Run struct {
	TenantID       string
	RunID          uuid.UUID
	Key            string
	Source         string
	RulesVersion   int
	PayloadHash    canonical.Digest
	State          string
	Outcome        string // "" while the run has not ended
	OutcomeReason  string
	Version        int64
	IntentRevision int
	CorrelationID  string
	TraceParent    string
	Takeovers      int       // how often a lease ended and another worker took over (K7)
	Attempts       int       // how often the run was given to a worker
	LeaseOwner     uuid.UUID // uuid.Nil where nobody owns the run
	Effects        []EffectSummary
	ReviseBy       *time.Time // a proposal that was sent back is awaited until then; nil where none is

	commandID      uuid.UUID
	leaseExpiresAt *time.Time
	leaseLeft      *float64 // seconds
}

// LeaseExpiresAt is when the owner's lease ends by the database's clock, or the zero time.
func (r *Run) LeaseExpiresAt() time.Time {
	if r.leaseExpiresAt == nil {
		return time.Time{}
	}
	return *r.leaseExpiresAt
}

// LeaseLeft is how long the owner's lease was to last yet when the run was read, by the database's clock; 0 without a lease or
// after it.
func (r *Run) LeaseLeft() time.Duration {
	if r.leaseLeft == nil {
		return 0
	}
	return time.Duration(max(0, *r.leaseLeft) * float64(time.Second))
}

// Ended reports whether nothing more will happen to the run.
func (r *Run) Ended() bool { return r.State == RunCompleted || r.State == RunFailedTerminal }

// Unknown reports whether some effect of the run may or may not have taken place (K14).
func (r *Run) Unknown() bool {
	for _, e := range r.Effects {
		if e.State == EffectUnknown {
			return true
		}
	}
	return false
}

// EffectSummary is what a caller is told of one effect.
type EffectSummary struct {
	OperationID string
	State       string
	HoldReason  string
	ExternalID  string
}

const runColumns = `r.tenant_id, r.run_id, r.idempotency_key, r.source, r.rules_version, r.payload_hash, r.state,
  coalesce(r.outcome, ''), coalesce(r.outcome_reason, ''), r.version, r.intent_revision, r.correlation_id, r.traceparent,
  coalesce(r.lease_owner, '00000000-0000-0000-0000-000000000000'), r.lease_expires_at, r.takeovers, r.attempts, r.command_id,
  extract(epoch from r.lease_expires_at - clock_timestamp())::float8, r.revise_by`

// runsSQL reads runs with their effects. Effects exist only for runs that were approved, and only their states let the second
// look-up happen, so most duplicates cost one.
const runsSQL = `
select ` + runColumns + `, e.operation_ids, e.states, e.holds, e.external_ids
from unnest($1::text[], $2::uuid[]) as i(tenant_id, run_id)
cross join lateral (select * from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id limit 1) r
left join lateral (
  select array_agg(operation_id order by revision, ordinal) as operation_ids, array_agg(state order by revision, ordinal) as states,
    array_agg(coalesce(hold_reason, '') order by revision, ordinal) as holds,
    array_agg(coalesce(external_id, '') order by revision, ordinal) as external_ids
  from effects e where e.tenant_id = r.tenant_id and e.run_id = r.run_id
    and r.state in ('approved', 'awaiting_human', 'completed', 'failed_terminal')
) e on true`

func (l *Ledger) readRuns(ctx context.Context, keys []runKey) (map[runKey]*Run, error) {
	rows, err := l.pool.Query(ctx, runsSQL, column(keys, func(k runKey) string { return k.tenant }),
		column(keys, func(k runKey) uuid.UUID { return k.run }))
	if err != nil {
		return nil, err
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return nil, err
	}
	found := make(map[runKey]*Run, len(runs))
	for i := range runs {
		found[runKey{runs[i].TenantID, runs[i].RunID}] = &runs[i]
	}
	return found, nil
}

func scanRun(row pgx.CollectableRow) (r Run, err error) {
	var hash []byte
	var operations, states, holds, externals []string
	err = row.Scan(&r.TenantID, &r.RunID, &r.Key, &r.Source, &r.RulesVersion, &hash, &r.State, &r.Outcome, &r.OutcomeReason,
		&r.Version, &r.IntentRevision, &r.CorrelationID, &r.TraceParent, &r.LeaseOwner, &r.leaseExpiresAt, &r.Takeovers, &r.Attempts, &r.commandID,
		&r.leaseLeft, &r.ReviseBy,
		&operations, &states, &holds, &externals)
	copy(r.PayloadHash[:], hash)
	for i := range operations {
		r.Effects = append(r.Effects, EffectSummary{operations[i], states[i], holds[i], externals[i]})
	}
	return r, err
}

// Runs reads the runs with these ids; one that does not exist is missing from the answer.
func (l *Ledger) Runs(ctx context.Context, tenant string, ids ...uuid.UUID) ([]Run, error) {
	keys := column(ids, func(id uuid.UUID) runKey { return runKey{tenant, id} })
	var found map[runKey]*Run
	err := l.command(ctx, "read runs", func(ctx context.Context) (err error) {
		found, err = l.readRuns(ctx, keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	runs := make([]Run, 0, len(found))
	for _, k := range keys {
		if r := found[k]; r != nil {
			runs = append(runs, *r)
		}
	}
	return runs, nil
}
