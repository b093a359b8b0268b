package ledger

import "slices"

// Terms are who must approve a request, step by step (A16). What a request began with is kept when people are told of it, or with
// its first vote if that comes earlier, and holds until it ends: a later configuration neither loosens nor tightens it. To have
// a request asked for under other terms, it is withdrawn and made anew.
type Terms struct {
	Stages []Stage `json:"stages"`
}

// Stage is one step: all its groups must be satisfied before the next one opens.
type Stage struct {
	Groups []ReviewGroup `json:"groups"`
}

// ReviewGroup is how many people must approve who hold a role; "" is any role of the audience.
type ReviewGroup struct {
	Role      string `json:"role"`
	Approvals int    `json:"approvals"`
}

// QuorumOf asks for a number of people of the audience.
func QuorumOf(n int) Terms {
	return Terms{Stages: []Stage{{Groups: []ReviewGroup{{Approvals: max(n, 1)}}}}}
}

// People is how many different people must approve.
func (t Terms) People() int {
	n := 0
	for _, s := range t.Stages {
		for _, g := range s.Groups {
			n += g.Approvals
		}
	}
	return n
}

// AtLeast asks for people of the audience besides, in the last stage, where the terms ask for fewer than n. The terms themselves
// are not changed.
func (t Terms) AtLeast(n int) Terms {
	missing := n - t.People()
	if missing <= 0 {
		return t
	}
	stages := slices.Clone(t.Stages)
	if len(stages) == 0 {
		return QuorumOf(n)
	}
	last := &stages[len(stages)-1]
	last.Groups = slices.Clone(last.Groups)
	if n := len(last.Groups); n > 0 && last.Groups[n-1].Role == "" {
		last.Groups[n-1].Approvals += missing
	} else {
		last.Groups = append(last.Groups, ReviewGroup{Approvals: missing})
	}
	return Terms{Stages: stages}
}

// Tally is what votes have come to under terms.
type Tally struct {
	State  string         // ApprovalPending, ApprovalApproved or ApprovalRejected
	Open   int            // index of the stage that takes votes; the number of stages where all are satisfied
	Stages [][]GroupTally // of each stage its groups, in the order of the terms
}

// GroupTally is one group with those who count for it.
type GroupTally struct {
	ReviewGroup
	By []Cast // in the order of their votes
}

// Missing is how many more people must approve.
func (g *GroupTally) Missing() int { return g.Approvals - len(g.By) }

// Fold is what the votes on an approval come to, in their order. One rejection ends it, whoever has approved, and one vote of somebody
// who breaks the glass and has not voted approves it, whatever the terms; the earlier of the two stands. Else:
//
//  1. A person has one vote, and so has a person for whom another one votes: the first stands.
//  2. A vote counts in the stage that is open when it is cast, where some assignment of that stage's votes to its groups has
//     room for one more. It counts for one group; which, may still change while the stage is open, so that whoever holds two
//     roles does not keep a place from somebody who holds one.
//  3. A stage whose groups are satisfied stays as it is, and the next one opens. After the last, the request is approved.
//
// A vote that does not count when it is cast never does.
func Fold(terms Terms, votes []Cast) Tally {
	if len(terms.Stages) == 0 {
		terms = QuorumOf(1)
	}
	tally := Tally{State: ApprovalPending, Stages: make([][]GroupTally, 0, len(terms.Stages))}
	rest := unrepeated(votes)
	for _, stage := range terms.Stages {
		seats := &seating{stage: stage, taken: make([][]Cast, len(stage.Groups))}
		for len(rest) > 0 && !seats.full() {
			seats.admit(rest[0])
			rest = rest[1:]
		}
		if seats.full() && tally.Open == len(tally.Stages) {
			tally.Open++
		}
		tally.Stages = append(tally.Stages, seats.groups(votes))
	}
	switch alone := decidedAlone(votes); {
	case alone != "":
		tally.State = alone
	case tally.Open == len(terms.Stages) && tally.counted() > 0:
		tally.State = ApprovalApproved
	}
	return tally
}

