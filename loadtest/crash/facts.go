package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
)

// facts are what Postgres and the sandbox's own ledger say at one moment.
type facts struct {
	runs     []runFact
	effects  []effectFact
	parked   []string // the text of each parked message, with its key
	writes   []sandbox.Write
	queued   int // rows in the outbox
	uncalled int // callbacks of ended runs that nobody took
	people
}

// runFact is one run, and how often what may be there once is there.
type runFact struct {
	RunID            uuid.UUID
	Key              string
	State            string
	Intents          int
	Claims           int // audit rows of its claim
	Decisions        int
	Authorizations   int
	Effects          int
	PendingApprovals int
	Endings          int // events in the event log that tell of its end
	EndingAudits     int // audit rows of moves that ended it
}

// effectFact is one effect.
type effectFact struct {
	RunID        uuid.UUID
	OperationID  string
	State        string
	HoldReason   string
	MaybeSent    bool
	TargetRecord string
	// Authorized means that it stands on an authorization for its very intent, which stands on an auto decision or
	// a granted approval.
	Authorized bool
	// FirstAttempt is when the first attempt was on record, the zero time where there is none.
	FirstAttempt time.Time
	Unfinished   int  // attempts whose outcome nobody knows
	Expired      int  // leases that ended before the outcome was known, and were found out
	Resent       bool // it was sent again after an attempt of unknown outcome
	Lookups      int
}

// doubtful are the classes of attempts after which nobody knows whether the provider has the write.
const doubtful = "t.class is null or t.class in ('ambiguous', 'in_progress_at_provider')"

const runFactsSQL = `
select r.run_id, r.idempotency_key as key, r.state,
  (select count(*) from intents n where n.run_id = r.run_id) as intents,
  (select count(*) from audit_events a where a.run_id = r.run_id and a.move = 'claim') as claims,
  (select count(*) from policy_decisions d where d.run_id = r.run_id) as decisions,
  (select count(*) from authorizations a where a.run_id = r.run_id) as authorizations,
  (select count(*) from effects e where e.run_id = r.run_id) as effects,
  (select count(*) from approvals p where p.run_id = r.run_id and p.state = 'pending') as pending_approvals,
  (select count(*) from event_log l where l.run_id = r.run_id and l.subject ~ '\.run\.(completed|ended)$') as endings,
  (select count(*) from audit_events a where a.run_id = r.run_id
    and (a.detail->>'run' in ('completed', 'failed_terminal') or a.to_state = 'failed_terminal')) as ending_audits
from runs r order by r.created_at`

const effectFactsSQL = `
select e.run_id, e.operation_id, e.state, coalesce(e.hold_reason, '') as hold_reason, e.maybe_sent, e.target_record,
  exists (select from authorizations a
    left join policy_decisions d on d.run_id = a.run_id and d.tenant_id = a.tenant_id and d.intent_hash = a.intent_hash
      and d.decision_id = a.decision_id and d.route = 'auto'
    left join approvals p on p.run_id = a.run_id and p.tenant_id = a.tenant_id and p.intent_hash = a.intent_hash
      and p.approval_id = a.approval_id and p.state = 'approved'
    where a.tenant_id = e.tenant_id and a.run_id = e.run_id and a.intent_hash = e.intent_hash
      and a.authorization_id = e.authorization_id
      and (d.decision_id is not null or p.approval_id is not null)) as authorized,
  coalesce((select min(t.started_at) from effect_attempts t where t.run_id = e.run_id and t.revision = e.revision
    and t.ordinal = e.ordinal), 'epoch') as first_attempt,
  (select count(*) from effect_attempts t where t.run_id = e.run_id and t.revision = e.revision
    and t.ordinal = e.ordinal and t.class is null) as unfinished,
  (select count(*) from audit_events a where a.run_id = e.run_id and a.move = 'expire_lease') as expired,
  exists (select from effect_attempts t where t.run_id = e.run_id and t.revision = e.revision and t.ordinal = e.ordinal
    and t.attempt < e.attempts and (` + doubtful + `)) as resent,
  (select count(*) from lookups l where l.run_id = e.run_id and l.revision = e.revision
    and l.ordinal = e.ordinal) as lookups
from effects e order by e.created_at`

const parkedSQL = `
select coalesce(headers->>'Idempotency-Key', '') || ' ' || convert_from(body, 'UTF8') from parked_messages`

// gather reads the facts: what Postgres says as of one moment, and then the writes, among which must be all that
// Postgres claims.
func (w *world) gather(ctx context.Context) (f facts, err error) {
	err = pgx.BeginTxFunc(ctx, w.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f.read(ctx))
	if err != nil {
		return f, fmt.Errorf("read what became of the runs: %w", err)
	}
	f.writes, err = w.provider.Writes(ctx, sandbox.Filter{})
	return f, err
}

func (f *facts) read(ctx context.Context) func(pgx.Tx) error {
	return func(tx pgx.Tx) (err error) {
		if f.runs, err = rowsOf(ctx, tx, pgx.RowToStructByName[runFact], runFactsSQL); err != nil {
			return err
		}
		if f.effects, err = rowsOf(ctx, tx, pgx.RowToStructByName[effectFact], effectFactsSQL); err != nil {
			return err
		}
		if f.parked, err = rowsOf(ctx, tx, pgx.RowTo[string], parkedSQL); err != nil {
			return err
		}
		if err = f.people.read(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "select (select count(*) from pending), (select count(*) from callbacks c "+
			"join runs r using (run_id, tenant_id) where r.ended_at is not null and c.state <> 'sent')").Scan(&f.queued, &f.uncalled)
	}
}

func rowsOf[T any](ctx context.Context, tx pgx.Tx, scan pgx.RowToFunc[T], sql string) ([]T, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
