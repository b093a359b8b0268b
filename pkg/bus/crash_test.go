//go:build holdpoint_crash

package bus_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/bus/bustest"
)

// victimEnv turns this test binary into a process that publishes ten messages to the broker at the given address and
// consumes them in one batch.
const victimEnv = "HOLDPOINT_TEST_VICTIM"

func TestMain(m *testing.M) {
	if url := os.Getenv(victimEnv); url != "" {
		victim(url)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func victim(url string) {
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := bus.Connect(ctx, bus.ConnectConfig{URL: url})
	if err != nil {
		panic(err)
	}
	messages := numbered(0, 10)
	for i := range messages {
		messages[i].Key = fmt.Sprint("run-", i)
	}
	conn.NewPublisher("victim").PublishBatch(ctx, messages)
	cfg := policy(func(_ context.Context, items []bus.Item) []bus.Verdict {
		cancel()
		return ackAll(items)
	})
	cfg.Service = "victim"
	cfg.Keys = func(item bus.Item) []string { return []string{"run-" + string(item.Data)} }
	if err := bus.Consume(ctx, conn, cfg); err != nil {
		panic(err)
	}
}

func TestCrashesAtTheBoundariesOfTheBus(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		spec      string
		unsettled int
	}{
		"BeforePublishNothingIsStored":  {"victim/publish@before?key=run-3", 0},
		"AfterPublishEverythingIs":      {"victim/publish@after?key=run-3", 10},
		"BeforeAckEverythingComesAgain": {"victim/ack@before?key=run-7", 10},
		"AfterAckNothingDoes":           {"victim/ack@after?key=run-7", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			_, js := raw(t, b)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), victimEnv+"="+b.URL(), "HOLDPOINT_CRASH="+c.spec)
			output, err := cmd.CombinedOutput()
			require.Error(t, err, string(output))
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, status.Signaled() && status.Signal() == syscall.SIGKILL, "%v: %s", err, output)
			requireUnsettled(t, js, c.unsettled)
		})
	}
}
