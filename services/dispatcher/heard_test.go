package dispatcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// TestHeard is D17 at the dispatcher: nothing is sent before the bus was asked how far the database had come, nor out of a database that
// has not come so far.
func TestHeard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Authorize(b.Contact("k"))

	b.heard.asked.Store(false)
	b.request()
	require.Equal(t, ledger.EffectPending, b.Look("k").State, "the bus was not asked")

	b.heard.hear(1)
	b.heard.hear(0) // a bus that has lost its marks takes none back
	b.DueNow()
	_, err := b.poll(t.Context())
	require.NoError(t, err)
	b.inFlight.Wait()
	require.Equal(t, ledger.EffectPending, b.Look("k").State, "the database does not have the mark")
	require.Empty(t, b.Writes("k"))

	b.Exec(`update database_mark set seq = 1`)
	b.DueNow()
	_, err = b.poll(t.Context())
	require.NoError(t, err)
	b.inFlight.Wait()
	require.Len(t, b.Writes("k"), 1)
}
