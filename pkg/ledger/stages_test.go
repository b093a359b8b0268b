package ledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// staged asks for two leads and one of finance, then for a director.
var staged = ledger.Terms{Stages: []ledger.Stage{
	{Groups: []ledger.ReviewGroup{{Role: "lead", Approvals: 2}, {Role: "finance", Approvals: 1}}},
	{Groups: []ledger.ReviewGroup{{Role: "director", Approvals: 1}}},
}}

// TestStages: groups and stages are counted under the lock, by what was kept with the request and with each vote (A16).
func TestStages(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*ledgertest.Bench, func(subject string, roles ...string) ledger.Vote) {
		t.Helper()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		return b, func(subject string, roles ...string) ledger.Vote {
			v := asked.Vote(subject, ledger.Approve)
			v.Terms, v.Reviewer.Roles = staged, roles
			return v
		}
	}
	results := func(b *ledgertest.Bench, votes ...ledger.Vote) []string {
		var all []string
		for _, voted := range b.Vote(votes...) {
			all = append(all, voted.Result)
		}
		return all
	}

	t.Run("EachStageOpensAfterTheOneBefore", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		require.Equal(t, []string{ledger.VoteNotYet, ledger.VoteCounted, ledger.VoteCounted, ledger.VoteNotNeeded, ledger.VoteNotNeeded},
			results(b, vote("dora", "director"), vote("a", "lead"), vote("b", "lead"), vote("c", "lead"), vote("d", "reviewer")))
		require.Equal(t, 2, b.Count(`select count(*) from reviews`), "who was not needed has not voted")
		require.Equal(t, []string{ledger.VoteCounted, ledger.VoteApproved}, results(b, vote("f", "finance"), vote("dora", "director")))
		require.Equal(t, ledger.RunApproved, b.Run("k").State)
		require.Equal(t, 1, b.Count(`select count(*) from effects`))
		require.Equal(t, `["finance"]`, b.Text(`select to_jsonb(roles)::text from reviews where subject = 'f'`))
	})

	t.Run("AnswersSayWhatIsMissing", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		voted := b.Vote(vote("a", "lead", "finance"), vote("b", "lead"))
		require.Equal(t, 4, voted[1].Quorum)
		groups := voted[1].Tally.Stages[0]
		require.Equal(t, []int{0, 1}, []int{groups[0].Missing(), groups[1].Missing()})
	})

	t.Run("AnybodyMayRejectAtAnyStage", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		no := vote("dora", "director")
		no.Decision = ledger.Reject
		require.Equal(t, []string{ledger.VoteCounted, ledger.VoteRejected}, results(b, vote("a", "lead"), no))
		require.Zero(t, b.Count(`select count(*) from effects`))
	})

	t.Run("ALaxerConfigurationReleasesNothingThatAStricterOneAskedFor", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		lax := vote("b", "lead")
		lax.Terms = ledger.QuorumOf(1)
		require.Equal(t, []string{ledger.VoteCounted, ledger.VoteCounted}, results(b, vote("a", "lead"), lax))
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
		card, err := b.Approval.Card(t.Context(), lax.ApprovalID)
		require.NoError(t, err)
		require.Equal(t, &staged, card.Terms)
	})

	t.Run("WhatPeopleWereToldOfIsKeptBeforeAnybodyVotes", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		lax := vote("a", "lead")
		lax.Terms = ledger.QuorumOf(1)
		require.NoError(t, b.Approval.Announce(t.Context(), []ledger.Plan{{ApprovalID: lax.ApprovalID, Terms: &staged}}, nil))
		require.Equal(t, []string{ledger.VoteCounted}, results(b, lax))
	})

	t.Run("MorePeopleAreAskedForWhereItIsNotKnownWhoAsked", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		one := ledger.Terms{Stages: staged.Stages[1:]}
		first, second := vote("a", "director"), vote("b", "reviewer")
		first.Terms, second.Terms, first.Quorum, second.Quorum = one, one, 2, 2
		require.Equal(t, []string{ledger.VoteCounted, ledger.VoteApproved}, results(b, first, second))
	})
}

