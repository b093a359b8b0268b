package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// ballots draws votes of people, each of whom holds the same roles whenever they vote.
func ballots(t *rapid.T, most int, decisions ...string) []ledger.Cast {
	holds := map[string][]string{"a": nil}
	for _, person := range []string{"b", "c", "d", "e", "f"} {
		holds[person] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "roles of "+person)
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ledger.Cast {
		person := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "person")
		return ledger.Cast{Decision: rapid.SampledFrom(decisions).Draw(t, "decision"), Issuer: "i", Subject: person, ReviewerID: person,
			Roles: holds[person]}
	}), 0, most).Draw(t, "votes")
}

func termsOf(t *rapid.T, stages int) ledger.Terms {
	group := rapid.Custom(func(t *rapid.T) ledger.ReviewGroup {
		return ledger.ReviewGroup{Role: rapid.SampledFrom([]string{"x", "y", "z", ""}).Draw(t, "role"),
			Approvals: rapid.IntRange(1, 2).Draw(t, "approvals")}
	})
	stage := rapid.Custom(func(t *rapid.T) ledger.Stage {
		return ledger.Stage{Groups: rapid.SliceOfN(group, 1, 3).Draw(t, "groups")}
	})
	return ledger.Terms{Stages: rapid.SliceOfN(stage, 1, stages).Draw(t, "stages")}
}

// seated is the model: how many votes can have a place of their own, by trying every assignment.
func seated(groups []ledger.ReviewGroup, votes []ledger.Cast) int {
	if len(votes) == 0 {
		return 0
	}
	most := seated(groups, votes[1:])
	for i, g := range groups {
		if g.Approvals > 0 && (g.Role == "" || slices.Contains(votes[0].Roles, g.Role)) {
			fewer := slices.Clone(groups)
			fewer[i].Approvals--
			most = max(most, 1+seated(fewer, votes[1:]))
		}
	}
	return most
}

// modelled is the model of the whole fold: which stage is open, and whether all are satisfied.
func modelled(terms ledger.Terms, votes []ledger.Cast) int {
	open := 0
	var here []ledger.Cast
	voted := map[string]bool{}
	for _, v := range votes {
		if voted[v.Subject] || open == len(terms.Stages) {
			continue
		}
		voted[v.Subject] = true
		groups := terms.Stages[open].Groups
		if with := append(slices.Clone(here), v); seated(groups, with) == len(with) {
			here = with
		}
		if len(here) == (ledger.Terms{Stages: []ledger.Stage{{Groups: groups}}}).People() {
			open, here = open+1, nil
		}
	}
	return open
}

