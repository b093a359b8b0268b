package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/services/policy"
)

func TestPolicyCandidatesCommand(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	for i := range 3 {
		b.Vote(b.Asked(fmt.Sprintf("k-%d", i))[0].Vote("nora", ledger.Approve))
	}
	env := []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}
	candidates := func(args ...string) *program {
		return run(t, env, append([]string{"policy", "candidates", "--config", "../../deploy/config/example"}, args...)...)
	}
	raw := candidates("--json", "--least", "3")
	require.Zero(t, raw.wait(t), raw.err)
	var printed struct{ Candidates []policy.CandidateReport }
	require.NoError(t, json.Unmarshal(raw.out.Bytes(), &printed))
	require.Equal(t, 3, printed.Candidates[0].Decided)
	require.Equal(t, 3, printed.Candidates[0].Candidates[0].Approved)
	require.Equal(t, 1, printed.Candidates[0].Candidates[0].Reviewers)

	table := candidates()
	require.Zero(t, table.wait(t), table.err)
	require.Contains(t, table.out.String(), "demo: 3 decided requests looked at")
	require.NotContains(t, table.out.String(), "k-0", "three are fewer than 20")

	nobody := candidates("--tenant", "nobody")
	require.Equal(t, 1, nobody.wait(t))
	require.Contains(t, nobody.err.String(), `no tenant "nobody"`)
}
