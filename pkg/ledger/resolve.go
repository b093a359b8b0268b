package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Resolution settles one effect by hand, with who, why and on what evidence (R6).
type Resolution struct {
	CommandID uuid.UUID // the same command again is answered as the first was
	EffectKey
	Move       string // confirm_done, confirm_not_done, dispute or give_up
	ExternalID string // the provider's id of what is confirmed done
	Evidence   string // the address of what shows it, "" where there is none
	Reason     string // in the person's own words
	Seen       string // what they were shown, as DeskItem.Seen says it; "" takes the effect as it is
	By         Reviewer
	Channel    string
	PageDigest []byte // of the page, nil elsewhere
	// TwoPeople has it made when another person confirms it, and until then only proposed.
	TwoPeople bool
	Confirms  uuid.UUID // the proposal that the person confirms, uuid.Nil for a resolution of their own
	Second    *Reviewer // who confirms it in the same command, nil where nobody does
}

// ChannelCommand is the channel of a resolution that came by the command line.
const ChannelCommand = "command"

// ProposalLasts is how long a second person has to confirm a resolution: what was found out about the provider ages.
const ProposalLasts = time.Hour

// What a resolution came to.
const (
	ResolvedMade        = "made"
	ResolvedProposed    = "proposed"     // it waits for a second person
	ResolvedWaits       = "waits"        // another proposal waits for a second person
	ResolvedNoProposal  = "no_proposal"  // what would be confirmed was withdrawn, has lapsed, or is about what was before
	ResolvedSamePerson  = "same_person"  // whoever proposed it does not confirm it
	ResolvedChanged     = "changed"      // the effect is not as it was shown
	ResolvedSettled     = "settled"      // it is not for a person to settle any more, or not yet
	ResolvedNeverResent = "never_resent" // the provider has done it, and its target does not hold it (R7)
)

// Resolved is what a resolution came to, and what stands.
type Resolved struct {
	Result     string
	State      string // of the effect, by now
	HoldReason string
	ExternalID string
	Stands     *ResolutionView // made last, or proposed; nil where there is none
}

// Made reports whether the effect is settled by it.
func (r *Resolved) Made() bool { return r.Result == ResolvedMade }

const (
	lockEffectSQL = `
select e.state, coalesce(e.hold_reason, ''), e.attempts, coalesce(e.external_id, ''), r.idempotency_key, r.correlation_id, r.traceparent,
  clock_timestamp()
from effects e join runs r on r.tenant_id = e.tenant_id and r.run_id = e.run_id
where e.tenant_id = $1 and e.run_id = $2 and e.revision = $3 and e.ordinal = $4 for no key update of e`

	standingSQL = `select ` + resolutionView + ` from resolutions v
where v.tenant_id = $1 and v.run_id = $2 and v.revision = $3 and v.ordinal = $4 `

	proposeSQL = `
with made as (
  insert into resolutions (tenant_id, run_id, revision, ordinal, resolution_id, move, external_id, evidence, reason, seen, by_issuer,
    by_subject, by_id, authority, channel, page_digest, proposed_at, lapses_at, made_at, second_command, second_issuer, second_subject,
    second_id, second_authority, second_reason, second_channel)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17::timestamptz, $17 + $18::interval,
    case when $19 then $17::timestamptz end, $20, $21, $22, $23, $24, $25, $26)
)
insert into audit_events (tenant_id, run_id, actor, move, detail)
select $1, $2, $13, 'propose_resolution', jsonb_build_object('revision', $3::int, 'ordinal', $4::int, 'resolution', $6::text,
  'note', $9::text, 'lapses_at', $17 + $18::interval)
where not $19`

	secondSQL = `
update resolutions set second_command = $6, second_issuer = $7, second_subject = $8, second_id = $9, second_authority = $10,
  second_reason = $11, second_channel = $12, second_digest = $13, made_at = $14
where tenant_id = $1 and run_id = $2 and revision = $3 and ordinal = $4 and resolution_id = $5`

	withdrawSQL = `
with withdrawn as (
  update resolutions set withdrawn_at = clock_timestamp(), withdrawn_by = $6
  where tenant_id = $1 and run_id = $2 and revision = $3 and ordinal = $4 and resolution_id = $5 and made_at is null
    and withdrawn_at is null and lapses_at > clock_timestamp()
  returning move
)
insert into audit_events (tenant_id, run_id, actor, move, detail)
select $1, $2, $6, 'withdraw_resolution', jsonb_build_object('revision', $3::int, 'ordinal', $4::int, 'resolution', move) from withdrawn`
)

