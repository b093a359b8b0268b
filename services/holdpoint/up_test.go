package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// TestUp is one life of a data directory, in order: the cases stand on each other.
func TestUp(t *testing.T) {
	t.Parallel()
	data := passableDir(t)
	life := t // ends what a case leaves running
	up, r := startUp(life, data)
	step := func(name string, check func(*testing.T)) {
		if !t.Run(name, check) {
			t.FailNow()
		}
	}
	parts := []string{r.IntakeURL, r.NATSURL, r.DatabaseURL, r.SandboxURL, r.OpsURL, r.ApprovalURL, r.OIDCIssuer, r.WebhookURL}

	step("StatusLinksLeadToThePortThatIsReallyTaken", func(t *testing.T) {
		answer := publish(t, r, "first")
		require.True(t, strings.HasPrefix(answer.StatusURL, r.IntakeURL+"/v1/runs/"), answer.StatusURL)
	})

	step("ASecondOneOnTheSameDataIsRefusedAtOnce", func(t *testing.T) {
		second := run(t, nil, "up", "--data", data)
		require.Equal(t, 1, second.wait(t))
		whose := fmt.Sprintf("another `holdpoint up` (process %d) runs in %s", up.cmd.Process.Pid, data)
		require.Contains(t, second.err.String(), whose)
	})

	step("ASecondOneOnTheSamePortsIsToldAllOfThem", func(t *testing.T) {
		other := t.TempDir()
		second := run(t, nil, slices.Concat([]string{"up", "--data", other}, freePorts,
			[]string{"--intake-port", port(t, r.IntakeURL), "--postgres-port", port(t, r.DatabaseURL)})...)
		require.Equal(t, 1, second.wait(t))
		require.Contains(t, second.err.String(), "port "+port(t, r.IntakeURL)+" is taken")
		require.Contains(t, second.err.String(), "--intake-port")
		require.Contains(t, second.err.String(), "--postgres-port")
		require.NoDirExists(t, filepath.Join(other, "postgres"), "nothing was started")
	})

	var explain string
	step("CtrlCEndsItCleanlyAndAllThatItStarted", func(t *testing.T) {
		require.Equal(t, 0, up.stop(t, syscall.SIGINT))
		for _, part := range parts {
			require.False(t, answers(t, part), part)
		}
		require.NoFileExists(t, readyFileIn(data))
		require.Empty(t, up.err.String(), "what is as it should be is not worth a line")
		explain = regexp.MustCompile(`(?m)^  (.* explain first .*)$`).FindStringSubmatch(up.out.String())[1]
		require.True(t, strings.HasSuffix(explain, " --tenant demo --data "+data), explain)
	})

	step("KeepsItsStateAndPrintsALineThatAsksForIt", func(t *testing.T) {
		up, r = startUp(life, data)
		done := func() bool { return strings.Contains(paste(t, explain), "completed, executed") }
		require.Eventually(t, done, patience, 50*time.Millisecond)
	})

	step("KilledItStartsAgainAtOnceOnTheSamePorts", func(t *testing.T) {
		require.Equal(t, -1, up.stop(t, syscall.SIGKILL))
		var again ready
		up, again = startUp(life, data,
			"--postgres-port", port(t, r.DatabaseURL), "--sandbox-port", port(t, r.SandboxURL))
		require.Equal(t, r.DatabaseURL, again.DatabaseURL)
		require.Equal(t, r.SandboxURL, again.SandboxURL)
		require.Contains(t, paste(t, explain), "completed, executed")
	})

	step("KilledItLeavesNobodyBehind", func(t *testing.T) {
		require.Equal(t, -1, up.stop(t, syscall.SIGKILL))
		for _, part := range []string{r.DatabaseURL, r.SandboxURL} {
			require.Eventually(t, func() bool { return !answers(t, part) }, patience, 20*time.Millisecond, part)
		}
	})
}

func TestUpInterruptedWhileItStarts(t *testing.T) {
	t.Parallel()
	data := passableDir(t)
	up := run(t, nil, slices.Concat([]string{"up", "--data", data}, freePorts)...)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(lockFileIn(data))
		return err == nil && len(text) > 0
	}, patience, time.Millisecond)
	require.Equal(t, 0, up.stop(t, syscall.SIGINT), up.err.String())
	guard, err := lockData(data)
	require.NoError(t, err)
	require.False(t, guard.killed, "it came to its end")
	require.NoError(t, guard.release())
}

// publish sends the event that `up` suggests.
func publish(t *testing.T, r ready, key string) contracts.Answer {
	t.Helper()
	url := r.IntakeURL + "/v1/sources/crm-enrichment/events"
	event := strings.NewReader(demoEvent("c-1001"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, event)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+r.APIKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	var answer contracts.Answer
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	return answer
}

// paste runs a line in a shell, as somebody who copied it does.
func paste(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = programEnv()
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, output)
	return string(output)
}

func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Port()
}
