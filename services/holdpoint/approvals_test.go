package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// TestApprovals is what an operator learns from the command line: what waits, and who decided on what hash, by what authority.
func TestApprovals(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	asked := b.Asked("waits", "decided", "staged")
	b.Vote(asked[1].Vote("nora", ledger.Approve))
	staged := asked[2].Vote("sam", ledger.Approve)
	staged.Reviewer.Roles = []string{"lead"}
	staged.Terms = ledger.Terms{Stages: []ledger.Stage{{Groups: []ledger.ReviewGroup{{Role: "lead", Approvals: 1}}},
		{Groups: []ledger.ReviewGroup{{Role: "finance", Approvals: 2}}}}}
	b.Vote(staged)
	verb := func(args ...string) (int, string, string) {
		p := run(t, []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}, args...)
		code := p.wait(t)
		return code, p.out.String(), p.err.String()
	}

	code, out, complaint := verb("approvals")
	require.Equal(t, 0, code, complaint)
	require.Regexp(t, `(?s)`+asked[0].ApprovalID.String()+`  pending .* key waits.* left\), by reviewer.*`+asked[1].ApprovalID.String()+
		`  approved .* key decided.* since `, out, "what waits comes first")

	_, out, _ = verb("approvals", "--state", "pending", "--json")
	var list []ledger.ApprovalSummary
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 2)
	require.ElementsMatch(t, []string{"waits", "staged"}, []string{list[0].Key, list[1].Key})

	_, out, _ = verb("approvals", "show", asked[2].ApprovalID.String())
	require.Contains(t, out, "stage 1   1 of lead   0 missing   approved by sam\nstage 2   2 of finance   2 missing\n")

	code, out, complaint = verb("approvals", "show", asked[1].ApprovalID.String())
	require.Equal(t, 0, code, complaint)
	require.Contains(t, out, "approve by nora (https://id.example#nora): because")
	require.Contains(t, out, asked[1].IntentHash.String())
	require.Contains(t, out, "executed  executing")

	code, _, complaint = verb("approvals", "show", "nonsense")
	require.Equal(t, 1, code)
	require.Contains(t, complaint, "`holdpoint approvals` lists them")
	code, _, complaint = verb("approvals", "show", "00000000-0000-0000-0000-000000000001")
	require.Equal(t, 1, code)
	require.Contains(t, complaint, "there is no such approval")

	_, out, _ = verb("explain", "decided", "--tenant", ledgertest.Tenant)
	require.Contains(t, out, "by nora (https://id.example#nora), as reviewer, over web: because")
	require.Contains(t, out, "on intent "+asked[1].IntentHash.String())
}
