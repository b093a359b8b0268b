package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	drain := func(q *queue) []int {
		var all []int
		for n, ok := q.take(); ok; n, ok = q.take() {
			all = append(all, n)
		}
		return all
	}

	t.Run("OneDoorCarriesEveryDeliveryInOrder", func(t *testing.T) {
		t.Parallel()
		p := plan{keys: 3, copies: 2}
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, drain(p.sole()))
	})

	t.Run("TwoDoorsShareEveryDeliveryAndEveryKey", func(t *testing.T) {
		t.Parallel()
		for keys := 1; keys <= 6; keys++ {
			for copies := 1; copies <= 5; copies++ {
				p := plan{keys: keys, copies: copies}
				carried := make([]int, p.total())
				perKey := [2]map[int]int{{}, {}}
				for door, q := range p.halves() {
					for _, n := range drain(q) {
						carried[n]++
						perKey[door][p.key(n)]++
					}
				}
				for n, times := range carried {
					require.Equal(t, 1, times, "delivery %d of %d × %d", n, keys, copies)
				}
				for key := range keys {
					difference := perKey[0][key] - perKey[1][key]
					require.LessOrEqual(t, max(difference, -difference), 1, "key %d of %d × %d", key, keys, copies)
				}
			}
		}
	})

	t.Run("BothDoorsGetFirstCopies", func(t *testing.T) {
		t.Parallel()
		for copies := 1; copies <= 4; copies++ {
			p := plan{keys: 10, copies: copies}
			for door, q := range p.halves() {
				first := 0
				for _, n := range drain(q) {
					if n%copies == 0 {
						first++
					}
				}
				require.Equal(t, 5, first, "door %d with %d copies", door, copies)
			}
		}
	})

	t.Run("DueTimesDoNotDrift", func(t *testing.T) {
		t.Parallel()
		p := newPlan(&options{keys: 1, duplicates: 1, rate: 3000})
		require.Equal(t, time.Hour, p.offset(3000*3600).Round(time.Microsecond))
	})
}

func TestPace(t *testing.T) {
	t.Parallel()

	t.Run("LatencyOfALateDeliveryCountsFromWhenItWasDue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPlan(&options{keys: 100, duplicates: 1, rate: 10})
			start := time.Now()
			pace := newPace(&p, start)
			for n := range 5 { // the system stalls for 1 s in delivery 0, then answers at once
				due, ok := pace.await(t.Context(), n)
				require.True(t, ok)
				require.Equal(t, start.Add(time.Duration(n)*100*time.Millisecond), due)
				if n == 0 {
					time.Sleep(time.Second) // virtual time of the bubble
				}
				late := time.Since(due)
				require.Equal(t, time.Second-time.Duration(n)*100*time.Millisecond, late)
			}
			due, ok := pace.await(t.Context(), 20)
			require.True(t, ok)
			require.Equal(t, due, time.Now(), "a delivery is never early")
		})
	})

	t.Run("FlatOutNeverWaits", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPlan(&options{keys: 100, duplicates: 1})
			start := time.Now()
			pace := newPace(&p, start)
			for n := range 100 {
				due, ok := pace.await(t.Context(), n)
				require.True(t, ok)
				require.Equal(t, start, due)
			}
		})
	})

	t.Run("NothingStartsAfterTheDuration", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPlan(&options{keys: 100, duplicates: 1, rate: 10, duration: time.Second})
			pace := newPace(&p, time.Now())
			_, ok := pace.await(t.Context(), 9)
			require.True(t, ok)
			_, ok = pace.await(t.Context(), 10)
			require.False(t, ok)
		})
	})

	t.Run("EndedContextEndsTheWait", func(t *testing.T) {
		t.Parallel()
		p := newPlan(&options{keys: 100, duplicates: 1, rate: 0.001})
		pace := newPace(&p, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, ok := pace.await(ctx, 50)
		require.False(t, ok)
	})
}
