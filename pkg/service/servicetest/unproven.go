package servicetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/config/configtest"
)

// Unproven has the operations as the loader makes them of the example's files, where checks.yaml has none of these capabilities as
// proved (D13). It comes before what changes operations otherwise.
func Unproven(t testing.TB, capabilities ...string) func(*config.Tenant) {
	t.Helper()
	none := func(string) (string, bool) { return "", false }
	files, err := configtest.Without(deploy.Example(), none, capabilities...)
	require.NoError(t, err)
	loaded, err := config.LoadEnv(files, none)
	require.NoError(t, err)
	return func(tenant *config.Tenant) {
		for _, c := range tenant.Connectors {
			for _, op := range c.Operations {
				made := loaded.Tenants[0].Operation(c.ID, op.Name)
				if made == nil {
					continue
				}
				op.Replays, op.Conditional, op.Standing = made.Replays, made.Conditional, made.Standing
				if made.Lookup == nil {
					op.Lookup = nil
				} else if !made.Lookup.Conclusive {
					op.Lookup.Conclusive = false
				}
				require.False(t, slices.ContainsFunc(made.Standing.Claims, func(c config.Claim) bool {
					return c.Counts() && slices.Contains(capabilities, c.Capability)
				}))
			}
		}
	}
}
