package contracts_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestClosedListsAreThoseOfTheLedger compares the states that bodies tell with the ones that there are.
func TestClosedListsAreThoseOfTheLedger(t *testing.T) {
	t.Parallel()
	states := map[string][]string{
		"run": ledger.States(ledger.RunRecord), "approval": ledger.States(ledger.ApprovalRecord),
		"effect": ledger.States(ledger.EffectRecord),
		"outcome": {ledger.OutcomeExecuted, ledger.OutcomePartial, ledger.OutcomeRejected, ledger.OutcomeExpired,
			ledger.OutcomeDenied, ledger.OutcomeInvalid, ledger.OutcomeFailed},
		"execution": {ledger.ExecutionNotStarted, ledger.ExecutionExecuting, ledger.ExecutionExecuted,
			ledger.ExecutionFailed, ledger.ExecutionUnknown},
		"decision": {ledger.Approve, ledger.Reject, ledger.SendBack, ledger.BreakGlass},
		"together": {ledger.Approve, ledger.Reject, ledger.SendBack}, // nobody breaks the glass for many at once
		"resolved": {ledger.ResolvedMade, ledger.ResolvedProposed, ledger.ResolvedWaits, ledger.ResolvedNoProposal, ledger.ResolvedSamePerson,
			ledger.ResolvedChanged, ledger.ResolvedSettled, ledger.ResolvedNeverResent},
		"switch": {ledger.SwitchOpen, ledger.SwitchClosed, ledger.SwitchOpening},
		"scope":  {ledger.ScopeGlobal, ledger.ScopeTenant, ledger.ScopeActionType, ledger.ScopeConnector},
		"told":   {ledger.ProviderSucceeded, ledger.ProviderFailed, ledger.ProviderPending},
		// VoteUnknown is not among them: who reaches the vote was shown the approval, and approvals are never deleted.
		"vote": {ledger.VoteApproved, ledger.VoteRejected, ledger.VoteCounted, ledger.VoteLate, ledger.VoteRepeated,
			ledger.VoteExpired, ledger.VoteChanged, ledger.VoteTokenSpent, ledger.VoteNotYet, ledger.VoteNotNeeded,
			ledger.VoteDelegationOver, ledger.VoteSentBack, ledger.VoteNoRounds},
	}
	for _, tc := range []struct {
		schema string
		path   []string
		want   string
	}{
		{"answer.v1", []string{"state"}, "run"},
		{"answer.v1", []string{"outcome"}, "outcome"},
		{"answer.v1", []string{"effects", "state"}, "effect"},
		{"approval.v1", []string{"status"}, "approval"},
		{"approval_list.v1", []string{"approvals", "status"}, "approval"},
		{"approval_card.v1", []string{"status"}, "approval"},
		{"approval_card.v1", []string{"run_state"}, "run"},
		{"approval_card.v1", []string{"run_outcome"}, "outcome"},
		{"approval_card.v1", []string{"effects", "state"}, "effect"},
		{"approval_card.v1", []string{"execution_status"}, "execution"},
		{"approval_card.v1", []string{"decisions", "decision"}, "decision"},
		{"unattended_list.v1", []string{"held_back", "run_state"}, "run"},
		{"unattended_list.v1", []string{"samples", "effect", "state"}, "effect"},
		{"take_back_answer.v1", []string{"run_state"}, "run"},
		{"desk_list.v1", []string{"items", "state"}, "effect"},
		{"desk_case.v1", []string{"state"}, "effect"},
		{"desk_case.v1", []string{"run_state"}, "run"},
		{"resolution_answer.v1", []string{"state"}, "effect"},
		{"resolution_answer.v1", []string{"resolution_result"}, "resolved"},
		{"take_back_answer.v1", []string{"effect", "state"}, "effect"},
		{"switch_list.v1", []string{"switches", "state"}, "switch"},
		{"switch_list.v1", []string{"switches", "scope"}, "scope"},
		{"switch_case.v1", []string{"state"}, "switch"},
		{"switch_case.v1", []string{"scope"}, "scope"},
		{"desk_case.v1", []string{"provider_events", "verdict"}, "told"},
		{"decision_request.v1", []string{"decision"}, "decision"},
		{"decision_batch.v1", []string{"decisions", "decision"}, "together"},
		{"decision_results.v1", []string{"results", "answer", "decision_result"}, "vote"},
		{"decision_results.v1", []string{"results", "answer", "approval_status"}, "approval"},
		{"decision_results.v1", []string{"results", "answer", "decisions", "decision"}, "decision"},
		{"decision_answer.v1", []string{"decision_result"}, "vote"},
		{"decision_answer.v1", []string{"approval_status"}, "approval"},
		{"decision_answer.v1", []string{"decisions", "decision"}, "decision"},
	} {
		data, err := fs.ReadFile(contracts.Schemas(), tc.schema+".json")
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		require.NoError(t, err)
		schema := doc.(map[string]any)
		for _, name := range tc.path {
			if items, ok := schema["items"].(map[string]any); ok {
				schema = items
			}
			schema = schema["properties"].(map[string]any)[name].(map[string]any)
		}
		require.ElementsMatch(t, states[tc.want], schema["enum"], "%s: %v", tc.schema, tc.path)
	}
}
