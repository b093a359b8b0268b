package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNATSConfigCommand(t *testing.T) {
	t.Parallel()

	// What is deployed is what the command prints, byte by byte: nobody edits rights by hand.
	t.Run("TheDeployedFileIsWhatItPrintsForTheExample", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.NoError(t, printNATSConfig(&out, filepath.Join(deployed, "config/example")))
		have, err := os.ReadFile(filepath.Join(deployed, "nats/authorization.conf"))
		require.NoError(t, err)
		require.Equal(t, out.String(), string(have), "run: HOLDPOINT_CONFIG_DIR=deploy/config/example "+
			"go run ./services/holdpoint nats-config >deploy/nats/authorization.conf")
	})

	t.Run("ADirectoryWithoutTenantsPrintsNothing", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		dir := t.TempDir()
		require.ErrorContains(t, printNATSConfig(&out, dir), dir)
		require.Empty(t, out.String())
	})

	t.Run("ItIsAVerbOfTheProgram", func(t *testing.T) {
		t.Parallel()
		p := run(t, []string{"HOLDPOINT_CONFIG_DIR=" + filepath.Join(deployed, "config/example")}, "nats-config")
		<-p.ended
		require.Zero(t, p.cmd.ProcessState.ExitCode(), p.err.String())
		require.Contains(t, p.out.String(), `user: "demo"`)
	})
}
