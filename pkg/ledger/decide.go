package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// Undecided is an intent that waits for policy.
type Undecided struct {
	TenantID      string
	RunID         uuid.UUID
	Key           string
	CorrelationID string
	TraceParent   string
	Revision      int
	IntentHash    canonical.Digest
	Canonical     []byte
	ActionType    string
	NearHash      []byte // alike for intents that want nearly the same (K13); nil for none
	SubmittedAt   time.Time
	Now           time.Time // the database's clock, by which evidence ages
}

const undecidedSQL = `
select r.tenant_id, r.run_id, r.idempotency_key, r.correlation_id, r.traceparent, n.revision, n.intent_hash, n.canonical,
  n.action_type, n.near_hash, n.created_at, clock_timestamp()
from unnest($1::text[], $2::uuid[], $3::bytea[]) as i(tenant_id, run_id, intent_hash)
cross join lateral (
  select * from runs r where r.tenant_id = i.tenant_id and r.run_id = i.run_id and r.state = any($4) limit 1
) r
cross join lateral (
  select * from intents n where n.tenant_id = i.tenant_id and n.run_id = i.run_id and n.intent_hash = i.intent_hash limit 1
) n
where n.revision = r.intent_revision and r.revise_by is null`

// IntentRef names an intent, and the event that told of it.
type IntentRef struct {
	EventID    uuid.UUID
	TenantID   string
	RunID      uuid.UUID
	IntentHash canonical.Digest
}

// Undecided reads those of the intents that still wait for a decision; the others have moved on.
func (l *Ledger) Undecided(ctx context.Context, refs []IntentRef) ([]Undecided, error) {
	var out []Undecided
	err := l.command(ctx, "read undecided", func(ctx context.Context) error {
		rows, err := l.pool.Query(ctx, undecidedSQL,
			column(refs, func(r IntentRef) string { return r.TenantID }),
			column(refs, func(r IntentRef) uuid.UUID { return r.RunID }),
			column(refs, func(r IntentRef) []byte { return r.IntentHash[:] }), runMove("authorize").From)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanUndecided)
		return err
	})
	return out, err
}

func scanUndecided(row pgx.CollectableRow) (u Undecided, err error) {
	var hash []byte
	err = row.Scan(&u.TenantID, &u.RunID, &u.Key, &u.CorrelationID, &u.TraceParent, &u.Revision, &hash, &u.Canonical,
		&u.ActionType, &u.NearHash, &u.SubmittedAt, &u.Now)
	copy(u.IntentHash[:], hash)
	return u, err
}

// Decision is what policy decided about one intent (P2).
type Decision struct {
	EventID       uuid.UUID // of the event that asked; it goes into the inbox
	DecisionID    uuid.UUID
	Intent        *Undecided
	Route         string
	PolicyVersion string // what it was decided under: the version of the policy, "/", the version of the engine
	InputsHash    canonical.Digest
	Reasons       []byte   // JSON
	ReasonCodes   []string // for the event
	Summary       string   // for people, where the run ends here
	DecideWithin  time.Duration
	ExecuteWithin time.Duration
	Audience      []string
	Effects       []EffectRequest // what the intent asks for, in the order of its actions; at least one
	Revisions     Revisions       // where the route is repair
	Near          *NearCheck      // nil where near duplicates do not matter
	Limits        *LimitCheck     // nil where nothing bounds what may be authorized
	// Window is how long the effect of route auto can be taken back before it is sent (D14).
	Window     time.Duration
	Exceptions *ExceptionCheck // nil where no class of exceptions lets the effect be sent
}

// EffectRequest is the external write that one action of an intent asks for.
type EffectRequest struct {
	ActionType                 string // "" is the intent's
	Connector, Operation       string
	TargetSystem, TargetRecord string
	Stage                      int // in which it goes out; 0 is 1 (D10)
	// InOrder has it wait for what was authorized before it for the same target, and likewise in order, until that has ended.
	InOrder bool
}

// inboxConsumer numbers the consumers in the inbox. The numbers are stored and never change.
const (
	inboxPolicy     = 1
	inboxDispatcher = 2
)

// decision is a Decision on its way through the batch.
type decision struct {
	*Decision
	move          Move
	outcome       string
	revise        time.Duration // how long a better proposal is awaited, 0 where none is
	authorization *uuid.UUID
	approval      *uuid.UUID
	event         outgoing
}

