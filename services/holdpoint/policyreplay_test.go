package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
	"github.com/holdpoint/holdpoint/services/policy"
)

func TestPolicyReplayCommand(t *testing.T) {
	t.Parallel()
	b := ledgertest.New(t)
	b.Claim(ledgertest.Proposal("seen"))
	b.Decide("auto", ledgertest.Proposal("seen"))
	env := []string{"HOLDPOINT_DATABASE_URL=" + b.DB.URL}
	replay := func(args ...string) *program {
		return run(t, env, append([]string{"policy", "replay", "--config", "../../deploy/config/example"}, args...)...)
	}

	table := replay()
	require.Zero(t, table.wait(t), table.err)
	require.Contains(t, table.out.String(), "WOULD BE")
	require.Contains(t, table.out.String(), "demo: 1 decisions looked at")

	raw := replay("--json", "--tenant", "demo")
	require.Zero(t, raw.wait(t), raw.err)
	var printed struct{ Replays []policy.ReplayReport }
	require.NoError(t, json.Unmarshal(raw.out.Bytes(), &printed))
	require.Equal(t, 1, printed.Replays[0].Decisions)
	require.Equal(t, 1, printed.Replays[0].Unreadable, "the bench's intents are of no format that a release has")

	nobody := replay("--tenant", "nobody")
	require.Equal(t, 1, nobody.wait(t))
	require.Contains(t, nobody.err.String(), `no tenant "nobody"`)
}
