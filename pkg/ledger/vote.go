package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// Decisions of a reviewer.
const (
	Approve  = "approve"
	Reject   = "reject"
	SendBack = "send_back" // to whoever proposed it, who may bring a better proposal
	// BreakGlass approves alone in an emergency, whatever the terms; others look at it afterwards (A16). No token allows it (A2).
	BreakGlass = "break_glass"
)

// Vote is one person's decision about one pending approval. Who may decide is checked before, by the approval service; here stand
// the checks that only a lock makes certain (A7).
type Vote struct {
	CommandID  uuid.UUID // random per form or call; the same vote sent again is told what it came to
	TenantID   string
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	Decision   string // Approve, Reject, SendBack or BreakGlass
	Reviewer   Reviewer
	Reason     string // at most 2,000 characters
	Channel    string // web or api
	Shown      canonical.Digest
	PageDigest []byte   // of the page that the reviewer saw, nil through the API (A17)
	Seen       Readings // what that page showed of the targets; nil where it showed nothing
	Token      []byte   // SHA-256 of the token that led here, nil where none did
	// Terms are who must approve by the configuration; those that were kept with the request come first. Empty, any Quorum people.
	Terms  Terms
	Quorum int // how many different people have to approve at least, whatever the terms; less than 1 is 1
	// Effects are what the intent asks for, in the order of its actions; at least one where the vote approves.
	Effects []EffectRequest
	// Revisions bound how often a proposal may be sent back. One vote to send it back is enough, as one to reject it is.
	Revisions Revisions
	Glass     Glass  // of BreakGlass
	Draws     []Draw // what the effect takes of limits; it is counted, and stops nobody (P8)
}

// Reviewer is a person as the identity provider names them, and what entitles them (A4).
type Reviewer struct {
	Issuer, Subject string
	ID              string // how people know the reviewer
	Authority       []byte // JSON: roles and the claims they came from, times
	// Roles are those by which the vote may count in a group; they are kept with it, so that a later configuration does not
	// count it otherwise.
	Roles []string
	For   *Principal // whose vote it is where the reviewer decides for somebody else, nil otherwise
}

// Principal is a person for whom another one decides for a time (A16).
type Principal struct {
	Issuer, Subject string
	ID              string
	Starts, Ends    time.Time // of the delegation; the vote counts from Starts on and before Ends, by the database's clock
}

// What a vote came to.
const (
	VoteApproved   = "approved"        // it was the last one needed: the effects are queued
	VoteRejected   = "rejected"        // the run has ended
	VoteSentBack   = "sent_back"       // a better proposal is awaited, and nothing is sent meanwhile
	VoteNoRounds   = "no_rounds"       // it was sent back as often as it may be
	VoteCounted    = "counted"         // more people have to approve
	VoteLate       = "already_decided" // somebody else's decision stands
	VoteRepeated   = "already_voted"   // by the same person, before
	VoteExpired    = "expired"         // the decide-by has passed
	VoteChanged    = "changed"         // what was shown is not what would run
	VoteTokenSpent = "token_spent"     // the link was used, replaced or is too old
	VoteUnknown    = "unknown"         // there is no such approval

	VoteNotYet         = "not_yet"         // an approval by this person counts in a later stage
	VoteNotNeeded      = "not_needed"      // the groups that this person could count for have all they need, or there is none
	VoteDelegationOver = "delegation_over" // the delegation by which it was cast does not last now
)

// Voted is the answer to one vote.
type Voted struct {
	Result    string
	State     string // of the approval, now
	DecideBy  time.Time
	DecidedAt time.Time // zero while it is pending
	Cast      []Cast    // all votes, in their order
	Quorum    int       // how many different people have to approve
	Tally     Tally     // what the votes come to; empty where there is no such approval
}

// Cast is one stored vote.
type Cast struct {
	Decision        string
	Issuer, Subject string
	ReviewerID      string
	Reason          string
	DecidedAt       time.Time
	Roles           []string   // by which it may count in a group
	For             *Principal // whose vote it is, without times; nil where it is the reviewer's own
	commandID       uuid.UUID
}

// Vote stores decisions, each in one transaction with all that follows from it, and answers each in order. Of racing votes
// exactly one decides; the others are told what stands (A8). Several votes on one run are taken in their order.
func (l *Ledger) Vote(ctx context.Context, votes []Vote) ([]Voted, error) {
	answers := make([]Voted, len(votes))
	rulings := make([]*ruling, len(votes))
	for i := range votes {
		v := votes[i]
		v.Quorum, v.Reason = max(v.Quorum, 1), storable(v.Reason)
		rulings[i] = &ruling{TenantID: v.TenantID, RunID: v.RunID, ApprovalID: v.ApprovalID, vote: &v, answer: &answers[i]}
	}
	return answers, l.rule(ctx, "vote", rulings)
}

// Withdrawal takes a request back before anybody has decided it.
type Withdrawal struct {
	TenantID   string
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	By, Reason string
}

func (w *Withdrawal) outcomeReason() string { return "Withdrawn by " + w.By + ": " + w.Reason }

// Withdraw ends the run of a pending approval without a decision. The answer's Result is VoteRejected where it did,
// also when the same withdrawal is made again.
func (l *Ledger) Withdraw(ctx context.Context, w Withdrawal) (Voted, error) {
	var answer Voted
	w.Reason = storable(w.Reason)
	err := l.rule(ctx, "withdraw", []*ruling{{TenantID: w.TenantID, RunID: w.RunID, ApprovalID: w.ApprovalID, withdrawal: &w,
		answer: &answer}})
	return answer, err
}

const overdueApprovalsSQL = `select tenant_id, run_id, approval_id from approvals
where state = 'pending' and decide_by <= clock_timestamp() order by decide_by limit $1`

// ExpireApprovals ends up to limit runs whose decide-by has passed, and returns how many it found (A9). A vote accepts while
// now < decide-by, by the same clock and under the same lock.
func (l *Ledger) ExpireApprovals(ctx context.Context, limit int) (int, error) {
	rows, err := l.pool.Query(ctx, overdueApprovalsSQL, limit)
	if err != nil {
		return 0, fmt.Errorf("look for expired approvals: %w", err)
	}
	overdue, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ruling, error) {
		r := &ruling{answer: &Voted{}, expiry: true}
		return r, row.Scan(&r.TenantID, &r.RunID, &r.ApprovalID)
	})
	if err != nil {
		return 0, fmt.Errorf("look for expired approvals: %w", err)
	}
	return len(overdue), l.rule(ctx, "expire_approvals", overdue)
}

// rule takes each run's rulings one after the other, and those of different runs together.
func (l *Ledger) rule(ctx context.Context, command string, rulings []*ruling) error {
	rest := slices.Clone(rulings)
	slices.SortStableFunc(rest, func(a, b *ruling) int { return a.key().compare(b.key()) })
	for len(rest) > 0 {
		var batch []*ruling
		batch, rest = firstOfEach(rest, (*ruling).key)
		err := l.command(ctx, command, func(ctx context.Context) error {
			return l.transaction(ctx, l.site(command), rulingRuns(batch), func(tx pgx.Tx) error {
				if err := lockRulings(ctx, tx, batch); err != nil {
					return err
				}
				for _, r := range batch {
					r.decide()
				}
				return writeRulings(ctx, tx, batch)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rulingRuns(batch []*ruling) []string {
	return column(batch, func(r *ruling) string { return r.RunID.String() })
}
