package ledgerbench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	for _, review := range []bool{false, true} {
		t.Run(fmt.Sprintf("RunsEndAndLeaveNothingInTheOutbox_Review%t", review), func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			f, err := openFlow(t.Context(), db.URL, 1, review)
			require.NoError(t, err)
			defer f.close()
			require.NoError(t, f.batch(t.Context(), 8))
			count := func(query string) (n int) {
				require.NoError(t, f.pool.QueryRow(t.Context(), query).Scan(&n))
				return n
			}
			require.Equal(t, 8, count(`select count(*) from runs where state = 'completed'`))
			require.Zero(t, count(`select count(*) from pending`))
			require.Equal(t, 8*f.eventsPerRun(), count(`select count(*) from event_log`))
			require.Equal(t, map[bool]int{false: 0, true: 8}[review], count(`select count(*) from approvals where state = 'approved'`))
		})
	}
}