// decidedAlone is what the first vote that needs no other has made of the approval, "" where there is none.
func decidedAlone(votes []Cast) string {
	for i := range votes {
		switch v := &votes[i]; {
		case v.Decision == Reject:
			return ApprovalRejected
		case v.Decision == BreakGlass && !votedBefore(votes[:i], v.voters()):
			return ApprovalApproved
		}
	}
	return ""
}

// Refuses says why an approval by somebody with these roles would not count now: VoteNotYet where it will in a later stage,
// VoteNotNeeded where it will not; "" where it counts.
func Refuses(terms Terms, votes []Cast, roles []string) string {
	mine := Cast{Decision: Approve, Roles: roles} // of nobody who has voted: a stored vote names its issuer
	before, after := Fold(terms, votes), Fold(terms, append(votes[:len(votes):len(votes)], mine))
	if after.counted() > before.counted() {
		return ""
	}
	for i := before.Open + 1; i < len(terms.Stages); i++ {
		if slices.ContainsFunc(terms.Stages[i].Groups, func(g ReviewGroup) bool { return g.takes(roles) }) {
			return VoteNotYet
		}
	}
	return VoteNotNeeded
}

func (t *Tally) counted() int {
	n := 0
	for _, groups := range t.Stages {
		for _, g := range groups {
			n += len(g.By)
		}
	}
	return n
}

// unrepeated are the approvals that are the first of their person.
func unrepeated(votes []Cast) []Cast {
	var kept []Cast
	for _, v := range votes {
		if v.Decision == Approve && !votedBefore(kept, v.voters()) {
			kept = append(kept, v)
		}
	}
	return kept
}

func (g *ReviewGroup) takes(roles []string) bool {
	return g.Role == "" || slices.Contains(roles, g.Role)
}

// seating gives the votes of one stage their places, by augmenting paths.
type seating struct {
	stage Stage
	taken [][]Cast // of each group
}

func (s *seating) full() bool {
	for i, g := range s.stage.Groups {
		if len(s.taken[i]) < g.Approvals {
			return false
		}
	}
	return true
}

// admit reports whether the vote has a place now.
func (s *seating) admit(v Cast) bool { return s.place(v, make([]bool, len(s.stage.Groups))) }

// place puts the vote into the first group that has room, or else makes room by moving another vote on. Groups that were
// looked at are not looked at again.
func (s *seating) place(v Cast, seen []bool) bool {
	for i := range s.stage.Groups {
		if g := &s.stage.Groups[i]; !seen[i] && g.takes(v.Roles) && len(s.taken[i]) < g.Approvals {
			s.taken[i] = append(s.taken[i], v)
			return true
		}
	}
	for i := range s.stage.Groups {
		if seen[i] || !s.stage.Groups[i].takes(v.Roles) {
			continue
		}
		seen[i] = true
		for n, other := range s.taken[i] {
			if s.place(other, seen) {
				s.taken[i][n] = v
				return true
			}
		}
	}
	return false
}

// groups are the places as they are taken, those of a group in the order of the votes.
func (s *seating) groups(votes []Cast) []GroupTally {
	order := func(c Cast) int {
		return slices.IndexFunc(votes, func(v Cast) bool { return v.voters()[0] == c.voters()[0] })
	}
	groups := make([]GroupTally, len(s.stage.Groups))
	for i, g := range s.stage.Groups {
		slices.SortFunc(s.taken[i], func(a, b Cast) int { return order(a) - order(b) })
		groups[i] = GroupTally{ReviewGroup: g, By: s.taken[i]}
	}
	return groups
}

// voter is a person as a vote names them.
type voter struct{ issuer, subject string }

// voters are the person who cast the vote and the one for whom it was cast, where it was for another.
func (c *Cast) voters() []voter {
	return votersOf(c.Issuer, c.Subject, c.For)
}

func votersOf(issuer, subject string, principal *Principal) []voter {
	all := []voter{{issuer, subject}}
	if principal != nil {
		all = append(all, voter{principal.Issuer, principal.Subject})
	}
	return all
}

// votedBefore reports whether one of the people has a vote already, by themself or through another.
func votedBefore(votes []Cast, people []voter) bool {
	return slices.ContainsFunc(votes, func(v Cast) bool {
		return slices.ContainsFunc(v.voters(), func(one voter) bool { return slices.Contains(people, one) })
	})
}
