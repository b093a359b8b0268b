package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/contracts"
)

// Settlement moves one effect, and with it its run where the effect decides that.
type Settlement struct {
	EffectKey
	Move string // of the effect: a name in Moves
	// Attempt and Owner, where given, must still be the effect's: the move is the lease holder's alone.
	Attempt       int
	Owner         uuid.UUID
	HoldReason    string        // where the move holds
	NextCheck     time.Duration // when the effect must be looked at again
	MaybeSent     bool          // the request may have reached the provider; this sticks (D6)
	ExternalID    string        // the provider's id
	RecordVersion string        // the target's version after the write
	// Postcondition is what the target was found to hold after a success, PostconditionVersion the version that it was read at; ""
	// where it was not read (R7).
	Postcondition, PostconditionVersion string

	Absent      bool    // one more conclusive "not there", or "not as written"
	ClearUnread bool    // a former owner's report has been taken into account
	Looked      *Looked // what was read, for the record
	Outcome     *AttemptOutcome
	// ProviderEvent is the id of what the effect's provider told, where that is why: it is applied with the move (R4).
	ProviderEvent string
	Review        *Review // the run goes back to people
	Actor         string  // who, where it is not the service itself
	Note          string  // why, for the audit row

	// What the event about the run's end says.
	RunKey, CorrelationID, TraceParent string
	Reason                             string // why the run ended without success
}

// AttemptOutcome is what one attempt came to. It is appended whoever owns the effect by now (D7).
type AttemptOutcome struct {
	Attempt           int
	Owner             uuid.UUID
	Class             string
	Sent              bool
	HTTPStatus        int
	ExternalID        string
	ProviderRequestID string
	RequestDigest     []byte
	Duration          time.Duration
	Detail            string
}

// Looked is one read of the provider, kept as evidence.
type Looked struct {
	Verdict    string // found, absent, unclear, several; of a target that was written: matched, differs, moved_on, unclear
	Conclusive bool
	ExternalID string
	Evidence   string
}

// What a target was found to hold after a write that the provider says was done (R7).
const (
	PostconditionMatched = contracts.PostconditionMatched // what was written
	PostconditionDiffers = "differs"                      // something else; it is held, and told to nobody as done
	PostconditionMovedOn = contracts.PostconditionMovedOn // a later version, by somebody else
	PostconditionUnread  = contracts.PostconditionUnread  // it could not be read in time
)

// Review asks people again (D4).
type Review struct {
	Audience      []string
	Reasons       []byte // JSON
	ReasonCodes   []string
	DecideWithin  time.Duration
	ExecuteWithin time.Duration
	IntentHash    string
	Revision      int
}

// settlement is a Settlement on its way through the batch.
type settlement struct {
	*Settlement
	id       uuid.UUID
	move     Move
	runMove  Move
	outcome  string
	approval *uuid.UUID
	event    *outgoing
	moved    *bool
	siblings // of an effect that is settled apart
}