// TestFold: the fold is what a model that tries everything says, and nobody counts twice (A5, A16).
func TestFold(t *testing.T) {
	t.Parallel()

	t.Run("AQuorumIsOfDifferentPeopleAndOneRejectionEndsIt", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			quorum := rapid.IntRange(1, 4).Draw(t, "quorum")
			votes := ballots(t, 8, ledger.Approve, ledger.Approve, ledger.Approve, ledger.Reject)
			people, rejected := map[string]bool{}, false
			for _, v := range votes {
				rejected = rejected || v.Decision == ledger.Reject
				people[v.Subject] = true
			}
			want := ledger.ApprovalPending
			switch {
			case rejected:
				want = ledger.ApprovalRejected
			case len(people) >= quorum:
				want = ledger.ApprovalApproved
			}
			require.Equal(t, want, ledger.Fold(ledger.QuorumOf(quorum), votes).State)
		})
	})

	t.Run("WhoBreaksTheGlassApprovesAloneUnlessTheyHaveVoted", func(t *testing.T) {
		t.Parallel()
		two := ledger.Terms{Stages: []ledger.Stage{{Groups: []ledger.ReviewGroup{{Role: "x", Approvals: 1}}},
			{Groups: []ledger.ReviewGroup{{Role: "y", Approvals: 1}}}}}
		cast := func(decision, person string) ledger.Cast {
			return ledger.Cast{Decision: decision, Issuer: "i", Subject: person, Roles: []string{"x"}}
		}
		forAnother := cast(ledger.Approve, "c")
		forAnother.For = &ledger.Principal{Issuer: "i", Subject: "a"}
		approve, reject, broken := cast(ledger.Approve, "a"), cast(ledger.Reject, "b"), cast(ledger.BreakGlass, "o")
		for name, tc := range map[string]struct {
			want  string
			votes []ledger.Cast
		}{
			"alone":                          {ledger.ApprovalApproved, []ledger.Cast{broken}},
			"in the middle of the stages":    {ledger.ApprovalApproved, []ledger.Cast{approve, broken}},
			"before a rejection":             {ledger.ApprovalApproved, []ledger.Cast{broken, reject}},
			"after a rejection":              {ledger.ApprovalRejected, []ledger.Cast{reject, broken}},
			"by who has approved":            {ledger.ApprovalPending, []ledger.Cast{approve, cast(ledger.BreakGlass, "a")}},
			"by who was voted for":           {ledger.ApprovalPending, []ledger.Cast{forAnother, cast(ledger.BreakGlass, "a")}},
			"by who has voted for another":   {ledger.ApprovalPending, []ledger.Cast{forAnother, cast(ledger.BreakGlass, "c")}},
			"an approval is no broken glass": {ledger.ApprovalPending, []ledger.Cast{approve, cast(ledger.Approve, "o")}},
		} {
			tally := ledger.Fold(two, tc.votes)
			require.Equal(t, tc.want, tally.State, name)
			require.Less(t, tally.Open, len(two.Stages), "%s: the stages stay as short as they were", name)
		}
	})

	t.Run("TheStateIsThatOfTheModel", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			terms, votes := termsOf(t, 3), ballots(t, 8, ledger.Approve)
			tally := ledger.Fold(terms, votes)
			require.Equal(t, modelled(terms, votes), tally.Open)
			require.Equal(t, tally.Open == len(terms.Stages), tally.State == ledger.ApprovalApproved)
		})
	})

	t.Run("NobodyCountsTwiceOrForARoleThatTheyDoNotHold", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			terms := termsOf(t, 3)
			seen := map[string]bool{}
			for i, groups := range ledger.Fold(terms, ballots(t, 10, ledger.Approve)).Stages {
				for j, g := range groups {
					require.Equal(t, terms.Stages[i].Groups[j], g.ReviewGroup)
					require.GreaterOrEqual(t, g.Missing(), 0)
					for _, v := range g.By {
						require.False(t, seen[v.Subject], v.Subject)
						require.True(t, g.Role == "" || slices.Contains(v.Roles, g.Role))
						seen[v.Subject] = true
					}
				}
			}
		})
	})

	t.Run("TheOrderOfApprovalsInAStageDoesNotMatter", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			terms, votes := termsOf(t, 1), ballots(t, 7, ledger.Approve)
			other := rapid.Permutation(votes).Draw(t, "other order")
			require.Equal(t, ledger.Fold(terms, votes).State, ledger.Fold(terms, other).State)
		})
	})

	t.Run("AnotherApprovalTakesNothingBack", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			terms, votes := termsOf(t, 3), ballots(t, 8, ledger.Approve)
			before := ledger.Fold(terms, nil)
			for n := range len(votes) + 1 {
				after := ledger.Fold(terms, votes[:n])
				require.GreaterOrEqual(t, after.Open, before.Open)
				require.Equal(t, before.Stages[:before.Open], after.Stages[:before.Open],
					"a stage that is satisfied stays as it is")
				before = after
			}
		})
	})

	t.Run("WhoIsRefusedWouldNotCountAndWhoIsNotDoes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			terms, votes := termsOf(t, 3), ballots(t, 6, ledger.Approve)
			roles := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "roles")
			mine := ledger.Cast{Decision: ledger.Approve, Issuer: "i", Subject: "me", Roles: roles}
			counts := false
			for _, groups := range ledger.Fold(terms, append(slices.Clone(votes), mine)).Stages {
				for _, g := range groups {
					counts = counts || slices.ContainsFunc(g.By, func(v ledger.Cast) bool { return v.Subject == "me" })
				}
			}
			require.Equal(t, counts, ledger.Refuses(terms, votes, roles) == "")
		})
	})
}

