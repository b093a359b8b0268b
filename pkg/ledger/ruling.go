package ledger

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// ruling is a vote, a withdrawal or an expiry of one approval on its way through the batch.
type ruling struct {
	TenantID   string
	RunID      uuid.UUID
	ApprovalID uuid.UUID
	vote       *Vote // of the three, one is set
	withdrawal *Withdrawal
	expiry     bool
	answer     *Voted

	locked facts
	move   string // of the approval and its run, "" where nothing moves
	reason string // why the run ended
	cast   bool   // the vote is stored
}

// facts is what stands under the lock.
type facts struct {
	found         bool
	now           time.Time
	state         string // of the approval
	decidedAt     time.Time
	intentHash    canonical.Digest
	decideBy      time.Time
	executeWithin time.Duration
	runState      string
	outcomeReason string // of the run, where it has ended
	current       bool   // the approval's intent is the run's latest
	key           string
	correlationID string
	traceParent   string
	revision      int
	actionType    string
	votes         []Cast
	terms         *Terms // that the approval keeps, nil where it keeps none yet
	tokenLive     bool   // the vote's token can be used for its decision
	effects       []sibling
}

func (r *ruling) key() runKey { return runKey{r.TenantID, r.RunID} }

// decide says what the ruling comes to, from what is locked. The precedence is:
//
//  1. there is no such approval;
//  2. the same vote was stored before: it is told what it came to;
//  3. the approval is decided: what stands, stands;
//  4. the decide-by has passed: only the expiry may act, and it may act only then;
//  5. the run, the intent or an effect is not what was shown;
//  6. the token that led here cannot be used;
//  7. the delegation by which it is cast does not last;
//  8. the same person has voted, or another for them;
//  9. an approval counts in no group that is open;
//  10. the votes are folded.
func (r *ruling) decide() {
	f := &r.locked
	r.move, r.reason, r.cast = "", "", false
	*r.answer = Voted{State: f.state, DecideBy: f.decideBy, DecidedAt: f.decidedAt, Cast: f.votes}
	if r.vote != nil && f.found {
		terms := r.terms()
		r.answer.Quorum, r.answer.Tally = terms.People(), Fold(terms, f.votes)
	}
	switch {
	case !f.found:
		r.answer.Result = VoteUnknown
	case r.vote != nil && f.stored(r.vote):
		r.answer.Result = f.standing(r.vote.Decision)
	case r.withdrawal != nil && f.state == ApprovalSuperseded && f.outcomeReason == r.withdrawal.outcomeReason():
		r.answer.Result = VoteRejected // by this withdrawal: the answer to its COMMIT was lost, or it was sent again
	case f.state != ApprovalPending:
		r.answer.Result = VoteLate
	case r.expiry:
		r.expire()
	case !f.now.Before(f.decideBy):
		r.answer.Result = VoteExpired
	case f.runState != RunAwaitingHuman || !f.current:
		r.answer.Result = VoteChanged
	case r.withdrawal != nil:
		r.end("withdraw", r.withdrawal.outcomeReason())
	default:
		r.count()
	}
}

func (r *ruling) expire() {
	f := &r.locked
	switch {
	case f.now.Before(f.decideBy):
		r.answer.Result = VoteCounted
	case f.runState != RunAwaitingHuman || !f.current:
		r.answer.Result = VoteChanged
	default:
		r.end("expire", "Nobody decided in time.")
		r.answer.Result = VoteExpired
	}
}

func (r *ruling) count() {
	f, v := &r.locked, r.vote
	switch {
	case v.Shown != f.intentHash || f.effectMoved() && v.Decision != Reject:
		r.answer.Result = VoteChanged
		return
	case v.Token != nil && !f.tokenLive:
		r.answer.Result = VoteTokenSpent
		return
	case !v.Reviewer.For.lasts(f.now):
		r.answer.Result = VoteDelegationOver
		return
	case votedBefore(f.votes, votersOf(v.Reviewer.Issuer, v.Reviewer.Subject, v.Reviewer.For)):
		r.answer.Result = VoteRepeated
		return
	}
	if v.Decision == SendBack && (!v.Revisions.Left(f.revision) || f.begun()) {
		r.answer.Result = VoteNoRounds
		return
	}
	terms := r.terms()
	if no := Refuses(terms, f.votes, v.Reviewer.Roles); no != "" && v.Decision == Approve {
		r.answer.Result = no
		return
	}
	r.cast = true
	r.answer.Cast = append(f.votes[:len(f.votes):len(f.votes)], v.asCast(f.now))
	r.answer.Tally = Fold(terms, r.answer.Cast)
	if v.Decision == SendBack {
		r.settle("send_back", VoteSentBack)
		return
	}
	switch r.answer.Tally.State {
	case ApprovalApproved:
		r.settle("approve", VoteApproved)
	case ApprovalRejected:
		r.end("reject", "Rejected by "+v.Reviewer.ID+colon(v.Reason))
	default:
		r.answer.Result = VoteCounted
	}
}

