package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxGroups bounds the stages of a review, and the groups of a stage, as maxQuorum bounds people.
const maxGroups = 10

// Stage is one step of a review. All its groups must be satisfied before the next one opens (A16).
type Stage struct {
	Groups []Group
}

// Group is a role of the audience, and how many people who hold it must approve. One person counts for one group alone.
type Group struct {
	Role      string
	Approvals int // from 1 to 10
}

// groupPlace is where a group of an action's review was written.
type groupPlace struct {
	action       *Action
	stage, group int
}

// readStages fills in the stages where there are any; the quorum is then what all groups come to.
func (d *declared) readStages(a *Action, review *object, rule *ReviewRule) {
	if review.take("stages") == nil {
		return
	}
	if review.take("quorum") != nil {
		review.fail("stages", "and quorum are both set; leave quorum out: the groups say how many people must approve")
	}
	rule.Quorum = 0
	for i, part := range review.objects("stages") {
		rule.Stages = append(rule.Stages, Stage{Groups: d.readGroups(groupPlace{action: a, stage: i}, part)})
		part.close()
		for _, g := range rule.Stages[i].Groups {
			rule.Quorum += g.Approvals
		}
	}
	review.holds("stages", maxGroups)
}

func (d *declared) readGroups(at groupPlace, stage *object) []Group {
	var groups []Group
	for i, part := range stage.objects("groups") {
		g := Group{Role: part.text("role"), Approvals: part.number("approvals", 1, 1, maxQuorum)}
		part.close()
		at.group = i
		d.places[at] = part
		groups = append(groups, g)
	}
	if stage.take("groups") == nil {
		stage.fail("groups", "is missing; it must list the roles of those who must approve")
	}
	stage.holds("groups", maxGroups)
	return groups
}

// holds refuses a list that is empty, or longer than most.
func (o *object) holds(name string, most int) {
	if list, ok := o.take(name).(*ast.SequenceNode); ok && (len(list.Values) < 1 || len(list.Values) > most) {
		o.fail(name, "must list 1 to %d", most)
	}
}

// checkStages refuses groups whose role is not in the audience, which is who is told and who may decide at all.
func (d *declared) checkStages(a *Action) {
	for i, stage := range a.Review.Stages {
		for j, g := range stage.Groups {
			if g.Role != "" && !slices.Contains(a.Audience, g.Role) {
				d.places[groupPlace{a, i, j}].fail("role", "is %s, which is not in the audience of %s, allowed: %s", quote(g.Role), a.Type,
					strings.Join(a.Audience, ", "))
			}
		}
	}
}

// fill finds people for all groups of all stages at once, each person for one place alone, as a maximum matching of people to
// places does. It returns the first group that stays short, or nil. Without leaves out one person, who always asks.
// A group whose role is open, because the claims of a sign-in alone say who holds it, is not held to any number.
func (d *declared) fill(a *Action, without string) *shortGroup {
	takenBy := map[string]*seat{} // id of a person to the place that the person fills
	for i, stage := range a.Review.Stages {
		for j, g := range stage.Groups {
			may, known := d.mayApproveAs(a, g.Role)
			if !known {
				continue
			}
			may = slices.DeleteFunc(may, func(id string) bool { return id == without })
			for range g.Approvals {
				if !(&seat{may: may}).take(takenBy, map[string]bool{}) {
					return &shortGroup{d.places[groupPlace{a, i, j}], g, may}
				}
			}
		}
	}
	return nil
}

// shortGroup is a group for which too few different people are left.
type shortGroup struct {
	at    *object
	group Group
	may   []string // who could be in it
}

// seat is one approval that is asked for, and who could give it.
type seat struct{ may []string }

// take gives the place to somebody who is free, or who can be freed by giving another place to somebody else.
func (p *seat) take(takenBy map[string]*seat, tried map[string]bool) bool {
	for _, id := range p.may {
		if tried[id] {
			continue
		}
		tried[id] = true
		if other := takenBy[id]; other == nil || other.take(takenBy, tried) {
			takenBy[id] = p
			return true
		}
	}
	return false
}
