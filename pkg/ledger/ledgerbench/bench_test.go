package ledgerbench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgerbench"
	"github.com/holdpoint/holdpoint/pkg/postgres/postgrestest"
)

// BenchmarkFlow reports each flow's rate for each number of connections. It measures the throwaway server, which does not
// sync, unless HOLDPOINT_TEST_POSTGRES_URL names a durable one.
func BenchmarkFlow(b *testing.B) {
	db := postgrestest.New(b)
	for _, review := range []bool{false, true} {
		for _, connections := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/Connections%d", map[bool]string{false: "Auto", true: "Review"}[review], connections), func(b *testing.B) {
				var rate float64
				for b.Loop() {
					result, err := ledgerbench.Measure(b.Context(), db.URL,
						ledgerbench.Options{Connections: []int{connections}, Duration: 5 * time.Second, Review: review})
					require.NoError(b, err)
					rate = result.RunsPerSecond
				}
				b.ReportMetric(rate, "runs/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
