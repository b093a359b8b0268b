package demoidp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShelf(t *testing.T) {
	t.Parallel()
	setup := func() (*shelf[int], *time.Time) {
		now := time.Unix(1000, 0)
		return newShelf[int](time.Minute, 3, func() time.Time { return now }), &now
	}

	t.Run("ValueLivesForItsLifetime", func(t *testing.T) {
		t.Parallel()
		s, now := setup()
		s.put("a", 1)
		*now = now.Add(59 * time.Second)
		v, ok := s.get("a")
		require.True(t, ok)
		require.Equal(t, 1, v)
		*now = now.Add(time.Second)
		_, ok = s.get("a")
		require.False(t, ok)
		require.Empty(t, s.values)
		require.Empty(t, s.queue)
	})

	t.Run("OldestMakesRoom", func(t *testing.T) {
		t.Parallel()
		s, _ := setup()
		for _, id := range []string{"a", "b", "c", "d"} {
			s.put(id, 1)
		}
		_, ok := s.get("a")
		require.False(t, ok)
		require.Len(t, s.values, 3)
		require.Len(t, s.queue, 3)
	})

	t.Run("TakenOnceIsGone", func(t *testing.T) {
		t.Parallel()
		s, _ := setup()
		s.put("a", 1)
		_, ok := s.take("a")
		require.True(t, ok)
		_, ok = s.take("a")
		require.False(t, ok)
		require.False(t, s.update("a", func(v *int) { *v = 2 }))
		_, ok = s.get("a")
		require.False(t, ok)
	})

	t.Run("UpdateChangesWhatIsThere", func(t *testing.T) {
		t.Parallel()
		s, _ := setup()
		s.put("a", 1)
		s.put("b", 1)
		require.True(t, s.update("a", func(v *int) { *v = 2 }))
		s.removeIf(func(v int) bool { return v == 1 })
		v, _ := s.get("a")
		require.Equal(t, 2, v)
		_, ok := s.get("b")
		require.False(t, ok)
	})
}
