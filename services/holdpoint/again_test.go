package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgain(t *testing.T) {
	t.Parallel()
	const built = "/tmp/go-build123/b001/exe/holdpoint"
	const cached = "/var/cache/03/03413d5c4eb433a5d587bdf8d25f2e249e04b6e8ebc651fc735c5ad6ce627a6b-d/holdpoint"
	top, err := filepath.Abs("../..")
	require.NoError(t, err)

	t.Run("IsGoRunForWhoeverUsedIt", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "go run ./services/holdpoint", again(built, built, top))
		require.Equal(t, "go run ./services/holdpoint", again(cached, cached, top))
	})

	t.Run("IsTheFullPathOfThePackageElsewhere", func(t *testing.T) {
		t.Parallel()
		words := strings.Fields(again(built, built, t.TempDir()))
		require.Equal(t, []string{"go", "run"}, words[:2])
		require.True(t, strings.HasPrefix(words[2], "github.com/holdpoint/holdpoint/services/holdpoint"), words[2])
	})

	t.Run("IsWhatWasTypedForAProgram", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "holdpoint", again("/usr/local/bin/holdpoint", "holdpoint", top))
		require.Equal(t, "./bin/holdpoint", again("/home/ann/bin/holdpoint", "./bin/holdpoint", top))
		require.Equal(t, "'/opt/my tools/holdpoint'", again("/opt/my tools/holdpoint", "/opt/my tools/holdpoint", top))
	})
}

func TestQuoted(t *testing.T) {
	t.Parallel()

	t.Run("LeavesPlainWordsAsTheyAre", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "/var/tmp/data-1", quoted("/var/tmp/data-1"))
	})

	t.Run("IsReadBackByAShell", func(t *testing.T) {
		t.Parallel()
		for _, word := range []string{"", "a b", "it's", `$HOME "x"`, "a;b", "ä", "x*y"} {
			output, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quoted(word)).Output()
			require.NoError(t, err)
			require.Equal(t, word, string(output))
		}
	})
}
