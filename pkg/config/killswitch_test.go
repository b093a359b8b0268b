package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestKillSwitch(t *testing.T) { // D9, O8
	t.Parallel()
	const written = "kill_switch: {roles: [support-lead]}\n"
	read := func(t *testing.T, text string) *config.Tenant {
		t.Helper()
		w := newWorld(t)
		w.replace("tenant.yaml", written, text)
		loaded, err := w.load()
		require.NoError(t, err)
		return loaded.Tenants[0]
	}

	t.Run("OperatorsAlwaysMayAndWhoeverIsNamed", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"operator", "support-lead"}, read(t, written).KillSwitch.By())
		require.Equal(t, []string{"operator"}, read(t, "").KillSwitch.By())
	})

	t.Run("ItIsNoPartOfThePolicy", func(t *testing.T) {
		t.Parallel()
		files, other := read(t, written), read(t, "")
		require.Equal(t, files.PolicyVersion, other.PolicyVersion)
		joined, err := files.WithPolicy(other.PolicyVersion, other.PolicyContent)
		require.NoError(t, err)
		require.Equal(t, []string{"operator", "support-lead"}, joined.KillSwitch.By(), "the files say who stops")
	})

	requireRefusals(t, []refusal{
		{"ARoleThatIsNone", "tenant.yaml", written, "kill_switch: {roles: [boss]}\n", `roles has "boss", but nobody can hold the role`},
		{"NoRoles", "tenant.yaml", written, "kill_switch: {roles: []}\n", "must list at least one role"},
		{"AnUnknownSetting", "tenant.yaml", written, "kill_switch: {roles: [support-lead], quietly: true}\n",
			"quietly is not a known setting here, allowed: roles"},
	})
}
