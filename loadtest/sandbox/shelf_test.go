package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShelf(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, path string, weight int) *shelf[string] {
		t.Helper()
		s, err := openShelf(path, time.Microsecond, newNews(), func(*string) int { return weight })
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.journal.close()) })
		return s
	}
	setup := func(t *testing.T, weight int) (s *shelf[string], path string) {
		path = filepath.Join(t.TempDir(), "items.log")
		return open(t, path, weight), path
	}
	fill := func(t *testing.T, s *shelf[string], n int) {
		t.Helper()
		var last entry[string]
		for i := range n {
			var err error
			last, err = s.add("item " + strconv.Itoa(i+1))
			require.NoError(t, err)
		}
		require.NoError(t, last.commit.wait())
	}
	all := func(*string) bool { return true }

	t.Run("NewestItemsAreHeldAlsoAfterARestart", func(t *testing.T) {
		t.Parallel()
		s, path := setup(t, 1)
		fill(t, s, shelfItems+10)
		check := func(s *shelf[string]) {
			found, err := s.find(0, all)
			require.NoError(t, err)
			require.Len(t, found, shelfItems)
			require.Equal(t, "item 11", found[0].Item)
			require.EqualValues(t, shelfItems+10, found[shelfItems-1].ID)
			_, held, err := s.get(10)
			require.NoError(t, err)
			require.False(t, held)
			oldest, held, err := s.get(11)
			require.NoError(t, err)
			require.True(t, held)
			require.Equal(t, "item 11", oldest.Item)
		}
		check(s)
		require.NoError(t, s.journal.close())
		check(open(t, path, 1))
	})

	t.Run("LargeItemsAreHeldWithinTheBytes", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t, shelfBytes/4)
		fill(t, s, 10)
		found, err := s.find(0, all)
		require.NoError(t, err)
		require.Len(t, found, 4)
		require.Equal(t, shelfBytes, s.bytes)
	})

	t.Run("NewestItemIsHeldHoweverLarge", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t, shelfBytes+1)
		fill(t, s, 2)
		found, err := s.find(0, all)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "item 2", found[0].Item)
	})

	t.Run("ManyAtOnceGetIdsOfTheirOwn", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t, 1)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				item := strconv.Itoa(i)
				id, err := s.put(item)
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if e, held, err := s.get(id); err != nil || !held || e.Item != item {
					t.Errorf("item %s became %+v, %v, %v", item, e, held, err)
				}
			})
		}
		group.Wait()
		found, err := s.find(40, all)
		require.NoError(t, err)
		require.Len(t, found, 10)
	})

	t.Run("ClosedShelfTakesNothing", func(t *testing.T) {
		t.Parallel()
		s, _ := setup(t, 1)
		fill(t, s, 1)
		require.NoError(t, s.journal.close())
		_, err := s.put("late")
		require.ErrorIs(t, err, errJournalClosed)
		found, err := s.find(0, all)
		require.NoError(t, err)
		require.Len(t, found, 1)
	})

	t.Run("DiskThatFailsIsToldToEverybody", func(t *testing.T) {
		t.Parallel()
		s, err := openShelf(filepath.Join(t.TempDir(), "items.log"), 0, newNews(), func(*string) int { return 1 })
		require.NoError(t, err)
		require.NoError(t, s.healthy())
		require.NoError(t, s.journal.file.Close())
		_, err = s.put("lost")
		require.ErrorContains(t, err, "cannot be written")
		_, err = s.find(0, all)
		require.ErrorContains(t, err, "cannot be written")
		require.ErrorContains(t, s.healthy(), "cannot be written")
	})

	t.Run("JournalWithAGapIsRefused", func(t *testing.T) {
		t.Parallel()
		s, path := setup(t, 1)
		fill(t, s, 2)
		require.NoError(t, s.journal.close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		_, second, _ := strings.Cut(string(content), "\n")
		require.NoError(t, os.WriteFile(path, []byte(second), 0o600))
		_, err = openShelf(path, 0, newNews(), func(*string) int { return 1 })
		require.ErrorContains(t, err, "holds item 2 where 1 is due")
	})
}
