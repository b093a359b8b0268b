package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/services/holdpoint/world"
)

// TestRestoreFromABackup puts the database back while all services run (D17). What was sent after the backup is not sent again, whether
// the backup has its row or not.
func TestRestoreFromABackup(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	before := w.Update()
	w.Post(before)
	w.Await(before, contracts.StateCompleted)
	w.Stop(ledger.Dispatcher)
	waiting := w.Update()
	w.Post(waiting)
	w.Await(waiting, contracts.StateApproved)
	w.Until("the bus to have heard of the database", func() bool { return w.Count(`select seq from database_mark`) > 0 })
	restore := w.DB.Backup()
	marked := w.Count(`select seq from database_mark`)

	w.Start(ledger.Dispatcher)
	w.Await(waiting, contracts.StateCompleted)
	after := w.Update()
	w.Post(after)
	w.Await(after, contracts.StateCompleted)
	w.Until("the bus to have heard of more", func() bool { return w.Count(`select seq from database_mark`) > marked+1 })

	restore()
	w.Until("the restore to be found out", func() bool { return w.Count(`select count(*) from restores where detected_by = 'relay'`) == 1 })
	w.Await(waiting, contracts.StateCompleted)
	require.Len(t, w.Writes(waiting), 1, "the backup had it as unsent")
	w.Post(after) // its sender delivers it again, and the backup knows nothing of it
	w.Await(after, contracts.StateCompleted)
	require.Len(t, w.Writes(after), 1, "the backup did not have it")
	later := w.Update()
	w.Post(later)
	w.Await(later, contracts.StateCompleted)
	require.Len(t, w.Writes(later), 1)

	for _, event := range []world.Event{waiting, after, later} {
		effect := w.Explain(event).Effects[0]
		verdict := effect.Lookups[len(effect.Lookups)-2].Verdict // the last one was of the target
		if event.Key == later.Key {
			require.Equal(t, "absent", verdict, "it was looked for before it was sent")
			require.Len(t, world.Calls(effect.Attempts), 1)
			continue
		}
		require.Equal(t, "found", verdict)
		require.Empty(t, effect.Attempts)
	}
	restores, err := w.Ledger.Restores(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, restores, 1)
	require.Equal(t, 3, restores[0].Done)
	require.Zero(t, restores[0].Unasked)
	require.NoError(t, w.Ledger.LiftRestore(t.Context(), restores[0].ID, "olga", "all is settled"))
	passBy(w)
	require.EqualValues(t, 3, w.Count(`select count(*) from effects where restore_id is not null`), "nothing is looked for first any more")
}