// Decide stores decisions and what follows from them: an authorization with its effect, a pending approval, or the end of the
// run. A run that has moved on meanwhile is left alone, and a decision that was stored already is not stored again. The
// result counts the runs that moved. A decision that cannot be stored is told to spoiled and does not stop the others; one that
// was made under a version of the policy that is not active now is told with ErrOutdatedPolicy (P7).
func (l *Ledger) Decide(ctx context.Context, decisions []Decision, spoiled func(*Decision, error)) (int, error) {
	items := make([]*decision, 0, len(decisions))
	for i := range decisions {
		item, err := newDecision(&decisions[i])
		if err != nil {
			spoiled(&decisions[i], err)
			continue
		}
		items = append(items, item)
	}
	// A second decision of the same run in one batch answers a repeated event; the first has moved the run already.
	items, repeats := firstOfEach(inOrder(items, (*decision).key), (*decision).key)
	moved := 0
	bad := map[*decision]error{}
	err := l.command(ctx, "decide", func(ctx context.Context) error {
		moved = 0
		clear(bad)
		return split(items, func(batch []*decision) error {
			n, err := l.decideBatch(ctx, batch, func(d *decision) { bad[d] = ErrOutdatedPolicy })
			moved += n
			return err
		}, func(d *decision, err error) { bad[d] = err })
	})
	for d, err := range bad {
		spoiled(d.Decision, err)
	}
	if err == nil && len(repeats) > 0 {
		err = l.Inbox(ctx, inboxPolicy, column(repeats, func(d *decision) uuid.UUID { return d.EventID }))
	}
	return moved, err
}

func (l *Ledger) decideBatch(ctx context.Context, batch []*decision, outdated func(*decision)) (int, error) {
	if slices.ContainsFunc(batch, (*decision).looks) {
		return l.decideApart(ctx, batch, outdated)
	}
	rows, err := collect(ctx, l, l.site("decide"), decisionKeys(batch), pgx.RowToStructByPos[decidedRun], decideSQL, decideArgs(batch)...)
	return len(movedOf(batch, rows, outdated)), err
}

// looks tells whether a decision depends on what else was authorized, or is about more than one effect.
func (d *decision) looks() bool {
	return d.checksNear() || d.draws() || d.excepted() || len(d.Effects) > 1
}

// decideApart stores decisions of which some look for twins, stay within limits or are exceptions, in one transaction with the look: two intents
// that want nearly the same, or the rest of one budget, cannot both be let through, whichever replicas decide them.
func (l *Ledger) decideApart(ctx context.Context, batch []*decision, outdated func(*decision)) (moved int, err error) {
	err = l.transaction(ctx, l.site("decide"), decisionKeys(batch), func(tx pgx.Tx) error {
		stored, err := withTwins(ctx, tx, batch)
		if err != nil {
			return err
		}
		if stored, err = withinLimits(ctx, tx, stored); err != nil {
			return err
		}
		var classes map[uuid.UUID]class
		if stored, classes, err = withinClasses(ctx, tx, stored); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, decideSQL, decideArgs(stored)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[decidedRun])
		ids := movedOf(batch, found, outdated)
		moved = len(ids)
		if err != nil {
			return err
		}
		if err := requestMore(ctx, tx, stored, ids); err != nil {
			return err
		}
		if err := draw(ctx, tx, stored, ids); err != nil {
			return err
		}
		return useClasses(ctx, tx, stored, ids, classes)
	})
	return moved, err
}

func newDecision(d *Decision) (*decision, error) {
	item := &decision{Decision: d}
	if len(d.Effects) == 0 {
		return nil, fmt.Errorf("run %s: its decision names no effect", d.Intent.RunID)
	}
	run := contracts.RunRef{TenantID: d.Intent.TenantID, RunID: d.Intent.RunID.String(), IdempotencyKey: d.Intent.Key,
		CorrelationID: d.Intent.CorrelationID}
	var data contracts.Data
	switch d.Route {
	case config.RouteAuto:
		id := uuid.New()
		item.move, item.authorization = runMove("authorize"), &id
		data = &contracts.EffectRequested{TenantID: run.TenantID, RunID: run.RunID,
			OperationID: OperationID(d.Intent.RunID, d.Intent.Revision, 1)}
	case config.RouteHumanReview:
		id := uuid.New()
		item.move, item.approval = runMove("ask_human"), &id
		data = &contracts.RunAwaitingHuman{RunRef: run, IntentRevision: d.Intent.Revision, IntentHash: d.Intent.IntentHash.String(),
			Reasons: d.ReasonCodes}
	case config.RouteReject, config.RouteRepair:
		if d.Route == config.RouteRepair && d.Revisions.Left(d.Intent.Revision) {
			item.move, item.revise = runMove("repair"), d.Revisions.Within
			data = &contracts.RunSentBack{RunRef: run, IntentRevision: d.Intent.Revision, IntentHash: d.Intent.IntentHash.String(),
				SentBy: Policy, Reasons: d.ReasonCodes, Reason: d.Summary}
			break
		}
		item.move, item.outcome = runMove("deny"), OutcomeDenied
		if d.Route == config.RouteRepair {
			item.outcome = OutcomeInvalid
		}
		data = &contracts.RunEnded{RunRef: run, Outcome: item.outcome, Reason: d.Summary}
	default:
		return nil, fmt.Errorf("run %s: %q is not a route", run.RunID, d.Route)
	}
	event, err := newOutgoing(run.TenantID, d.Intent.RunID, d.Intent.TraceParent, data)
	item.event = event
	return item, err
}

func (d *decision) key() runKey { return runKey{d.Intent.TenantID, d.Intent.RunID} }

func decisionKeys(batch []*decision) []string {
	return column(batch, func(d *decision) string { return d.Intent.RunID.String() })
}
