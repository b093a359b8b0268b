package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	t.Parallel()

	t.Run("KeyCountFollowsFromRateAndDuration", func(t *testing.T) {
		t.Parallel()
		for want, args := range map[int][]string{
			1000:    {},
			7:       {"--keys", "7", "--rate", "100", "--duration", "1h"},
			1500:    {"--rate", "300", "--duration", "10s", "--duplicates", "2"},
			250_000: {"--duration", "10s", "--duplicates", "2"},
			1:       {"--rate", "0.1", "--duration", "1s"},
		} {
			o, err := parseFlags(append([]string{"--ready-file", "r.json"}, args...))
			require.NoError(t, err)
			require.Equal(t, want, o.keys, "%v", args)
		}
	})

	t.Run("EveryMistakeIsNamed", func(t *testing.T) {
		t.Parallel()
		_, err := parseFlags([]string{
			"--door", "window", "--duplicates", "0", "--rate", "-1", "--settle", "0s", "--flow", "manual",
		})
		for _, want := range []string{
			"--ready-file", `--door "window"`, "--duplicates", "--rate -1", "--settle", `--flow "manual"`,
		} {
			require.ErrorContains(t, err, want)
		}
	})

	t.Run("ReviewFlowHasDecidersAndAShareToReject", func(t *testing.T) {
		t.Parallel()
		o, err := parseFlags([]string{"--ready-file", "r.json", "--flow", "review", "--reject-share", "0.1"})
		require.NoError(t, err)
		require.Equal(t, 16, o.deciders)
		require.InDelta(t, 0.1, o.rejectShare, 1e-9)
		_, err = parseFlags([]string{"--flow", "review", "--reject-share", "1.1", "--deciders", "0"})
		require.ErrorContains(t, err, "--reject-share 1.1")
		require.ErrorContains(t, err, "--deciders 0")
	})

	t.Run("NothingIsRejectedWhereNobodyDecides", func(t *testing.T) {
		t.Parallel()
		_, err := parseFlags([]string{"--ready-file", "r.json", "--reject-share", "0.1"})
		require.ErrorContains(t, err, "--reject-share is for --flow review")
	})

	t.Run("ReadyFileMustNameWhatTheDriverNeeds", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "ready.json")
		_, err := readReady(path)
		require.ErrorContains(t, err, "is `holdpoint up` running?")
		require.NoError(t, os.WriteFile(path, []byte(`{"intake_url":"http://x","people":[{"name":"Ada"}]}`), 0o600))
		_, err = readReady(path)
		for _, want := range []string{"nats_url", "sandbox_url", "api_key"} {
			require.ErrorContains(t, err, want)
		}
		require.NotContains(t, err.Error(), "intake_url")
	})
}
