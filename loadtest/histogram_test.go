package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	t.Parallel()

	t.Run("EveryDurationLiesInItsBucket", func(t *testing.T) {
		t.Parallel()
		for _, us := range []int64{0, 1, 63, 64, 65, 127, 128, 1000, 12_345, 999_999, 1 << 30} {
			d := time.Duration(us) * time.Microsecond
			i := bucket(d)
			require.Less(t, d, upper(i), "%s", d)
			if i > 0 {
				require.GreaterOrEqual(t, d, upper(i-1), "%s", d)
			}
			require.InEpsilon(t, float64(us+1), float64(upper(i).Microseconds()), 0.017, "%s", d)
		}
	})

	t.Run("ExtremesAreKept", func(t *testing.T) {
		t.Parallel()
		h := &histogram{}
		h.add(-time.Second)
		h.add(100 * time.Hour)
		require.Equal(t, time.Microsecond, h.quantile(0))
		require.Greater(t, h.quantile(1), 35*time.Minute)
	})

	t.Run("QuantilesAgreeWithSorting", func(t *testing.T) {
		t.Parallel()
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		one, two := &histogram{}, &histogram{}
		var all []time.Duration
		for i := range 20_000 {
			d := time.Duration(random.ExpFloat64()*5000+1) * time.Microsecond
			all = append(all, d)
			if i%3 == 0 {
				one.add(d)
			} else {
				two.add(d)
			}
		}
		one.merge(two)
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			exact := all[max(0, int(q*float64(len(all))+0.5)-1)]
			require.GreaterOrEqual(t, one.quantile(q), exact, "q %g, seed %d", q, seed)
			require.LessOrEqual(t, one.quantile(q), exact+exact/60+time.Microsecond, "q %g, seed %d", q, seed)
		}
	})

	t.Run("EmptyHistogramSaysZero", func(t *testing.T) {
		t.Parallel()
		require.Zero(t, (&histogram{}).quantile(0.99))
	})
}
