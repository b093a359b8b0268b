package config

import "time"

const (
	// maxQuorum bounds what is asked of people. A typo of two digits would make an action that nobody can ever release.
	maxQuorum = 10

	// defaultRecentSignIn of high-risk actions lets a reviewer work off a queue without signing in for every item.
	defaultRecentSignIn = 15 * time.Minute
)

// readReview fills in what risk demands: a high one always takes a typed reason and a recent sign-in (A6).
func (d *declared) readReview(o *object, a *Action) ReviewRule {
	risk, within := a.Risk, a.DecideWithin
	high := risk == RiskHigh
	rule := ReviewRule{Quorum: 1, TypedReason: high}
	if high {
		rule.RecentSignIn = defaultRecentSignIn
	}
	part := o.object("review")
	readReminder(part, &rule, within)
	if part == nil {
		return rule
	}
	rule.Quorum = part.number("quorum", 1, 1, maxQuorum)
	d.readStages(a, part, &rule)
	typed := part.optFlag("typed_reason")
	if high && part.take("typed_reason") != nil && !typed {
		part.fail("typed_reason", "must be true or left out: risk is %s, and such an action is approved with a reason in "+
			"the reviewer's own words only (A6)", RiskHigh)
	}
	rule.TypedReason = typed || high
	if part.take("recent_sign_in") != nil { // 0 is refused: leaving it out is how low and medium risk ask for none
		rule.RecentSignIn = part.duration("recent_sign_in", rule.RecentSignIn)
	}
	rule.BreakGlass = d.readBreakGlass(part, rule.RecentSignIn)
	part.close()
	return rule
}
