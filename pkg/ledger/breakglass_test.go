package ledger_test

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// broken is the vote of somebody who approves alone what two others have to approve.
func broken(asked ledgertest.Asked, subject string) ledger.Vote {
	v := asked.Vote(subject, ledger.BreakGlass)
	v.Terms, v.Reviewer.Roles = staged, []string{"operator"}
	v.Glass = ledger.Glass{ReviewWithin: time.Hour, Roles: []string{"operator"},
		To: []ledger.Address{{TenantID: ledgertest.Tenant, ApprovalID: asked.ApprovalID, Channel: "mail", Recipient: "lead@example"}}}
	return v
}

func TestBreakGlass(t *testing.T) { // A16
	t.Parallel()

	t.Run("OnePersonApprovesAloneAndItIsFlagged", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		vote := broken(asked, "otto")
		for _, voted := range b.Vote(vote, vote) { // sent again, it is told what it came to
			require.Equal(t, ledger.VoteApproved, voted.Result)
		}
		require.Equal(t, ledger.RunApproved, b.Run("k").State)
		require.Equal(t, 1, b.Count(`select count(*) from effects where run_id = $1 and state = 'pending'`, asked.Effect.RunID))
		card, err := b.Approval.Card(t.Context(), asked.ApprovalID)
		require.NoError(t, err)
		require.Equal(t, "otto", card.Glass.BrokenBy)
		require.Equal(t, "because", card.Glass.Reason)
		require.Equal(t, time.Hour, card.Glass.ReviewBy.Sub(card.Glass.BrokenAt))
		require.Equal(t, append(card.Audience, "operator"), card.Glass.Audience)
		require.Empty(t, card.Glass.Verdict)
		require.Equal(t, "break_glass", b.Text(`select detail->>'decision' from audit_events where move = 'approve'`))
		require.Equal(t, "break_glass true", b.Text(`select (d #>> '{data,decision}') || ' ' || (d #>> '{data,final}')
from (select convert_from(payload, 'UTF8')::jsonb as d from event_log where subject ~ 'approval.decided$') e`))
		explained, err := b.Approval.Explain(t.Context(), ledgertest.Tenant, asked.Effect.RunID)
		require.NoError(t, err)
		var told struct {
			Approvals []struct {
				Glass struct {
					By string `json:"broken_by_id"`
				} `json:"break_glass"`
			} `json:"approvals"`
		}
		require.NoError(t, json.Unmarshal(explained, &told))
		require.Equal(t, "otto", told.Approvals[0].Glass.By)
	})

	t.Run("PeopleAreToldAtOnceInPlaceOfWhatWasOnItsWay", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		asked := b.Asked("k")[0]
		vote := broken(asked, "otto")
		require.NoError(t, b.Approval.Announce(t.Context(), []ledger.Plan{{ApprovalID: asked.ApprovalID}}, vote.Glass.To))
		before, err := b.Approval.TakeNotices(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, before, 1)
		require.Zero(t, before[0].ReviewBy)
		b.Vote(vote)
		require.NoError(t, b.Approval.RecordNotices(t.Context(), []ledger.NoticeResult{{Address: vote.Glass.To[0], Kind: ledger.NoticeRequest}}))
		after, err := b.Approval.TakeNotices(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, after, 1, "that the request was sent in the meantime does not count for it")
		require.Equal(t, ledger.NoticeBreakGlass, after[0].Kind)
		require.WithinDuration(t, time.Now().Add(time.Hour), after[0].ReviewBy, time.Minute)
	})

	t.Run("WhatHoldsForEveryVoteHolds", func(t *testing.T) { // A7
		t.Parallel()
		b := ledgertest.New(t)
		all := b.Asked("voted", "changed", "late", "link", "rejected")
		approve := all[0].Vote("otto", ledger.Approve)
		approve.Terms, approve.Reviewer.Roles = staged, []string{"lead"}
		require.Equal(t, ledger.VoteCounted, b.Vote(approve)[0].Result)
		require.Equal(t, ledger.VoteRepeated, b.Vote(broken(all[0], "otto"))[0].Result, "one person has one vote")
		changed := broken(all[1], "otto")
		changed.Shown = canonical.Digest{1}
		require.Equal(t, ledger.VoteChanged, b.Vote(changed)[0].Result)
		b.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, all[2].ApprovalID)
		require.Equal(t, ledger.VoteExpired, b.Vote(broken(all[2], "otto"))[0].Result)
		link := broken(all[3], "otto")
		digest := sha256.Sum256([]byte("t"))
		link.Token = digest[:]
		_, err := b.Approval.MintTokens(t.Context(), []ledger.Token{{Hash: link.Token, TenantID: ledgertest.Tenant, RunID: link.RunID,
			ApprovalID: link.ApprovalID, Recipient: "mail d@example", Decisions: []string{ledger.Approve, ledger.Reject, ledger.SendBack}}})
		require.NoError(t, err)
		require.Equal(t, ledger.VoteTokenSpent, b.Vote(link)[0].Result, "no link allows it (A2)")
		b.Vote(all[4].Vote("nora", ledger.Reject))
		require.Equal(t, ledger.VoteLate, b.Vote(broken(all[4], "otto"))[0].Result)
		require.Zero(t, b.Count(`select count(*) from glass_reviews`))
		require.Zero(t, b.Count(`select count(*) from effects`))
	})

	t.Run("WithoutATimeToLookAtItNothingIsApproved", func(t *testing.T) {
		t.Parallel()
		b := ledgertest.New(t)
		vote := broken(b.Asked("k")[0], "otto")
		vote.Glass.ReviewWithin = 0
		_, err := b.Approval.Vote(t.Context(), []ledger.Vote{vote})
		require.ErrorContains(t, err, "glass_reviews_time")
		require.Equal(t, ledger.RunAwaitingHuman, b.Run("k").State)
	})
}

