package outcome

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, declared config.Backoff, random float64) *Backoff {
		b, err := NewBackoff(BackoffConfig{Declared: declared, Random: func() float64 { return random }})
		require.NoError(t, err)
		return b
	}
	almost := math.Nextafter(1, 0)

	t.Run("TheTableInTheCommentIsTrue", func(t *testing.T) {
		t.Parallel()
		b := setup(t, config.Backoff{}, almost)
		atMost := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
		inAll := []int{1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111}
		var total time.Duration
		for i := range atMost {
			wait, ok := b.Next(i+1, total, 0)
			require.True(t, ok)
			total += wait
			require.InDelta(t, float64(atMost[i]), wait.Seconds(), 0.001)
			require.InDelta(t, float64(inAll[i]), total.Seconds(), 0.001)
		}
		_, ok := b.Next(12, total, 0)
		require.False(t, ok, "the twelfth failure is held")
	})

	t.Run("JitterIsFull", func(t *testing.T) {
		t.Parallel()
		wait, ok := setup(t, config.Backoff{}, 0).Next(5, 0, 0)
		require.True(t, ok)
		require.Zero(t, wait)
		wait, ok = setup(t, config.Backoff{}, 0.5).Next(5, 0, 0)
		require.True(t, ok)
		require.Equal(t, 8*time.Second, wait)
	})

	t.Run("TotalTimeEndsItBeforeAttemptsDo", func(t *testing.T) {
		t.Parallel()
		b := setup(t, config.Backoff{Base: time.Second, Total: 10 * time.Second}, 0.5)
		_, ok := b.Next(1, 9500*time.Millisecond, 0)
		require.True(t, ok)
		_, ok = b.Next(1, 9501*time.Millisecond, 0)
		require.False(t, ok, "the wait itself would go past the total")
	})

	t.Run("RetryAfterIsHonouredWithASpread", func(t *testing.T) {
		t.Parallel()
		wait, ok := setup(t, config.Backoff{Base: 2 * time.Second}, 0.5).Next(1, 0, 30*time.Second)
		require.True(t, ok)
		require.Equal(t, 31*time.Second, wait)
	})

	t.Run("RetryAfterIsCapped", func(t *testing.T) {
		t.Parallel()
		wait, ok := setup(t, config.Backoff{}, 0).Next(1, 0, 40*time.Minute)
		require.True(t, ok)
		require.Equal(t, DefaultMaxRetryAfter, wait)
	})

	t.Run("NoAttemptNumberOverflows", func(t *testing.T) {
		t.Parallel()
		declared := config.Backoff{Base: time.Hour, Cap: math.MaxInt64, Attempts: math.MaxInt, Total: math.MaxInt64}
		b := setup(t, declared, 0.5)
		for _, attempt := range []int{1, 20, 63, 64, 65, 1000} {
			wait, ok := b.Next(attempt, 0, 0)
			require.True(t, ok)
			require.Positive(t, wait)
		}
	})

	t.Run("RealRandomStaysInRange", func(t *testing.T) {
		t.Parallel()
		b, err := NewBackoff(BackoffConfig{})
		require.NoError(t, err)
		for range 100 {
			wait, ok := b.Next(2, 0, 0)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, time.Duration(0))
			require.Less(t, wait, 2*time.Second)
		}
	})

	t.Run("AllComplaintsAreJoined", func(t *testing.T) {
		t.Parallel()
		_, err := NewBackoff(BackoffConfig{
			Declared:      config.Backoff{Base: -1, Cap: -2, Attempts: -1, Total: -1},
			MaxRetryAfter: -1,
		})
		for _, part := range []string{"base", "cap", "attempts", "total", "Retry-After"} {
			require.ErrorContains(t, err, part)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"120":                           2 * time.Minute,
		" 1 ":                           time.Second,
		"Sun, 29 Nov 2026 10:05:00 GMT": 5 * time.Minute,
		"":                              0,
		"0":                             0,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"1795946400":                    0, // a Unix time instead of seconds
		"99999999999999999999":          0,
		"Sun, 29 Nov 2026 09:00:00 GMT": 0,
		"Sun, 29 Nov 2099 10:00:00 GMT": 0,
	} {
		require.Equal(t, want, RetryAfter(header, now), header)
	}
}
