package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

func TestActivateRules(t *testing.T) { // K15
	t.Parallel()
	b := ledgertest.New(t)
	for _, step := range []struct {
		source  string
		version int
		changed bool
		refused bool
	}{
		{"new", 3, false, false}, // the first version of a source: nobody can run an older one
		{"new", 3, false, false},
		{"new", 5, true, false},
		{"new", 5, false, false},
		{"new", 4, false, true},
		{"another", 1, false, false},
	} {
		changed, err := b.Intake.ActivateRules(t.Context(), ledgertest.Tenant, step.source, step.version)
		if step.refused {
			require.ErrorContains(t, err, "version 5 is active")
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, step.changed, changed, "%+v", step)
	}
	require.Equal(t, 5, b.Count(`select version from source_rules where source = 'new'`))
}
