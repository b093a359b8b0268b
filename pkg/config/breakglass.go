package config

import (
	"slices"
	"time"
)

// BreakGlass lets one person of certain roles approve alone in an emergency, whatever the quorum or the stages. Others look at it
// afterwards (A16).
type BreakGlass struct {
	Roles        []string      // that may approve alone
	ReviewWithin time.Duration // how long the others have to look at it, from 1h to 168h
	RecentSignIn time.Duration // the longest that the sign-in may be ago, at most 15m; the loader fills it in
}

// Bounds of how long a look afterwards may take: a shorter time is missed over lunch, and a longer one is no answer to an emergency.
const (
	shortestGlassReview = time.Hour
	longestGlassReview  = 7 * 24 * time.Hour
)

// readBreakGlass is nil where nobody may approve alone. Whoever does has just proved who they are, whatever the action asks for
// otherwise.
func (d *declared) readBreakGlass(review *object, recentSignIn time.Duration) *BreakGlass {
	part := review.object("break_glass")
	if part == nil {
		return nil
	}
	b := &BreakGlass{Roles: part.texts("roles", nil), ReviewWithin: part.duration("review_within", 0), RecentSignIn: defaultRecentSignIn}
	if recentSignIn > 0 {
		b.RecentSignIn = min(recentSignIn, defaultRecentSignIn)
	}
	if len(b.Roles) == 0 {
		part.fail("roles", "must list at least one role that may approve alone")
	}
	if b.ReviewWithin > 0 && (b.ReviewWithin < shortestGlassReview || b.ReviewWithin > longestGlassReview) {
		part.fail("review_within", "is %s; it must be from %s to %s", b.ReviewWithin, shortestGlassReview, longestGlassReview)
	}
	part.close()
	d.places[b] = part
	return b
}

// checkBreakGlass refuses a way round a qualified professional (P5), roles that nobody holds, and an approval that nobody but whoever
// gave it, or asked for it, could look at afterwards (P9).
func (d *declared) checkBreakGlass(a *Action) {
	b := a.Review.BreakGlass
	if b == nil {
		return
	}
	place := d.places[b]
	d.checkRoles(place, "roles", b.Roles)
	if a.Profession != "" {
		place.fail("roles", "would let somebody approve %s alone, which needs a qualified professional (%s): remove break_glass (P5)",
			a.Type, a.Profession)
		return
	}
	if may, known := d.mayDecideAs(a, b.Roles, nil, true); known && len(may) == 0 {
		place.fail("roles", "lets nobody approve %s alone: add to the members of one of them (P9)", a.Type)
		return
	}
	judges, known := d.mayDecideAs(a, slices.Concat(a.Audience, b.Roles), nil, true)
	if !known {
		return
	}
	if len(judges) < 2 {
		place.fail("roles", "and the audience leave only %s: somebody else must be able to look at it afterwards (P9)", listed(judges))
		return
	}
	for _, k := range d.APIKeys {
		asks := slices.Contains(k.Scopes, ScopePublish) || slices.Contains(k.Scopes, ScopeWork)
		if asks && len(judges) == 2 && slices.Contains(judges, k.Owner) {
			place.fail("roles", "and the audience leave only %s, of whom %s answers for the API key %s (%s) and so counts as having asked "+
				"for whatever comes with it: nobody is left to look at it afterwards (P9, A5)", listed(judges), k.Owner, k.Name,
				d.places[keyName(k.Name)].at("owner"))
		}
	}
}