// TestDelegatedVote: a vote for somebody is theirs and the voter's own, and counts only while the delegation lasts (A16).
func TestDelegatedVote(t *testing.T) {
	t.Parallel()

	setup := func(t *testing.T) (*ledgertest.Bench, func(subject, principal string) ledger.Vote) {
		t.Helper()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		return b, func(subject, principal string) ledger.Vote {
			v := asked.Vote(subject, ledger.Approve)
			v.Terms = ledger.QuorumOf(3)
			if principal != "" {
				v.Reviewer.ID += " for " + principal
				v.Reviewer.For = &ledger.Principal{Issuer: v.Reviewer.Issuer, Subject: principal, ID: principal,
					Starts: time.Now().Add(-time.Hour), Ends: time.Now().Add(time.Hour)}
			}
			return v
		}
	}

	t.Run("ThePersonAndWhoeverVotesForThemHaveOneVote", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		require.Equal(t, ledger.VoteCounted, b.Vote(vote("sam", "nora"))[0].Result)
		for _, again := range []ledger.Vote{vote("nora", ""), vote("sam", ""), vote("otto", "nora"), vote("sam", "otto"), vote("nora", "otto")} {
			require.Equal(t, ledger.VoteRepeated, b.Vote(again)[0].Result, again.Reviewer.ID)
		}
		require.Equal(t, "sam for nora", b.Text(`select actor from audit_events where move = 'vote'`))
		require.Equal(t, "nora", b.Text(`select detail->'for'->>'id' from audit_events where move = 'vote'`))
		require.Equal(t, "nora", b.Text(`select for_id from reviews where subject = 'sam'`))
	})

	t.Run("ThePersonsOwnVoteComesFirst", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		require.Equal(t, ledger.VoteCounted, b.Vote(vote("nora", ""))[0].Result)
		require.Equal(t, ledger.VoteRepeated, b.Vote(vote("sam", "nora"))[0].Result)
		require.Equal(t, ledger.VoteCounted, b.Vote(vote("sam", ""))[0].Result, "nora's vote is not sam's")
	})

	t.Run("TheDatabasesClockSaysWhetherItLasts", func(t *testing.T) {
		t.Parallel()
		b, vote := setup(t)
		over, early := vote("sam", "nora"), vote("sam", "nora")
		over.Reviewer.For.Ends = time.Now().Add(-time.Minute)
		early.Reviewer.For.Starts = time.Now().Add(time.Minute)
		for _, v := range []ledger.Vote{over, early} {
			require.Equal(t, ledger.VoteDelegationOver, b.Vote(v)[0].Result)
		}
		require.Zero(t, b.Count(`select count(*) from reviews`))
	})
}

// TestVotesOfACrowd: 40 people vote five times each, through two replicas at once, and exactly one vote decides (A8, A16).
func TestVotesOfACrowd(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	replicas := make([]*ledger.Group[ledger.Vote, ledger.Voted], 2) // as the service takes votes
	for i := range replicas {
		replicas[i] = ledger.NewGroup(ledger.GroupConfig[ledger.Vote, ledger.Voted]{Run: b.Replica(ledger.Approval).Vote, Workers: 2})
		t.Cleanup(replicas[i].Close)
	}
	for name, terms := range map[string]ledger.Terms{"quorum": ledger.QuorumOf(3), "stages": staged,
		"groups": {Stages: []ledger.Stage{{Groups: append(staged.Stages[0].Groups[:2:2], staged.Stages[1].Groups...)}}}} {
		asked := b.Asked(name)[0]
		vote := func(person int) ledger.Vote {
			v := asked.Vote(fmt.Sprintf("person-%d", person), ledger.Approve)
			v.Terms, v.Reviewer.Roles = terms, []string{[]string{"lead", "finance", "director", "other"}[person%4]}
			return v
		}
		var crowd sync.WaitGroup
		for person := range 40 {
			crowd.Go(func() {
				for try := range 5 {
					if _, err := replicas[(person+try)%2].Do(t.Context(), vote(person)); err != nil {
						t.Errorf("%s: person %d: %v", name, person, err)
					}
				}
			})
		}
		crowd.Wait()
		for person := range 4 { // whoever came before their stage was turned away, and comes again
			b.Vote(vote(person))
		}
		require.Equal(t, ledger.RunApproved, b.Run(name).State, name)
		require.Equal(t, terms.People(), b.Count(`select count(*) from reviews where approval_id = $1`, asked.ApprovalID), name)
		for _, once := range []string{`audit_events where move = 'approve' and run_id = $1`, `effects where run_id = $1`,
			`authorizations where run_id = $1`} {
			require.Equal(t, 1, b.Count(`select count(*) from `+once, asked.Effect.RunID), "%s: %s", name, once)
		}
	}
}
