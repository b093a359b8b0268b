package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJournal(t *testing.T) {
	t.Parallel()

	type bundle struct {
		path string
		open func(t *testing.T) (*journal, []string, error)
	}
	setup := func(t *testing.T, lines ...string) bundle {
		t.Helper()
		path := filepath.Join(t.TempDir(), "writes.log")
		open := func(t *testing.T) (*journal, []string, error) {
			t.Helper()
			var seen []string
			j, err := openJournal(path, 0, func(line []byte) error {
				seen = append(seen, string(line))
				return nil
			})
			return j, seen, err
		}
		j, _, err := open(t)
		require.NoError(t, err)
		for _, line := range lines {
			commit, err := j.append([]byte(line))
			require.NoError(t, err)
			require.NoError(t, commit.wait())
		}
		require.NoError(t, j.close())
		return bundle{path: path, open: open}
	}
	mangle := func(t *testing.T, path string, change func([]byte) []byte) {
		t.Helper()
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, change(content), 0o600))
	}

	t.Run("ReopenedJournalReplaysEveryLineInOrder", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "a", "b", "c")
		j, seen, err := b.open(t)
		require.NoError(t, err)
		require.NoError(t, j.close())
		require.Equal(t, []string{"a", "b", "c"}, seen)
	})

	t.Run("EveryTornTailIsCutOffAndWritingGoesOn", func(t *testing.T) {
		t.Parallel()
		last := len(appendLine(nil, []byte("second")))
		for cut := 1; cut <= last; cut++ {
			b := setup(t, "first", "second")
			mangle(t, b.path, func(content []byte) []byte { return content[:len(content)-cut] })
			j, seen, err := b.open(t)
			require.NoError(t, err)
			require.Equal(t, []string{"first"}, seen, "after losing %d bytes", cut)
			commit, err := j.append([]byte("third"))
			require.NoError(t, err)
			require.NoError(t, commit.wait())
			require.NoError(t, j.close())
			j, seen, err = b.open(t)
			require.NoError(t, err)
			require.NoError(t, j.close())
			require.Equal(t, []string{"first", "third"}, seen)
		}
	})

	t.Run("TailOfZeroesIsCutOff", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "first")
		mangle(t, b.path, func(content []byte) []byte { return append(content, make([]byte, 512)...) })
		j, seen, err := b.open(t)
		require.NoError(t, err)
		require.NoError(t, j.close())
		require.Equal(t, []string{"first"}, seen)
	})

	t.Run("DamageBeforeIntactLinesIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "first", "second", "third")
		mangle(t, b.path, func(content []byte) []byte {
			content[len(content)/2] ^= 1
			return content
		})
		_, _, err := b.open(t)
		require.ErrorContains(t, err, "damaged at byte")
	})

	t.Run("SecondProcessIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "first")
		j, _, err := b.open(t)
		require.NoError(t, err)
		_, _, err = b.open(t)
		require.ErrorContains(t, err, "another sandbox uses it")
		require.NoError(t, j.close())
	})

	t.Run("ConcurrentAppendsShareCommitsAndAreAllKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		j, _, err := b.open(t)
		require.NoError(t, err)
		var group sync.WaitGroup
		commits := make([]*commit, 500)
		for i := range commits {
			group.Go(func() {
				commit, err := j.append([]byte(strconv.Itoa(i)))
				if err == nil && commit.wait() == nil {
					commits[i] = commit
				}
			})
		}
		group.Wait()
		distinct := map[*commit]bool{}
		for _, c := range commits {
			require.NotNil(t, c)
			distinct[c] = true
		}
		require.Less(t, len(distinct), len(commits))
		require.NoError(t, j.close())
		j, seen, err := b.open(t)
		require.NoError(t, err)
		require.NoError(t, j.close())
		require.Len(t, seen, len(commits))
	})

	t.Run("FailedDiskFailsTheCommitAndEverythingAfter", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		j, _, err := b.open(t)
		require.NoError(t, err)
		require.NoError(t, j.file.Close())
		commit, err := j.append([]byte("lost"))
		require.NoError(t, err)
		require.ErrorIs(t, commit.wait(), os.ErrClosed)
		_, err = j.append([]byte("refused"))
		require.ErrorContains(t, err, "cannot be written")
		require.Error(t, j.close())
	})

	t.Run("ClosedJournalTakesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		j, _, err := b.open(t)
		require.NoError(t, err)
		require.NoError(t, j.close())
		require.NoError(t, j.close())
		_, err = j.append([]byte("late"))
		require.ErrorIs(t, err, errJournalClosed)
	})
}