// resolving is one resolution on its way through its transaction.
type resolving struct {
	*Resolution
	ledger *Ledger
	tx     pgx.Tx
	seen   string
	now    time.Time
	done   Resolved

	runKey, correlationID, traceParent string
}

// key is the first arguments of every statement.
func (r *Resolution) key(more ...any) []any {
	return append([]any{r.TenantID, r.RunID, r.Revision, r.Ordinal}, more...)
}

// Resolve makes one resolution, or proposes it where it takes two people. The move and who made it are stored together; of many at once
// one is made, and the others are told what stands.
func (l *Ledger) Resolve(ctx context.Context, given Resolution) (done Resolved, err error) {
	r := given
	r.ExternalID, r.Evidence, r.Reason = storable(r.ExternalID), storable(r.Evidence), storable(r.Reason)
	err = l.command(ctx, "resolve", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("resolve"), []string{r.RunID.String()}, func(tx pgx.Tx) error {
			w := &resolving{Resolution: &r, ledger: l, tx: tx}
			err := w.run(ctx)
			done = w.done
			return err
		})
	})
	return done, err
}

// WithdrawResolution takes a proposal back, by whoever may settle the effect. The answer is false where it waits no more.
func (l *Ledger) WithdrawResolution(ctx context.Context, key EffectKey, proposal uuid.UUID, by string) (withdrawn bool, err error) {
	r := Resolution{EffectKey: key}
	err = l.command(ctx, "resolve", func(ctx context.Context) error {
		return l.transaction(ctx, l.site("resolve"), []string{key.RunID.String()}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, withdrawSQL, r.key(proposal, by)...); err != nil {
				return err
			}
			return tx.QueryRow(ctx, `select exists (select from resolutions where tenant_id = $1 and run_id = $2 and revision = $3
  and ordinal = $4 and resolution_id = $5 and withdrawn_by = $6)`, r.key(proposal, by)...).Scan(&withdrawn)
		})
	})
	return withdrawn, err
}

// run decides under the locks. The precedence is:
//
//  1. the same command was done before: its answer again;
//  2. the effect is not as it was shown, or not to be settled by hand, or never sent again;
//  3. it confirms a proposal, which must stand, of another person;
//  4. it takes two people: it is proposed, unless a proposal waits already;
//  5. it is made.
func (w *resolving) run(ctx context.Context) error {
	if err := w.lock(ctx); err != nil {
		return err
	}
	last, err := w.standing(ctx, `and v.made_at is not null order by v.made_at desc limit 1`)
	if err != nil {
		return err
	}
	w.done.Stands = last
	before, err := w.standing(ctx, `and (v.resolution_id = $5 or v.second_command = $5)`, w.CommandID)
	switch {
	case err != nil:
		return err
	case before != nil:
		w.done.Result, w.done.Stands = ResolvedProposed, before
		if before.MadeAt != nil {
			w.done.Result = ResolvedMade
		}
		return nil
	}
	if w.done.Result = w.refused(); w.done.Result != "" {
		return nil
	}
	waiting, err := w.standing(ctx, `and v.made_at is null and v.withdrawn_at is null and v.lapses_at > $5 and v.seen = $6
  order by v.proposed_at limit 1`, w.now, w.seen)
	if err != nil {
		return err
	}
	if w.Confirms != uuid.Nil {
		return w.confirm(ctx, waiting)
	}
	if w.TwoPeople && w.Second == nil {
		return w.propose(ctx, waiting)
	}
	if err := w.move(ctx, w.By.ID, w.Reason); err != nil {
		return err
	}
	w.done.Result = ResolvedMade
	return w.store(ctx, true)
}

// lock takes the run before the effect, as every settlement does.
func (w *resolving) lock(ctx context.Context) error {
	_, err := w.tx.Exec(ctx, `select from runs where tenant_id = $1 and run_id = $2 for no key update`, w.TenantID, w.RunID)
	if err != nil {
		return err
	}
	var attempts int
	err = w.tx.QueryRow(ctx, lockEffectSQL, w.key()...).Scan(&w.done.State, &w.done.HoldReason, &attempts, &w.done.ExternalID, &w.runKey,
		&w.correlationID, &w.traceParent, &w.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNoOperation
	}
	kind := w.done.State
	if w.done.HoldReason != "" {
		kind = w.done.HoldReason
	}
	w.seen = seenOf(kind, attempts)
	return err
}

