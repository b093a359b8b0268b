package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

const depot = `connectors:
  - id: depot
    kind: executor
    operations:
      - {name: reserve, kind: create}
`

func TestExecutorSettings(t *testing.T) {
	t.Parallel()

	t.Run("ItHasTimesOfItsOwnAndNoAddress", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "connectors:\n", depot)
		loaded, err := w.load()
		require.NoError(t, err)
		c := loaded.Tenants[0].Connectors[0]
		require.True(t, c.Executor())
		require.Equal(t, []any{"", 30 * time.Second, 30 * time.Second, 16},
			[]any{c.BaseURL, c.Timeout, c.LeaveWithin, c.Concurrency})
		require.False(t, c.Operations[0].IdempotentCreate())
		require.Equal(t, config.ConnectorHTTP, loaded.Tenants[0].Connectors[1].Kind, "what says nothing is called")
		require.False(t, loaded.Tenants[0].Connectors[1].Executor())
	})

	t.Run("OneThatReplaysIsKnownByItsOperationIDs", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "connectors:\n", depot)
		w.replace("connectors.yaml", "{name: reserve, kind: create}", "{name: reserve, kind: create, replays: true, key_window: 24h}")
		loaded, err := w.load()
		require.NoError(t, err)
		op := loaded.Tenants[0].Connectors[0].Operations[0]
		require.Equal(t, config.OperationIDMember, op.IdempotencyHeader)
		require.True(t, op.IdempotentCreate())
	})

	const refund, command = "connector: sandbox-payments\n    operation: create_refund",
		"connector: depot\n    operation: reserve"
	t.Run("WithoutReplayNoPaymentIsMadeUnattended", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "connectors:\n", depot)
		w.replace("actions.yaml", refund, command)
		_, err := w.load()
		require.NoError(t, err, "people may decide about it")
		w.replace("policy.yaml", "rules:\n", "rules:\n  - {id: any, action: payment.refund, when: \"true\", route: auto, reason: Fast.}\n")
		_, err = w.load()
		require.ErrorContains(t, err, "whose operation reserve of depot offers neither lookup nor idempotent create")
		w.replace("connectors.yaml", "{name: reserve, kind: create}", "{name: reserve, kind: create, replays: true, key_window: 24h}")
		_, err = w.load()
		require.NoError(t, err)
	})

	for _, c := range []struct{ name, setting, says string }{
		{"AnAddress", "    base_url: https://x.example", "base_url is for kind http; this connector's kind is executor"},
		{"ACredential", "    bearer_env: TOKEN", "bearer_env is for kind http"},
		{"NoOperations", "    operations: []", "it must list at least one operation"},
		{"ALookup", "    operations: [{name: a, kind: create, lookup: {path: /a, external_id: /id}}]", "lookup is for kind http"},
		{"AMethod", "    operations: [{name: a, kind: create, method: POST}]", "method is for kind http"},
		{"ReplayForNobodyKnowsHowLong", "    operations: [{name: a, kind: create, replays: true}]",
			"replays needs key_window: how long the executor remembers an operation id"},
		{"AnUnknownSetting", "    operations: [{name: a, kind: create, retries: 3}]", "retries is not a known setting here"},
	} {
		t.Run(c.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			head := "connectors:\n  - id: depot\n    kind: executor\n" + c.setting + "\n"
			if c.name == "AnAddress" || c.name == "ACredential" {
				head += "    operations: [{name: a, kind: create}]\n"
			}
			w.replace("connectors.yaml", "connectors:\n", head)
			_, err := w.load()
			require.ErrorContains(t, err, c.says)
		})
	}

	t.Run("TimeForLeaveIsRefusedWhereNobodyAsksIt", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "timeout: 10s", "timeout: 10s\n    leave_within: 5s")
		_, err := w.load()
		require.ErrorContains(t, err, "leave_within is for kind executor; this connector's kind is http")
		w.replace("connectors.yaml", "leave_within: 5s", "kind: grpc")
		_, err = w.load()
		require.ErrorContains(t, err, `kind is "grpc", allowed: http, executor, smtp`)
	})
}