// effectMoved reports whether there are effects of this intent, and none that people were asked about again.
func (f *facts) effectMoved() bool {
	return len(f.effects) > 0 && !slices.ContainsFunc(f.effects, func(e sibling) bool { return e.asked })
}

// begun reports whether some effect of this intent is done or may be: then no other revision may take its place (D2), and the run cannot
// end as if nothing had been done (D10).
func (f *facts) begun() bool { return f.done() != nil || f.moving() }

// done is the last effect that is completed, nil where none is.
func (f *facts) done() *sibling {
	for i := range slices.Backward(f.effects) {
		if f.effects[i].state == EffectCompleted {
			return &f.effects[i]
		}
	}
	return nil
}

// moving reports whether an effect of this intent goes on, whatever people decide about the rest.
func (f *facts) moving() bool {
	return slices.ContainsFunc(f.effects, func(e sibling) bool { return !e.ended() && !e.unsent })
}

// runMove is what the approval's move means for the run. Where other effects of the run are done, or go on, only the rest ends (D10).
func (r *ruling) runMove() Move {
	switch f := &r.locked; {
	case r.move == "approve" || r.move == "send_back" || !f.begun():
		return runMove(r.move)
	case f.moving():
		return runMove("resume")
	}
	return runMove("end_partly")
}

// end moves the approval and ends its run.
func (r *ruling) end(move, reason string) {
	r.reason = reason
	r.settle(move, VoteRejected)
}

func (r *ruling) settle(move, result string) {
	r.move = move
	r.answer.Result, r.answer.State, r.answer.DecidedAt = result, approvalMove(move).To, r.locked.now
}

// terms that the votes are counted by: those that the approval keeps, or else those of the vote.
func (r *ruling) terms() Terms {
	if r.locked.terms != nil {
		return r.locked.terms.AtLeast(r.vote.Quorum)
	}
	return r.vote.Terms.AtLeast(r.vote.Quorum)
}

// keeps reports whether the approval is to keep the terms of this vote.
func (r *ruling) keeps() bool {
	return r.cast && r.locked.terms == nil && len(r.vote.Terms.Stages) > 0
}

func (v *Vote) asCast(now time.Time) Cast {
	return Cast{Decision: v.Decision, Issuer: v.Reviewer.Issuer, Subject: v.Reviewer.Subject, ReviewerID: v.Reviewer.ID,
		Reason: v.Reason, DecidedAt: now, Roles: v.Reviewer.Roles, For: v.Reviewer.For, commandID: v.CommandID}
}

// lasts reports whether the delegation lasts; that a person decides for themself always does.
func (p *Principal) lasts(now time.Time) bool {
	return p == nil || !now.Before(p.Starts) && now.Before(p.Ends)
}

// stored reports whether this very vote was taken before: one with its command id that says something else, or is another
// person's, is another vote.
func (f *facts) stored(v *Vote) bool {
	for _, c := range f.votes {
		if c.commandID == v.CommandID && c.Decision == v.Decision && c.Issuer == v.Reviewer.Issuer && c.Subject == v.Reviewer.Subject {
			return true
		}
	}
	return false
}

// standing is what a stored vote came to, by the state of its approval.
func (f *facts) standing(decision string) string {
	switch f.state {
	case ApprovalPending:
		return VoteCounted
	case ApprovalApproved:
		return VoteApproved
	case ApprovalRejected:
		return VoteRejected
	case ApprovalSuperseded:
		if decision == SendBack {
			return VoteSentBack
		}
	}
	return VoteLate
}

func colon(reason string) string {
	if reason == "" {
		return "."
	}
	return ": " + reason
}
