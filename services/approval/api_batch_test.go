package approval

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestManyDecisionsThroughTheAPI is A13 and A18: each of many decisions has the checks and the answer that it would have alone.
func TestManyDecisionsThroughTheAPI(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	nora := g.token("nora").AccessToken
	one := func(a ledgertest.Asked, what string) contracts.BatchedDecision {
		return contracts.BatchedDecision{ApprovalID: a.ApprovalID.String(), DecisionRequest: decision(a, what)}
	}
	send := func(t *testing.T, changes []func(*http.Request), all ...contracts.BatchedDecision) []contracts.DecisionResult {
		t.Helper()
		answer := g.call(t, http.MethodPost, "/v1/approvals/decisions", nora, contracts.DecisionBatch{Decisions: all}, changes...)
		require.Equal(t, http.StatusOK, answer.Status, answer.Text)
		require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
		var results contracts.DecisionResults
		require.NoError(t, json.Unmarshal([]byte(answer.Text), &results))
		require.Len(t, results.Results, len(all))
		for i, r := range results.Results {
			require.Equal(t, all[i].ApprovalID, r.ApprovalID)
			require.Equal(t, r.Status == http.StatusOK, r.Problem == nil)
		}
		return results.Results
	}

	t.Run("EachHasItsOwnResultInOrder", func(t *testing.T) {
		good, bad, late, changed := g.waiting("good"), g.waiting("bad"), g.waiting("late"), g.waiting("changed")
		own := g.waiting("own", func(c *ledger.Claim) { c.RequestedBy = "nora" })
		require.Equal(t, ledger.VoteRejected, g.Vote(late.Vote("sam", ledger.Reject))[0].Result)
		all := []contracts.BatchedDecision{one(good, ledger.Approve), one(bad, ledger.Reject), one(late, ledger.Approve),
			one(changed, ledger.Approve), one(own, ledger.Approve), one(good, ledger.Approve), one(good, ledger.Approve), one(good, ledger.Approve)}
		all[1].Reason = ""
		all[3].IntentHash = strings.Repeat("0", 64)
		all[5].ApprovalID = uuid.NewString()
		all[6].ApprovalID = "none"
		all[7].CommandID = "none"
		results := send(t, nil, all...)
		statuses := []int{}
		for _, r := range results {
			statuses = append(statuses, r.Status)
		}
		require.Equal(t, []int{200, 422, 409, 409, 403, 404, 404, 422}, statuses)
		require.Equal(t, ledger.VoteApproved, results[0].Answer.Result)
		require.Equal(t, contracts.CodeNotDecided, results[2].Problem.Code)
		require.Equal(t, "sam", results[2].Answer.Decisions[0].ReviewerID)
		require.Equal(t, ledger.VoteChanged, results[3].Answer.Result)
		require.Nil(t, results[4].Answer)
		require.Equal(t, []string{approved, untouched, rejected, untouched, untouched},
			[]string{g.state(good), g.state(bad), g.state(late), g.state(changed), g.state(own)})
	})
	t.Run("ARepeatedCallIsTheSameVotes", func(t *testing.T) {
		a, b := g.waiting("again-a"), g.waiting("again-b", func(c *ledger.Claim) { c.RequestedBy = "who" })
		key := []func(*http.Request){func(r *http.Request) { r.Header.Set("Idempotency-Key", "call-1") }}
		named := one(a, ledger.Approve)
		named.CommandID = uuid.NewString()
		for range 3 {
			results := send(t, key, named, one(b, ledger.Approve))
			require.Equal(t, ledger.VoteApproved, results[0].Answer.Result)
			require.Equal(t, ledger.VoteCounted, results[1].Answer.Result)
		}
		require.Equal(t, approved, g.state(a))
		require.Equal(t, "pending 1 0", g.state(b))
	})
	t.Run("ItTakesAPersonsOwnTokenAndFewEnough", func(t *testing.T) {
		asked := g.waiting("refused")
		call := func(token string, body any) int {
			return g.call(t, http.MethodPost, "/v1/approvals/decisions", token, body).Status
		}
		good := contracts.DecisionBatch{Decisions: []contracts.BatchedDecision{one(asked, ledger.Approve)}}
		require.Equal(t, http.StatusUnauthorized, call("", good))
		require.Equal(t, http.StatusUnprocessableEntity, call(nora, contracts.DecisionBatch{}))
		require.Equal(t, http.StatusUnprocessableEntity, call(nora, contracts.DecisionBatch{Decisions: make([]contracts.BatchedDecision, mostDecisions+1)}))
		require.Equal(t, http.StatusBadRequest, call(nora, `{"decisions":[{"approve":true}]}`))
		require.Equal(t, http.StatusRequestEntityTooLarge, call(nora, `{"decisions":[{"reason":"`+strings.Repeat("x", maxDecisions)+`"}]}`))
		require.Equal(t, untouched, g.state(asked))
	})
}
