package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestApprovals is A12 and A18: what a list has, however much waits and however much was ever decided.
func TestApprovals(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	var keys []string
	for i := range 8 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	asked := b.Asked(keys...)
	b.Vote(asked[0].Vote("nora", ledger.Reject))
	b.Vote(asked[1].Vote("nora", ledger.Approve))
	ids := func(f ledger.ApprovalFilter) (ids []uuid.UUID) {
		list, err := b.Approval.Approvals(t.Context(), f)
		require.NoError(t, err)
		for i := range list {
			ids = append(ids, list[i].ApprovalID)
		}
		return ids
	}
	every := ids(ledger.ApprovalFilter{})
	require.Len(t, every, 8)
	require.Equal(t, []uuid.UUID{asked[1].ApprovalID, asked[0].ApprovalID}, every[6:], "the latest decided first, below all that waits")
	require.Equal(t, every[:6], ids(ledger.ApprovalFilter{TenantID: ledgertest.Tenant, State: ledger.ApprovalPending}))
	require.Equal(t, every[6:7], ids(ledger.ApprovalFilter{Decided: true, Limit: 1}), "what waits does not hide what was decided")
	require.Equal(t, every[:3], ids(ledger.ApprovalFilter{Limit: 3}))
	require.Equal(t, every[7:], ids(ledger.ApprovalFilter{State: ledger.ApprovalRejected}))
	require.Equal(t, []uuid.UUID{asked[4].ApprovalID}, ids(ledger.ApprovalFilter{TenantID: ledgertest.Tenant, Key: "k4"}))
	require.Equal(t, []uuid.UUID{asked[4].ApprovalID}, ids(ledger.ApprovalFilter{Key: "k4"}))
	for _, nothing := range []ledger.ApprovalFilter{{TenantID: "elsewhere"}, {Audience: []string{}}, {Audience: []string{"nobody"}},
		{Key: "\x00"}, {CorrelationID: "\xff"}, {State: "\x00"}, {State: "pending", Decided: true}} {
		require.Empty(t, ids(nothing), "%+v", nothing)
	}
}

// TestAVoteIsKnownAgainByWhatItSays: a command id that comes with another decision, or from another person, is another vote.
func TestAVoteIsKnownAgainByWhatItSays(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("k")[0]
	first := asked.Vote("nora", ledger.Approve)
	first.Quorum = 2
	require.Equal(t, ledger.VoteCounted, b.Vote(first)[0].Result)
	require.Equal(t, ledger.VoteCounted, b.Vote(first)[0].Result)
	changed := first
	changed.Decision = ledger.Reject
	require.Equal(t, ledger.VoteRepeated, b.Vote(changed)[0].Result)
	others := asked.Vote("sam", ledger.Approve)
	others.Quorum, others.CommandID = 2, first.CommandID
	require.Equal(t, ledger.VoteApproved, b.Vote(others)[0].Result)
}

// TestSentBackTwice is D2: however often an unchanged intent is approved, it is one effect with one operation id, and one approval
// waits at a time.
func TestSentBackTwice(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("k")[0]
	operation := asked.Effect.OperationID()
	for range 3 {
		require.Equal(t, ledger.VoteApproved, b.Vote(asked.Vote("nora", ledger.Approve))[0].Result)
		require.Equal(t, operation, b.Text(`select operation_id from effects where state = 'pending' and open`))
		moved, err := b.Reconciler.Settle(t.Context(), "record_lookups", []ledger.Settlement{{EffectKey: asked.Effect, Move: "expire",
			HoldReason: ledger.HoldReview, NextCheck: ledger.Never, RunKey: "k", CorrelationID: "c",
			Review: &ledger.Review{Audience: []string{"reviewer"}, ReasonCodes: []string{"execute_by_passed"}, DecideWithin: time.Hour,
				ExecuteWithin: time.Hour, IntentHash: asked.IntentHash.String(), Revision: 1}}})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, moved)
		again := b.Pending("k")
		require.NotEqual(t, asked.ApprovalID, again.ApprovalID)
		require.Equal(t, ledger.VoteLate, b.Vote(asked.Vote("sam", ledger.Approve))[0].Result, "the approval before is over")
		asked = again
	}
	card, err := b.Approval.Card(t.Context(), asked.ApprovalID)
	require.NoError(t, err)
	require.Equal(t, 3, card.Earlier)
	require.Equal(t, ledger.VoteApproved, b.Vote(asked.Vote("sam", ledger.Approve))[0].Result)
	require.Len(t, b.Lease(time.Minute, asked.Effect), 1)
	require.Equal(t, 1, b.Count(`select count(*) from effects`))
	require.Equal(t, 4, b.Count(`select count(*) from authorizations`))
}

// TestAReadThatWasNotAnswered is told from one that failed: whoever asked may ask again, and nothing was changed.
func TestAReadThatWasNotAnswered(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("k")[0]
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := b.Approval.Approvals(late, ledger.ApprovalFilter{})
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = b.Approval.Card(late, asked.ApprovalID)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = b.Approval.FindToken(late, make([]byte, 32))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = b.Approval.FindToken(t.Context(), make([]byte, 32))
	require.ErrorIs(t, err, ledger.ErrNoToken)
}
