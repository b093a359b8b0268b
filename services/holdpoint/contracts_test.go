package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

func TestContractsCommand(t *testing.T) {
	t.Parallel()

	type testBundle struct {
		run func(args ...string) (string, error)
	}
	setup := func(t *testing.T) *testBundle {
		t.Helper()
		return &testBundle{func(args ...string) (string, error) {
			var out bytes.Buffer
			cmd := contractsCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetOut(&out)
			cmd.SetArgs(args)
			err := cmd.Execute()
			return out.String(), err
		}}
	}

	t.Run("ListsEveryNameAndPrintsEachOfThem", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		list, err := bundle.run("list")
		require.NoError(t, err)
		bare, err := bundle.run()
		require.NoError(t, err)
		require.Equal(t, list, bare)
		names := strings.Fields(list)
		require.Equal(t, contracts.Names(), names)
		for _, name := range names {
			printed, err := bundle.run(name)
			require.NoError(t, err)
			want, err := contracts.Text(name)
			require.NoError(t, err)
			require.Equal(t, string(want), printed)
		}
	})

	t.Run("AnUnknownNameSaysWhatThereIs", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		printed, err := bundle.run("answer.v9")
		require.ErrorContains(t, err, `no contract is called "answer.v9"; there are: openapi, asyncapi, answer.v1, `)
		require.Empty(t, printed)
	})

	t.Run("OneNameAtATime", func(t *testing.T) {
		t.Parallel()
		bundle := setup(t)
		_, err := bundle.run("openapi", "asyncapi")
		require.ErrorContains(t, err, "accepts at most 1 arg(s), received 2")
	})
}