// TestFoldByExample shows the rules that are hard to see in a property.
func TestFoldByExample(t *testing.T) {
	t.Parallel()
	group := func(role string, n int) ledger.ReviewGroup { return ledger.ReviewGroup{Role: role, Approvals: n} }
	stage := func(groups ...ledger.ReviewGroup) ledger.Stage { return ledger.Stage{Groups: groups} }
	by := func(subject string, roles ...string) ledger.Cast {
		return ledger.Cast{Decision: ledger.Approve, Issuer: "i", Subject: subject, ReviewerID: subject, Roles: roles}
	}
	names := func(groups []ledger.GroupTally) string {
		text := ""
		for _, g := range groups {
			text += g.Role + ":"
			for _, v := range g.By {
				text += v.Subject
			}
			text += fmt.Sprintf("-%d ", g.Missing())
		}
		return text
	}
	both := ledger.Terms{Stages: []ledger.Stage{stage(group("x", 1), group("y", 1)), stage(group("z", 1))}}

	t.Run("WhoHoldsTwoRolesMakesRoomForWhoHoldsOne", func(t *testing.T) {
		t.Parallel()
		tally := ledger.Fold(both, []ledger.Cast{by("a", "x", "y")})
		require.Equal(t, "x:a-0 y:-1 ", names(tally.Stages[0]))
		tally = ledger.Fold(both, []ledger.Cast{by("a", "x", "y"), by("b", "x")})
		require.Equal(t, "x:b-0 y:a-0 ", names(tally.Stages[0]))
		require.Equal(t, 1, tally.Open)
	})

	t.Run("ALaterStageWaits", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, ledger.VoteNotYet, ledger.Refuses(both, nil, []string{"z"}))
		require.Equal(t, ledger.VoteNotNeeded, ledger.Refuses(both, nil, []string{"other"}))
		votes := []ledger.Cast{by("a", "x")}
		require.Equal(t, ledger.VoteNotNeeded, ledger.Refuses(both, votes, []string{"x"}))
		require.Equal(t, ledger.VoteNotYet, ledger.Refuses(both, votes, []string{"x", "z"}))
		votes = append(votes, by("b", "y"))
		require.Empty(t, ledger.Refuses(both, votes, []string{"z"}))
		require.Equal(t, ledger.ApprovalApproved, ledger.Fold(both, append(votes, by("c", "z"))).State)
	})

	t.Run("AVoteForSomebodyIsThatPersonsVoteAndTheVotersOwn", func(t *testing.T) {
		t.Parallel()
		forNora := by("sam")
		forNora.For = &ledger.Principal{Issuer: "i", Subject: "nora", ID: "nora"}
		two := ledger.QuorumOf(2)
		for _, second := range []ledger.Cast{by("nora"), by("sam")} {
			require.Equal(t, ledger.ApprovalPending, ledger.Fold(two, []ledger.Cast{forNora, second}).State)
			require.Equal(t, ledger.ApprovalPending, ledger.Fold(two, []ledger.Cast{second, forNora}).State)
		}
		require.Equal(t, ledger.ApprovalApproved, ledger.Fold(two, []ledger.Cast{forNora, by("otto")}).State)
	})

	t.Run("TermsThatAskForNobodyAskForOne", func(t *testing.T) {
		t.Parallel()
		for _, terms := range []ledger.Terms{{}, {Stages: []ledger.Stage{{}}}} {
			require.Equal(t, ledger.ApprovalPending, ledger.Fold(terms, nil).State)
		}
	})

	t.Run("MorePeopleThanTheTermsAskForComeLast", func(t *testing.T) {
		t.Parallel()
		more := both.AtLeast(5)
		require.Equal(t, 5, more.People())
		require.Equal(t, []ledger.ReviewGroup{group("z", 1), group("", 2)}, more.Stages[1].Groups)
		require.Equal(t, 3, both.People(), "the terms themselves stay")
		require.Equal(t, both, both.AtLeast(3))
		require.Equal(t, ledger.QuorumOf(2), ledger.Terms{}.AtLeast(2))
	})
}