// TestRacingBreakGlass is A8: of people who break the glass, approve and reject at once, through two replicas, one decides.
func TestRacingBreakGlass(t *testing.T) {
	t.Parallel()
	const races = 50
	b := ledgertest.New(t)
	keys := make([]string, races)
	for i := range keys {
		keys[i] = "glass-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	asked := b.Asked(keys...)
	replicas := []*ledger.Ledger{b.Approval, b.Replica(ledger.Approval)}
	votes := []func(ledgertest.Asked) ledger.Vote{
		func(a ledgertest.Asked) ledger.Vote { return broken(a, "otto") },
		func(a ledgertest.Asked) ledger.Vote { return broken(a, "olga") },
		func(a ledgertest.Asked) ledger.Vote { return a.Vote("nora", ledger.Approve) },
		func(a ledgertest.Asked) ledger.Vote { return a.Vote("sam", ledger.Reject) },
	}
	var group sync.WaitGroup
	results := make([][4]string, races)
	for way, of := range votes {
		for i := range asked {
			group.Go(func() {
				voted, err := replicas[(way+i)%2].Vote(t.Context(), []ledger.Vote{of(asked[i])})
				if err != nil {
					t.Errorf("race %d: %v", i, err)
					return
				}
				results[i][way] = voted[0].Result
			})
		}
	}
	group.Wait()
	for i, r := range results {
		won := map[string]int{}
		for _, result := range r {
			won[result]++
		}
		require.Equal(t, 1, won[ledger.VoteApproved]+won[ledger.VoteRejected], "race %d: %v", i, r)
		require.Equal(t, 3, won[ledger.VoteLate], "race %d: %v", i, r)
	}
	require.Equal(t, races, b.Count(`select count(*) from reviews`))
	require.Equal(t, b.Count(`select count(*) from reviews where decision = 'break_glass'`), b.Count(`select count(*) from glass_reviews`))
	require.Zero(t, b.Count(`select count(*) from approvals a left join effects e using (run_id, tenant_id)
  where (a.state = 'approved') <> (e.run_id is not null)`), "an effect exactly where it was approved")
}

func TestJudgeGlass(t *testing.T) { // A16
	t.Parallel()
	b := ledgertest.New(t)
	judgement := func(asked ledgertest.Asked, subject, verdict string) ledger.GlassJudgement {
		return ledger.GlassJudgement{CommandID: uuid.New(), TenantID: ledgertest.Tenant, RunID: asked.Effect.RunID, ApprovalID: asked.ApprovalID,
			Verdict: verdict, Reason: "looked at", Channel: "web",
			Reviewer: ledger.Reviewer{Issuer: "https://id.example", Subject: subject, ID: subject, Authority: []byte(`{}`)}}
	}
	brokenBy := func(key, subject string) ledgertest.Asked {
		asked := b.Asked(key)[0]
		require.Equal(t, ledger.VoteApproved, b.Vote(broken(asked, subject))[0].Result)
		return asked
	}

	t.Run("TheFirstVerdictStands", func(t *testing.T) {
		asked := brokenBy("first", "otto")
		first := judgement(asked, "nora", ledger.VerdictWrong)
		for range 2 { // sent again, it is one
			done, err := b.Approval.JudgeGlass(t.Context(), first)
			require.NoError(t, err)
			require.Equal(t, ledger.GlassJudged{Stored: true, Verdict: "wrong", By: "nora", At: done.At}, done)
		}
		second, err := b.Approval.JudgeGlass(t.Context(), judgement(asked, "sam", ledger.VerdictRight))
		require.NoError(t, err)
		require.False(t, second.Stored)
		require.Equal(t, "nora", second.By)
		require.Equal(t, 1, b.Count(`select count(*) from audit_events where move = 'judge_glass' and actor = 'nora'
and detail->>'verdict' = 'wrong' and detail->>'broken_by' = 'otto' and run_id = $1`, asked.Effect.RunID))
		require.Equal(t, "pending", b.Text(`select state from effects where run_id = $1`, asked.Effect.RunID),
			"it changes nothing of what is sent")
	})

	t.Run("NeverByWhoeverApprovedAlone", func(t *testing.T) {
		asked := brokenBy("own", "otto")
		_, err := b.Approval.JudgeGlass(t.Context(), judgement(asked, "otto", ledger.VerdictRight))
		require.ErrorIs(t, err, ledger.ErrOwnGlass)
		alias := judgement(asked, "another-account", ledger.VerdictRight)
		alias.Reviewer.ID = "otto"
		_, err = b.Approval.JudgeGlass(t.Context(), alias)
		require.ErrorIs(t, err, ledger.ErrOwnGlass, "by another account of theirs")
		_, err = b.Owner.Exec(t.Context(), `update glass_reviews set verdict = 'right', command_id = gen_random_uuid(), issuer = broken_by_issuer,
subject = broken_by_subject, reviewer_id = 'x', authority = '{}', reason = '', channel = 'web', judged_at = now() where approval_id = $1`,
			asked.ApprovalID)
		require.ErrorContains(t, err, "glass_reviews_another")
	})

	t.Run("WhatNobodyBrokeIsNotJudged", func(t *testing.T) {
		asked := b.Asked("whole")[0]
		_, err := b.Approval.JudgeGlass(t.Context(), judgement(asked, "nora", ledger.VerdictRight))
		require.ErrorIs(t, err, ledger.ErrNoGlass)
	})

	t.Run("AWrongOneSaysWhy", func(t *testing.T) {
		silent := judgement(brokenBy("silent", "otto"), "nora", ledger.VerdictWrong)
		silent.Reason = " "
		_, err := b.Approval.JudgeGlass(t.Context(), silent)
		require.ErrorContains(t, err, "glass_reviews_wrong_said")
	})

	t.Run("WhatNobodyLooksAtIsListedAndThenOverdue", func(t *testing.T) {
		asked := brokenBy("waiting", "otto")
		list, err := b.Approval.BrokenGlass(t.Context(), []string{ledgertest.Tenant}, []string{"operator"}, 10)
		require.NoError(t, err)
		require.Contains(t, idsOf(list), asked.ApprovalID)
		none, err := b.Approval.BrokenGlass(t.Context(), []string{ledgertest.Tenant}, []string{"somebody"}, 10)
		require.NoError(t, err)
		require.Empty(t, none)
		overdue, err := b.Approval.OverdueGlass(t.Context())
		require.NoError(t, err)
		require.Empty(t, overdue)
		b.Exec(`update glass_reviews set broken_at = broken_at - interval '2 hours', review_by = review_by - interval '2 hours'
where approval_id = $1`, asked.ApprovalID)
		overdue, err = b.Approval.OverdueGlass(t.Context())
		require.NoError(t, err)
		require.Len(t, overdue, 1)
		require.Equal(t, ledger.OverdueGlass{TenantID: ledgertest.Tenant, Count: 1, Approval: asked.ApprovalID, ReviewBy: overdue[0].ReviewBy},
			overdue[0])
		_, err = b.Approval.JudgeGlass(t.Context(), judgement(asked, "nora", ledger.VerdictRight))
		require.NoError(t, err)
		overdue, err = b.Approval.OverdueGlass(t.Context())
		require.NoError(t, err)
		require.Empty(t, overdue)
	})
}

func idsOf(list []ledger.BrokenGlass) []uuid.UUID {
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].ApprovalID
	}
	return ids
}
