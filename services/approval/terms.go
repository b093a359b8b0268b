package approval

import (
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// terms are what a decision on this card takes (A5, A6, A16).
type terms struct {
	Quorum       int // how many different people have to approve
	TypedReason  bool
	RecentSignIn time.Duration
	Profession   string
	// TwoPeople says why the quorum is not the action's own, "" where it is.
	TwoPeople string

	Kept  ledger.Terms // who must approve, as the request keeps it, or by the configuration before it keeps anything
	Least int          // different people who must approve, whatever Kept asks for
	All   ledger.Terms // both together: what the votes are folded by
	Other bool         // the configuration asks for something else by now than the request keeps
}

// termsOf an approval. Who must approve is kept with the request; everything else is by the configuration as it is now. Where a
// source names whoever asked and this event's name is nobody whom the configuration knows, no reviewer can be told to be another
// person: then two different people decide (APR-10).
func (t *tenant) termsOf(card *ledger.Card) terms {
	rule := terms{TypedReason: true, Kept: ledger.QuorumOf(1), Least: 1}
	if action := t.action(card.ActionType); action != nil {
		rule.TypedReason, rule.RecentSignIn, rule.Profession = action.Review.TypedReason, action.Review.RecentSignIn, action.Profession
		rule.Kept = configured(action)
	}
	if card.Terms != nil {
		rule.Other = t.action(card.ActionType) != nil && !alike(rule.Kept, *card.Terms)
		rule.Kept = *card.Terms
	}
	source := t.sources[card.Source]
	if source != nil && source.Requester != "" && t.PersonByAlias(card.RequestedBy) == nil && rule.Kept.People() < 2 {
		rule.Least = 2
		rule.TwoPeople = "It is not known who asked for this, so two different people have to approve."
	}
	rule.All = rule.Kept.AtLeast(rule.Least)
	rule.Quorum = rule.All.People()
	return rule
}

// revisions bound how often what the card asks for can be sent back, by the configuration as it is now.
func (t *tenant) revisions(card *ledger.Card) ledger.Revisions {
	if action := t.action(card.ActionType); action != nil {
		return ledger.Revisions(action.Revisions)
	}
	return ledger.Revisions{}
}

// configured are who must approve by the action's declaration.
func configured(action *config.Action) ledger.Terms {
	if len(action.Review.Stages) == 0 {
		return ledger.QuorumOf(action.Review.Quorum)
	}
	var terms ledger.Terms
	for _, declared := range action.Review.Stages {
		var stage ledger.Stage
		for _, g := range declared.Groups {
			stage.Groups = append(stage.Groups, ledger.ReviewGroup{Role: g.Role, Approvals: g.Approvals})
		}
		terms.Stages = append(terms.Stages, stage)
	}
	return terms
}

func alike(a, b ledger.Terms) bool {
	return slices.EqualFunc(a.Stages, b.Stages, func(x, y ledger.Stage) bool { return slices.Equal(x.Groups, y.Groups) })
}

// roles that the groups name.
func (rule terms) roles() []string {
	var roles []string
	for _, stage := range rule.All.Stages {
		for _, g := range stage.Groups {
			if g.Role != "" && !slices.Contains(roles, g.Role) {
				roles = append(roles, g.Role)
			}
		}
	}
	return roles
}

// Named reports whether the groups ask for more than a number of the audience.
func (rule terms) Named() bool { return len(rule.roles()) > 0 }

// stagesOf say of each stage and each of its groups who has approved and how many are missing.
func stagesOf(tally ledger.Tally) []contracts.ReviewStage {
	stages := make([]contracts.ReviewStage, len(tally.Stages))
	for i, groups := range tally.Stages {
		stages[i].State = stageState(i, tally.Open)
		for _, g := range groups {
			told := contracts.ReviewGroup{Role: g.Role, Approvals: g.Approvals, Missing: g.Missing(), ApprovedBy: make([]string, len(g.By))}
			for n, v := range g.By {
				told.ApprovedBy[n] = v.ReviewerID
			}
			stages[i].Groups = append(stages[i].Groups, told)
		}
	}
	return stages
}

func stageState(stage, open int) string {
	switch {
	case stage < open:
		return contracts.StageSatisfied
	case stage == open:
		return contracts.StageOpen
	}
	return contracts.StageWaiting
}
