package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is a mistake in one file of the example, and what the operator is told.
type refusal struct{ name, file, old, new, says string }

func requireRefusals(t *testing.T, cases []refusal) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.replace(tc.file, tc.old, tc.new)
			_, err := w.load()
			require.ErrorContains(t, err, tc.says)
			require.Contains(t, err.Error(), tc.file+":", "the place is named")
		})
	}
}
