package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefreshAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range Classes() {
		require.Equal(t, c == Unauthorized, RefreshAllowed(c, true, false, false), c)
	}
	require.False(t, RefreshAllowed(Unauthorized, false, false, false), "the next attempt would have the same credential")
	require.False(t, RefreshAllowed(Unauthorized, true, true, false), "once")
	require.False(t, RefreshAllowed(Unauthorized, true, false, true), "what was maybe sent stays unknown")
}
