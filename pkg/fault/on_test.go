//go:build holdpoint_crash

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// victimEnv turns this test binary into a process that crosses one boundary for the runs a, b and a again.
const victimEnv = "HOLDPOINT_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim(os.Getenv(victimEnv))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func victim(mode string) {
	site := fault.NewSite("victim", "ack", fault.KindAck)
	flush := func(context.Context) error {
		if mode == "stuck" {
			return errors.New("no connection")
		}
		fmt.Println("flushed")
		return nil
	}
	for _, key := range []string{"a", "b", "a"} {
		site.Before(context.Background(), key)
		fmt.Println("crossed", key)
		site.AfterFlush(context.Background(), flush, key, "other")
	}
	fmt.Println("ended")
}

func TestCrashBuild(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(t *testing.T, env ...string) (output, complaint string, status syscall.WaitStatus) {
		t.Helper()
		cmd := exec.Command(self)
		cmd.Env = append(append(os.Environ(), victimEnv+"=1"), env...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil {
			require.ErrorAs(t, err, &exit)
		}
		return strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " "), stderr.String(),
			cmd.ProcessState.Sys().(syscall.WaitStatus)
	}

	for name, c := range map[string]struct{ spec, want string }{
		"BeforeTheFirst":              {"victim/ack@before", ""},
		"AfterTheFirstFlushesFirst":   {"victim/ack@after", "crossed a flushed"},
		"BeforeTheSecondTime":         {"victim/ack@before#2", "crossed a"},
		"BeforeTheRun":                {"victim/ack@before?key=b", "crossed a"},
		"BeforeTheSecondTimeOfTheRun": {"victim/ack@before#2?key=a", "crossed a crossed b"},
		"AfterAnyRunOfTheBatch":       {"victim/ack@after#3?key=other", "crossed a crossed b crossed a flushed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, complaint, status := run(t, "HOLDPOINT_CRASH="+c.spec)
			require.True(t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%v %s", status, complaint)
			require.Equal(t, c.want, output)
			require.Contains(t, complaint, "SIGKILL at victim/ack@")
		})
	}

	t.Run("PlaceThatIsNotReachedEndsWell", func(t *testing.T) {
		t.Parallel()
		output, _, status := run(t, "HOLDPOINT_CRASH=victim/ack@before#4")
		require.Zero(t, status.ExitStatus())
		require.True(t, strings.HasSuffix(output, "ended"))
	})

	t.Run("ReachedMarksAreRecordedOnceByEachProcess", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "reached")
		run(t, "HOLDPOINT_CRASH_REACHED="+file)
		run(t, "HOLDPOINT_CRASH_REACHED="+file, "HOLDPOINT_CRASH=victim/ack@before")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "victim/ack@before\nvictim/ack@after\nvictim/ack@before\n", string(content))
	})

	t.Run("MidAsksTheHarnessOnceAndGoesOn", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 10)
		harness := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked <- r.Method + " " + string(body)
		}))
		defer harness.Close()
		output, _, status := run(t, "HOLDPOINT_CRASH=victim/ack@mid#2", "HOLDPOINT_CRASH_CONTROL="+harness.URL)
		require.Zero(t, status.ExitStatus())
		require.True(t, strings.HasSuffix(output, "ended"))
		require.Equal(t, "POST victim/ack@mid#2", <-asked)
		require.Empty(t, asked)
	})

	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"MalformedSpec":     {[]string{"HOLDPOINT_CRASH=victim"}, "service/site@before|after|mid"},
		"MidWithoutControl": {[]string{"HOLDPOINT_CRASH=victim/ack@mid"}, "needs HOLDPOINT_CRASH_CONTROL"},
		"UnreachableHarness": {
			[]string{"HOLDPOINT_CRASH=victim/ack@mid", "HOLDPOINT_CRASH_CONTROL=http://127.0.0.1:1"}, "refused",
		},
		"FlushThatFails":      {[]string{"HOLDPOINT_CRASH=victim/ack@after", victimEnv + "=stuck"}, "no connection"},
		"UnwritableReachList": {[]string{"HOLDPOINT_CRASH_REACHED=/nowhere/x"}, "HOLDPOINT_CRASH_REACHED"},
	} {
		t.Run(name+"IsAFaultOfTheHarness", func(t *testing.T) {
			t.Parallel()
			_, complaint, status := run(t, c.env...)
			require.Equal(t, 97, status.ExitStatus())
			require.Contains(t, complaint, c.want)
		})
	}
}
