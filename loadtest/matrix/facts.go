package matrix

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// An unknown effect rests where the time from its last look to the next is so long: one that is only looked for by now
// comes again after five minutes or more. What is left of that time says nothing, since a run of all cells takes longer.
const effectsSQL = `
select e.run_id, e.state, coalesce(e.hold_reason, '') as hold_reason,
  e.state = 'unknown' and e.next_check_at > interval '2 minutes' + greatest(e.updated_at,
    (select max(l.looked_at) from lookups l where l.run_id = e.run_id)) as looked_for,
  coalesce(e.external_id, '') as external_id,
  (select count(*) from effects o where o.external_id = e.external_id and o.operation_id <> e.operation_id) as sharers,
  exists (select from audit_events a where a.run_id = e.run_id and a.detail->>'note' <> '') as noted
from effects e where e.run_id = any($1)`

type effectRow struct {
	RunID      uuid.UUID
	State      string
	HoldReason string
	LookedFor  bool
	ExternalID string
	Sharers    int
	Noted      bool
}

const attemptsSQL = `
select run_id, attempt as number, started_at as started, coalesce(finished_at, 'epoch') as finished,
  coalesce(class, '') as class, request_digest as digest
from effect_attempts where run_id = any($1) order by run_id, attempt`

type attemptRow struct {
	RunID uuid.UUID
	attempt
}

const lookupsSQL = `select run_id, looked_at as at, verdict, conclusive from lookups where run_id = any($1) order by run_id, lookup`

type lookupRow struct {
	RunID uuid.UUID
	lookup
}

// state is what Postgres says of cells at one moment.
type state struct {
	effects  map[uuid.UUID]effectRow
	attempts map[uuid.UUID][]attempt
	lookups  map[uuid.UUID][]lookup
}

func readState(ctx context.Context, db *pgxpool.Pool, cells ...*cell) (*state, error) {
	runs := make([]uuid.UUID, len(cells))
	for i, c := range cells {
		runs[i] = c.run
	}
	s := &state{effects: map[uuid.UUID]effectRow{}, attempts: map[uuid.UUID][]attempt{}, lookups: map[uuid.UUID][]lookup{}}
	as := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, as, func(tx pgx.Tx) error {
		if err := each(ctx, tx, effectsSQL, runs, func(e effectRow) { s.effects[e.RunID] = e }); err != nil {
			return err
		}
		if err := each(ctx, tx, attemptsSQL, runs, func(a attemptRow) {
			s.attempts[a.RunID] = append(s.attempts[a.RunID], a.attempt)
		}); err != nil {
			return err
		}
		return each(ctx, tx, lookupsSQL, runs, func(l lookupRow) {
			s.lookups[l.RunID] = append(s.lookups[l.RunID], l.lookup)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read what became of the effects: %w", err)
	}
	return s, nil
}

func each[T any](ctx context.Context, tx pgx.Tx, sql string, runs []uuid.UUID, do func(T)) error {
	rows, err := tx.Query(ctx, sql, runs)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	for _, one := range all {
		do(one)
	}
	return err
}

// rests reports whether nothing more happens to a cell's effect by itself.
func (s *state) rests(c *cell) bool {
	e, found := s.effects[c.run]
	switch e.State {
	case ledger.EffectCompleted, ledger.EffectFailed, ledger.EffectCancelled, ledger.EffectHeld:
		return true
	}
	return found && e.LookedFor
}

// provided is what the provider says.
type provided struct {
	writes map[string][]string // ids by operation id
	rules  map[string]sandbox.RuleState
}

func readProvided(ctx context.Context, provider *sandbox.Client) (*provided, error) {
	writes, err := provider.Writes(ctx, sandbox.Filter{})
	if err != nil {
		return nil, err
	}
	rules, err := provider.Faults(ctx)
	if err != nil {
		return nil, err
	}
	p := &provided{writes: map[string][]string{}, rules: map[string]sandbox.RuleState{}}
	for _, w := range writes {
		p.writes[w.Reference] = append(p.writes[w.Reference], w.UpdateID)
	}
	for _, r := range rules {
		p.rules[r.ID] = r
	}
	return p, nil
}

// of are the facts of one cell.
func of(c *cell, s *state, p *provided) *facts {
	e := s.effects[c.run]
	return &facts{state: e.State, holdReason: e.HoldReason, rests: s.rests(c), noted: e.Noted,
		externalID: e.ExternalID, sharers: e.Sharers, attempts: s.attempts[c.run], lookups: s.lookups[c.run],
		requests: p.rules[c.counter].Matched, written: p.writes[c.operationID],
		fired: fired(c, s, p), struck: c.struck, failure: c.failure}
}

// fired reports whether the provider has misbehaved in every way that the cell wants it to. Of an outage only who dials can
// tell.
func fired(c *cell, s *state, p *provided) bool {
	notSent := func(a attempt) bool { return outcome.Class(a.Class) == outcome.NotSent }
	if c.fault.outage > 0 && !slices.ContainsFunc(s.attempts[c.run], notSent) {
		return false
	}
	return !slices.ContainsFunc(c.faults, func(id string) bool { return p.rules[id].Fired == 0 })
}

// stray are the operation ids of writes that belong to no cell.
func (p *provided) stray(cells []*cell) []string {
	known := map[string]bool{}
	for _, c := range cells {
		known[c.operationID] = true
	}
	var all []string
	for id := range p.writes {
		if !known[id] {
			all = append(all, id)
		}
	}
	return all
}

// settlePatience bounds the wait for everything to come to rest.
const settlePatience = 90 * time.Second
