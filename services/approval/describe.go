package approval

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// summary is one line of the queue as the API gives it.
func summary(s *ledger.ApprovalSummary) contracts.Approval {
	return contracts.Approval{ApprovalID: s.ApprovalID.String(), TenantID: s.TenantID, RunID: s.RunID.String(), IdempotencyKey: s.Key,
		CorrelationID: s.CorrelationID, ActionType: s.ActionType, Target: contracts.ApprovalTarget{System: s.TargetSystem, RecordID: s.TargetRecord},
		Audience: s.Audience, Status: s.State, RequestedBy: s.RequestedBy, RequestedAt: s.RequestedAt, DecideBy: s.DecideBy,
		DecidedAt: s.DecidedAt, Approvals: s.Approvals}
}

// describe is the whole card as the API gives it.
func (t *tenant) describe(c *ledger.Card) contracts.ApprovalCard {
	rule := t.termsOf(c)
	card := contracts.ApprovalCard{Approval: summary(&c.ApprovalSummary), IntentHash: c.IntentHash.String(), IntentRevision: c.Revision,
		Intent: c.Canonical, Reasons: c.Reasons, PolicyVersion: c.PolicyVersion, Quorum: rule.Quorum, TypedReason: rule.TypedReason,
		Decisions: decisionsOf(c.Cast), Stages: stagesOf(ledger.Fold(rule.All, c.Cast)),
		ExecutionStatus: ledger.ExecutionStatus(c.Effects), RunState: c.RunState, RunOutcome: c.RunOutcome}
	for _, e := range c.Effects {
		card.Effects = append(card.Effects, contracts.Effect{OperationID: e.OperationID, State: e.State, ExternalID: text0(e.ExternalID)})
	}
	card.BreakGlass = glassOf(c.Glass)
	if o := c.Corrects; o != nil {
		card.Corrects = &contracts.Corrected{IdempotencyKey: o.Key, RunID: o.RunID.String(), CorrectedBy: o.By, Reason: o.Reason,
			Outcome: o.Outcome}
		for _, e := range o.Effects {
			card.Corrects.Effects = append(card.Corrects.Effects, contracts.Effect{OperationID: e.OperationID, State: e.State,
				ExternalID: text0(e.ExternalID)})
		}
	}
	return card
}

func decisionsOf(cast []ledger.Cast) []contracts.Decision {
	made := make([]contracts.Decision, len(cast))
	for i, c := range cast {
		made[i] = contracts.Decision{Decision: c.Decision, ReviewerID: c.ReviewerID, Reason: c.Reason, DecidedAt: c.DecidedAt}
		if c.For != nil {
			made[i].OnBehalfOf = c.For.ID
		}
	}
	return made
}

func approvals(cast []ledger.Cast) int {
	n := 0
	for _, c := range cast {
		if c.Decision == ledger.Approve {
			n++
		}
	}
	return n
}

func text0(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// notCounted tells somebody why their approval has no place now (A16).
var notCounted = map[string]string{
	ledger.VoteNotYet: "Others have to approve first: your approval counts in a later stage. Nothing was recorded; come back when " +
		"that stage is open. You may reject it now.",
	ledger.VoteNotNeeded: "Your approval is not needed: the groups that you could count for have all they need, or none asks for a role " +
		"of yours. Nothing was recorded. You may reject it.",
	ledger.VoteDelegationOver: "You may not decide for somebody else any more: the delegation does not last now. Nothing was recorded.",
}

// standing tells somebody whose decision did not count what stands (A8).
func standing(v ledger.Voted) string {
	switch v.Result {
	case ledger.VoteLate:
		return "It is decided already: " + v.State + madeBy(v) + ". Your decision changed nothing."
	case ledger.VoteRepeated:
		return "You have decided on this before, or it was decided for you; one person has one vote. It counts as it was."
	case ledger.VoteNotYet, ledger.VoteNotNeeded, ledger.VoteDelegationOver:
		return notCounted[v.Result]
	case ledger.VoteNoRounds:
		return "It was sent back as often as it may be. Nothing was recorded. You may approve or reject it."
	case ledger.VoteExpired:
		return "Nobody decided before " + v.DecideBy.UTC().Format(time.RFC1123) + ", so the request has expired. Your decision changed nothing."
	case ledger.VoteChanged:
		return "What would be done has changed since you were shown it. Look at it again, then decide."
	case ledger.VoteTokenSpent:
		return "The link was used before, or a newer one has replaced it. Decide from your queue."
	}
	return "There is no such request."
}

// madeBy names who decided and when, where somebody did.
func madeBy(v ledger.Voted) string {
	if len(v.Cast) == 0 {
		return ""
	}
	names := make([]string, 0, len(v.Cast))
	for _, c := range v.Cast {
		name := c.ReviewerID
		if c.Decision == ledger.BreakGlass {
			name += " alone (break-glass)"
		}
		names = append(names, name)
	}
	return fmt.Sprintf(" by %s at %s", strings.Join(names, ", "), v.DecidedAt.UTC().Format(time.RFC1123))
}