// refused says why nothing can be made of it, "" where something can.
func (w *resolving) refused() string {
	switch {
	case !effectMove(w.Move).Allowed(w.done.State), w.done.HoldReason == HoldReview:
		return ResolvedSettled
	case w.Seen != "" && w.Seen != w.seen:
		return ResolvedChanged
	case w.Move == "confirm_not_done" && w.done.HoldReason == HoldMismatch:
		return ResolvedNeverResent
	}
	return ""
}

func (w *resolving) standing(ctx context.Context, which string, args ...any) (*ResolutionView, error) {
	var v ResolutionView
	err := w.tx.QueryRow(ctx, standingSQL+which, w.key(args...)...).Scan(&v)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &v, err
}

func (w *resolving) propose(ctx context.Context, waiting *ResolutionView) error {
	if waiting != nil {
		w.done.Result, w.done.Stands = ResolvedWaits, waiting
		return nil
	}
	w.done.Result = ResolvedProposed
	return w.store(ctx, false)
}

// confirm makes what the first person has proposed.
func (w *resolving) confirm(ctx context.Context, waiting *ResolutionView) error {
	if waiting == nil || waiting.ID != w.Confirms || waiting.Move != w.Move {
		w.done.Result = ResolvedNoProposal
		return nil
	}
	w.done.Stands = waiting
	if waiting.Issuer == w.By.Issuer && waiting.Subject == w.By.Subject || waiting.By == w.By.ID {
		w.done.Result = ResolvedSamePerson
		return nil
	}
	w.ExternalID = waiting.ExternalID
	if err := w.move(ctx, waiting.By+" and "+w.By.ID, waiting.Reason); err != nil {
		return err
	}
	w.done.Result = ResolvedMade
	_, err := w.tx.Exec(ctx, secondSQL, w.key(waiting.ID, w.CommandID, w.By.Issuer, w.By.Subject, w.By.ID, w.By.Authority, w.Reason,
		w.Channel, w.PageDigest, w.now)...)
	if err != nil {
		return err
	}
	w.done.Stands, err = w.standing(ctx, `and v.resolution_id = $5`, waiting.ID)
	return err
}

// store keeps the resolution as made, or as proposed.
func (w *resolving) store(ctx context.Context, made bool) error {
	var lasts *time.Duration
	if w.TwoPeople || w.Second != nil {
		lasts = new(time.Duration)
		*lasts = ProposalLasts
	}
	args := w.key(w.CommandID, w.Move, w.ExternalID, w.Evidence, w.Reason, w.seen, w.By.Issuer, w.By.Subject, w.By.ID, w.By.Authority,
		w.Channel, w.PageDigest, w.now, lasts, made)
	if s := w.Second; s != nil {
		args = append(args, uuid.New(), s.Issuer, s.Subject, s.ID, s.Authority, w.Reason, w.Channel)
	} else {
		args = append(args, nil, nil, nil, nil, nil, nil, nil)
	}
	if _, err := w.tx.Exec(ctx, proposeSQL, args...); err != nil {
		return err
	}
	var err error
	w.done.Stands, err = w.standing(ctx, `and v.resolution_id = $5`, w.CommandID)
	return err
}

// move makes the effect's move, and the run's where the effect decides that. The rows are locked, so that nothing can be in its way.
func (w *resolving) move(ctx context.Context, actor, why string) error {
	moved := false
	s, err := w.ledger.newSettlement(w.settlement(actor, why), &moved)
	if err != nil {
		return err
	}
	if err = w.ledger.settleApart(ctx, w.tx, []*settlement{s}); err == nil && !moved {
		err = fmt.Errorf("operation %s: %s was allowed and not made", w.OperationID(), w.Move)
	}
	w.done.State, w.done.HoldReason = s.move.To, s.Settlement.HoldReason
	if w.ExternalID != "" {
		w.done.ExternalID = w.ExternalID
	}
	return err
}

// settlement is what the resolution means for the effect.
func (w *resolving) settlement(actor, why string) *Settlement {
	s := &Settlement{EffectKey: w.EffectKey, Move: w.Move, Actor: actor, Note: why, NextCheck: Never, RunKey: w.runKey,
		CorrelationID: w.correlationID, TraceParent: w.traceParent}
	switch w.Move {
	case "confirm_done":
		s.ExternalID, s.MaybeSent = w.ExternalID, true
	case "confirm_not_done":
		s.NextCheck = 0
	case "dispute":
		s.HoldReason = HoldDisputed
	case "give_up":
		s.Reason = "Given up by " + actor + ": " + why
	}
	return s
}