// Settle makes the moves, each by compare-and-set, and appends the outcomes of attempts whether or not the move was still to be
// made; a lookup is kept with the move that it led to. The result says, in the order of the settlements, which moves were
// made by this call. An item that cannot be stored does not stop the others: the error names it, and the result is valid.
// command is the boundary's name.
func (l *Ledger) Settle(ctx context.Context, command string, settlements []Settlement) ([]bool, error) {
	moved := make([]bool, len(settlements))
	items := make([]*settlement, len(settlements))
	for i := range settlements {
		item, err := l.newSettlement(&settlements[i], &moved[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		items[i] = item
	}
	slices.SortStableFunc(items, func(a, b *settlement) int { return a.compare(b.EffectKey) })
	bad := map[*settlement]error{}
	for len(items) > 0 {
		batch, rest := firstOfEach(items, func(s *settlement) runKey { return runKey{s.TenantID, s.RunID} })
		err := l.command(ctx, command, func(ctx context.Context) error {
			return split(batch, func(part []*settlement) error { return l.settleBatch(ctx, command, part) },
				func(s *settlement, err error) {
					bad[s] = fmt.Errorf("%s: operation %s: %s: %w", command, s.OperationID(), s.Move, err)
				})
		})
		if err != nil {
			return nil, err
		}
		items = rest
	}
	return moved, errors.Join(slices.Collect(maps.Values(bad))...)
}

func (l *Ledger) settleBatch(ctx context.Context, command string, batch []*settlement) error {
	rows, err := collect(ctx, l, l.site(command), settledRuns(batch), pgx.RowToStructByPos[settledRow], settleSQL[l.service],
		settleArgs(batch, false)...)
	var apart []*settlement
	for _, row := range rows {
		if row.Apart {
			apart = append(apart, batch[row.Ord-1])
		} else {
			*batch[row.Ord-1].moved = true
		}
	}
	if err != nil || len(apart) == 0 {
		return err
	}
	return l.transaction(ctx, l.site(command), settledRuns(apart), func(tx pgx.Tx) error { return l.settleApart(ctx, tx, apart) })
}

// settledRow is one item that was settled, or is to be settled apart.
type settledRow struct {
	Ord   int64
	Apart bool
}

func settledRuns(batch []*settlement) []string {
	return column(batch, func(s *settlement) string { return s.RunID.String() })
}

func (l *Ledger) newSettlement(given *Settlement, moved *bool) (*settlement, error) {
	s := given.storable()
	item := &settlement{Settlement: s, id: uuid.New(), move: effectMove(s.Move), moved: moved}
	if !item.move.may(l.service) {
		return nil, fmt.Errorf("%s may not make the move %q", l.service, s.Move)
	}
	return item, item.tell(l.service, item.consequence())
}

// tell has the run make its move, and an event be told.
func (s *settlement) tell(service string, data contracts.Data) error {
	if s.runMove.Name != "" && !s.runMove.may(service) {
		return fmt.Errorf("%s may not make the run's move %q", service, s.runMove.Name)
	}
	s.event = nil
	if data == nil {
		return nil
	}
	event, err := newOutgoing(s.TenantID, s.RunID, s.TraceParent, data)
	s.event = &event
	return err
}

// storable copies a settlement with text that Postgres can keep: much of it comes from providers.
func (s *Settlement) storable() *Settlement {
	c := *s
	c.ExternalID, c.RecordVersion, c.Reason, c.Note = storable(s.ExternalID), storable(s.RecordVersion), storable(s.Reason), storable(s.Note)
	c.PostconditionVersion = storable(s.PostconditionVersion)
	if s.Outcome != nil {
		o := *s.Outcome
		o.ExternalID, o.ProviderRequestID, o.Detail = storable(o.ExternalID), storable(o.ProviderRequestID), storable(o.Detail)
		c.Outcome = &o
	}
	if s.Looked != nil {
		l := *s.Looked
		l.ExternalID, l.Evidence = storable(l.ExternalID), storable(l.Evidence)
		c.Looked = &l
	}
	return &c
}

// consequence is what the effect's move means for the run, and the event that tells of it.
func (s *settlement) consequence() contracts.Data {
	ref := contracts.RunRef{TenantID: s.TenantID, RunID: s.RunID.String(), IdempotencyKey: s.RunKey, CorrelationID: s.CorrelationID}
	switch {
	case s.move.To == EffectCompleted:
		s.runMove, s.outcome = runMove("complete"), OutcomeExecuted
		return &contracts.RunCompleted{RunRef: ref, Outcome: s.outcome, OperationID: s.OperationID(), TargetReceipt: s.ExternalID,
			Postcondition: s.Postcondition, RecordVersion: s.PostconditionVersion}
	case s.move.To == EffectFailed:
		return s.fail()
	case s.Review != nil:
		id := uuid.New()
		s.runMove, s.approval = runMove("return_to_review"), &id
		return &contracts.RunAwaitingHuman{RunRef: ref, IntentRevision: s.Review.Revision, IntentHash: s.Review.IntentHash,
			Reasons: s.Review.ReasonCodes}
	}
	return nil
}

// fail ends the run with nothing of it done.
func (s *settlement) fail() contracts.Data {
	s.runMove, s.outcome = runMove("fail"), OutcomeFailed
	return &contracts.RunEnded{RunRef: contracts.RunRef{TenantID: s.TenantID, RunID: s.RunID.String(), IdempotencyKey: s.RunKey,
		CorrelationID: s.CorrelationID}, Outcome: s.outcome, OperationID: s.OperationID(),
		Reason: cmp.Or(s.Settlement.Reason, "the effect failed; its attempts say why")}
}
