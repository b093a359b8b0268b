package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestQueueFilters is A18: what narrows a list, in both orders, page by page.
func TestQueueFilters(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	var keys []string
	for i := range 9 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	asked := b.Asked(keys...)
	now := time.Now().Truncate(time.Microsecond)
	for i, a := range asked { // the later it was asked for, the more urgent it is; three at a time are equally urgent
		b.Exec(`update approvals set decide_by = $1, requested_at = $2, action_type = $3, audience = $4, target_record = $5
where approval_id = $6`, now.Add(time.Hour-time.Duration(i/3)*time.Minute), now.Add(time.Duration(i)*time.Second),
			[]string{"crm.contact.update", "payment.refund"}[i%2], [][]string{{"lead"}, {"lead", "sales"}, {"sales"}}[i%3],
			fmt.Sprintf("c-%d", i), a.ApprovalID)
	}
	index := func(list []ledger.Listed) []int {
		at := []int{}
		for _, one := range list {
			at = append(at, slices.IndexFunc(asked, func(a ledgertest.Asked) bool { return a.ApprovalID == one.ApprovalID }))
		}
		return at
	}
	queue := func(change func(*ledger.ApprovalFilter)) []ledger.Listed {
		f := ledger.ApprovalFilter{TenantID: ledgertest.Tenant}
		change(&f)
		list, err := b.Approval.Queue(t.Context(), f)
		require.NoError(t, err)
		return list
	}

	t.Run("RolesAndTypesNarrow", func(t *testing.T) {
		for name, c := range map[string]struct {
			audience, actions []string
			want              []int
		}{
			"OneRole": {[]string{"sales"}, nil, []int{1, 2, 4, 5, 7, 8}}, "OneType": {nil, []string{"payment.refund"}, []int{1, 3, 5, 7}},
			"Both": {[]string{"lead"}, []string{"payment.refund"}, []int{1, 3, 7}}, "NoType": {nil, []string{}, []int{}},
			"NoRole": {[]string{}, nil, []int{}}, "TwoTypes": {[]string{"lead"}, []string{"payment.refund", "none"}, []int{1, 3, 7}},
		} {
			found := index(queue(func(f *ledger.ApprovalFilter) { f.Audience, f.Actions = c.audience, c.actions }))
			require.ElementsMatch(t, c.want, found, name)
		}
	})
	t.Run("TypesCanBeLeftOut", func(t *testing.T) {
		rest := queue(func(f *ledger.ApprovalFilter) { f.Except = []string{"payment.refund"} })
		require.ElementsMatch(t, []int{0, 2, 4, 6, 8}, index(rest))
	})
	t.Run("PagesShowEachOnceInOrder", func(t *testing.T) {
		for _, oldest := range []bool{true, false} {
			var pages []ledger.Listed
			var after *ledger.ApprovalMark
			for range 5 {
				page := queue(func(f *ledger.ApprovalFilter) {
					f.State, f.Oldest, f.After, f.Limit = ledger.ApprovalPending, oldest, after, 2
				})
				require.NotEmpty(t, page)
				mark := page[len(page)-1].Mark(oldest)
				after, pages = &mark, append(pages, page...)
			}
			whole := queue(func(f *ledger.ApprovalFilter) { f.State, f.Oldest = ledger.ApprovalPending, oldest })
			require.Equal(t, index(whole), index(pages))
			if oldest {
				require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, index(pages))
				continue
			}
			require.ElementsMatch(t, []int{6, 7, 8}, index(pages)[:3], "the most urgent first")
			require.ElementsMatch(t, []int{0, 1, 2}, index(pages)[6:])
		}
	})
	t.Run("ASearchFindsTheKeyAndHowOthersBegin", func(t *testing.T) {
		for text, want := range map[string][]int{"k3": {3}, "corr-k": {0, 1, 2, 3, 4, 5, 6, 7, 8}, "corr-k4": {4}, "c-7": {7}, "c-": {0, 1, 2, 3, 4, 5, 6, 7, 8},
			"k":   {},
			"c-%": {}, "\x00": {}, "\xff": {}, "c-\U0010FFFF": {}} {
			require.ElementsMatch(t, want, index(queue(func(f *ledger.ApprovalFilter) { f.Search = text })), "%q", text)
		}
		require.ElementsMatch(t, []int{1, 5, 7}, index(queue(func(f *ledger.ApprovalFilter) {
			f.Search, f.Actions, f.Audience = "corr-k", []string{"payment.refund"}, []string{"sales"}
		})))
	})
	t.Run("VotesComeWithIt", func(t *testing.T) {
		first := asked[0].Vote("nora", ledger.Approve)
		first.Quorum = 2
		require.Equal(t, ledger.VoteCounted, b.Vote(first)[0].Result)
		for _, one := range queue(func(f *ledger.ApprovalFilter) { f.State = ledger.ApprovalPending }) {
			require.Len(t, one.Cast, map[bool]int{true: 1}[one.ApprovalID == asked[0].ApprovalID])
			if one.Approvals == 1 {
				require.Equal(t, "nora", one.Cast[0].Subject)
			}
		}
	})
	t.Run("WhatIsDecidedComesPageByPageTheLatestFirst", func(t *testing.T) {
		for _, i := range []int{4, 5, 6} {
			b.Vote(asked[i].Vote("sam", ledger.Reject))
		}
		var pages []ledger.Listed
		var after *ledger.ApprovalMark
		for range 3 {
			page := queue(func(f *ledger.ApprovalFilter) { f.Decided, f.After, f.Limit = true, after, 1 })
			mark := page[0].Mark(false)
			after, pages = &mark, append(pages, page...)
		}
		require.Equal(t, []int{6, 5, 4}, index(pages))
	})
}

// TestARequestKeepsItsTarget: a search by the record finds it however it came to people.
func TestARequestKeepsItsTarget(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	claim := ledgertest.Proposal("k")
	b.Claim(claim)
	b.Decide(config.RouteHumanReview, claim)
	asked := b.Pending("k")
	target := func() string {
		return b.Text(`select string_agg(target_system || ' ' || target_record, ',') from approvals where run_id = $1`, asked.Effect.RunID)
	}
	require.Equal(t, "crm c-k", target())
	require.Equal(t, ledger.VoteApproved, b.Vote(asked.Vote("nora", ledger.Approve))[0].Result)
	recorded := b.Text(`select target_record from effects where run_id = $1`, asked.Effect.RunID)
	moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: asked.Effect, Move: "expire",
		HoldReason: ledger.HoldReview, NextCheck: ledger.Never, RunKey: "k", CorrelationID: "c",
		Review: &ledger.Review{Audience: []string{"reviewer"}, ReasonCodes: []string{"execute_by_passed"}, DecideWithin: time.Hour,
			ExecuteWithin: time.Hour, IntentHash: asked.IntentHash.String(), Revision: 1}}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, moved)
	require.Equal(t, "crm "+recorded, b.Text(`select target_system || ' ' || target_record from approvals where approval_id <> $1`, asked.ApprovalID))
}
