package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// kindSeparator joins the action types of an intent with several actions. No type has it in its name.
const kindSeparator = "+"

// KindOf is what an intent of actions of these types is called: the types in their order, each once.
func KindOf(types []string) string {
	var kinds []string
	for _, t := range types {
		if !slices.Contains(kinds, t) {
			kinds = append(kinds, t)
		}
	}
	return strings.Join(kinds, kindSeparator)
}

// ActionTypes are the types that a kind of KindOf names.
func ActionTypes(kind string) []string { return strings.Split(kind, kindSeparator) }

// ActionOf is the action of a kind, which registered finds by its type: of several types what they ask for together, nil where one of them
// is not registered or nobody can decide on all of them.
func ActionOf(kind string, registered func(actionType string) *Action) *Action {
	if !strings.Contains(kind, kindSeparator) {
		return registered(kind)
	}
	var actions []*Action
	for _, name := range ActionTypes(kind) {
		a := registered(name)
		if a == nil {
			return nil
		}
		actions = append(actions, a)
	}
	together, err := Together(actions)
	if err != nil {
		return nil
	}
	return together
}

// Together is what one decision about actions of several types takes (D10): whoever decides must be one who may decide on each, and
// every clock is the shortest. The error says why nobody can decide on all of them; they are to be proposed one by one.
//
// Where the audiences have a role in common, that role decides. Where they have none, or a type asks for a review in stages, the groups of
// all types must approve, stage by stage; a type without stages is one group then, of its one role.
func Together(actions []*Action) (*Action, error) {
	if len(actions) == 1 {
		return actions[0], nil
	}
	first := actions[0]
	all := &Action{Connector: first.Connector, Operation: first.Operation, Owner: first.Owner, Reversible: true,
		DecideWithin: first.DecideWithin, ExecuteWithin: first.ExecuteWithin, Revisions: first.Revisions, pos: first.pos}
	var kinds, rejections []string
	for _, a := range actions {
		kinds = append(kinds, a.Type)
		all.Reversible = all.Reversible && a.Reversible
		all.Shadow = all.Shadow || a.Shadow
		all.Risk = riskier(all.Risk, a.Risk)
		all.DecideWithin, all.ExecuteWithin = min(all.DecideWithin, a.DecideWithin), min(all.ExecuteWithin, a.ExecuteWithin)
		all.Revisions.Rounds = min(all.Revisions.Rounds, a.Revisions.Rounds)
		all.Revisions.Within = min(all.Revisions.Within, a.Revisions.Within)
		all.Evidence = append(all.Evidence, a.Evidence...)
		all.Review.TypedReason = all.Review.TypedReason || a.Review.TypedReason
		all.Review.RecentSignIn = shorter(all.Review.RecentSignIn, a.Review.RecentSignIn)
		all.Review.RemindBefore = shorter(all.Review.RemindBefore, a.Review.RemindBefore)
		all.Category = cmp.Or(all.Category, a.Category)
		if all.Profession != "" && a.Profession != "" && all.Profession != a.Profession {
			return nil, fmt.Errorf("they need people of two professions, %s and %s", all.Profession, a.Profession)
		}
		all.Profession = cmp.Or(all.Profession, a.Profession)
		if a.Rejection != "" && !slices.Contains(rejections, a.Rejection) {
			rejections = append(rejections, a.Rejection)
		}
	}
	all.Type, all.Rejection = KindOf(kinds), strings.Join(rejections, " ")
	return all, all.reviewedBy(actions)
}

// shorter is the shorter of two spans, of which 0 asks for none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func riskier(a, b string) string {
	if slices.Index(risks, b) > slices.Index(risks, a) {
		return b
	}
	return a
}

// reviewedBy fills in who decides.
func (all *Action) reviewedBy(actions []*Action) error {
	common := slices.Clone(actions[0].Audience)
	staged := false
	for _, a := range actions {
		staged = staged || len(a.Review.Stages) > 0
		common = slices.DeleteFunc(common, func(role string) bool { return !slices.Contains(a.Audience, role) })
		all.Review.Quorum = max(all.Review.Quorum, a.Review.Quorum)
	}
	if len(common) > 0 && !staged {
		all.Audience = common
		return nil
	}
	for _, a := range actions {
		stages := a.Review.Stages
		if len(stages) == 0 {
			if len(a.Audience) != 1 {
				return errors.New("no role may decide on all of them")
			}
			stages = []Stage{{Groups: []Group{{Role: a.Audience[0], Approvals: a.Review.Quorum}}}}
		}
		for i, stage := range stages {
			if i == len(all.Review.Stages) {
				all.Review.Stages = append(all.Review.Stages, Stage{})
			}
			all.Review.Stages[i].join(stage)
		}
	}
	all.Review.Quorum = 0
	for _, stage := range all.Review.Stages {
		for _, g := range stage.Groups {
			all.Review.Quorum += g.Approvals
			if !slices.Contains(all.Audience, g.Role) {
				all.Audience = append(all.Audience, g.Role)
			}
		}
	}
	return nil
}

// join asks for the groups of another stage besides. Of one role the larger number is enough.
func (s *Stage) join(other Stage) {
	for _, g := range other.Groups {
		if i := slices.IndexFunc(s.Groups, func(has Group) bool { return has.Role == g.Role }); i >= 0 {
			s.Groups[i].Approvals = max(s.Groups[i].Approvals, g.Approvals)
			continue
		}
		s.Groups = append(s.Groups, g)
	}
}
