package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/loadtest/sandbox/sandboxtest"
)

// TestMain lets the test binary be the sandbox's own process, which a test can then kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SANDBOX_TEST_DIR"); dir != "" {
		err := sandbox.Run(context.Background(), sandbox.Config{DataDir: dir, ReadyFile: filepath.Join(dir, "ready.json")})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestRestart(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))

	t.Run("EverythingIsAsBefore", func(t *testing.T) {
		t.Parallel()
		cfg := sandbox.Config{DataDir: t.TempDir(), Logger: quiet}
		client, stop := sandboxtest.Start(t, cfg)
		w := world{Client: client, t: t, http: caller()}
		refund := w.refund("Idempotency-Key", "k-1")
		w.patch("c-1", "1", "op-2", "Idempotency-Key", "k-2")
		w.must(http.MethodPost, "/crm/contacts", `{"external_id":"x-1","reference":"op-3"}`)
		w.fault(onWrites(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: 500, Sticky: true}))
		w.refund("Idempotency-Key", "k-4")
		before := w.written(4)
		summary, err := w.Summary(t.Context())
		require.NoError(t, err)
		stop()

		client, stop = sandboxtest.Start(t, cfg)
		t.Cleanup(stop)
		w = world{Client: client, t: t, http: caller()}
		require.Equal(t, before, w.written(4))
		after, err := w.Summary(t.Context())
		require.NoError(t, err)
		require.Equal(t, summary, after)
		require.Equal(t, refund.body, w.refund("Idempotency-Key", "k-1").body)
		require.Equal(t, "2", w.patch("c-1", "1", "op-2", "Idempotency-Key", "k-2").body["version"])
		require.Equal(t, http.StatusConflict, w.must(http.MethodPost, "/crm/contacts", `{"external_id":"x-1"}`).status)
		require.Equal(t, 500, w.refund("Idempotency-Key", "k-4").status)
		w.written(4)
		require.Equal(t, "re_5", w.refund().body["id"], "ids go on where they were")
	})

	t.Run("UnusedConnectionDoesNotHoldUpTheStop", func(t *testing.T) {
		t.Parallel()
		client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: t.TempDir(), Logger: quiet})
		conn, err := net.Dial("tcp", strings.TrimPrefix(client.URL(), "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, client.Healthy(t.Context())) // accepted later, so the first one is accepted too
		stop()
	})

	t.Run("LedgerWithAGapIsRefused", func(t *testing.T) {
		t.Parallel()
		cfg := sandbox.Config{DataDir: t.TempDir(), Logger: quiet}
		client, stop := sandboxtest.Start(t, cfg)
		w := world{Client: client, t: t, http: caller()}
		w.refund()
		w.refund()
		stop()
		path := filepath.Join(cfg.DataDir, "writes.log")
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		_, second, _ := strings.Cut(string(content), "\n")
		require.NoError(t, os.WriteFile(path, []byte(second), 0o600))
		_, err = sandbox.New(cfg)
		require.ErrorContains(t, err, "holds write 2 where 1 is due")
	})
}

// ownProcess runs a sandbox on the directory in a process of its own.
func ownProcess(t *testing.T, dir string) (w world, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_DIR="+dir)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })

	var ready struct {
		URL  string `json:"url"`
		SMTP string `json:"smtp"`
		PID  int    `json:"pid"`
	}
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		return err == nil && json.Unmarshal(content, &ready) == nil
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, cmd.Process.Pid, ready.PID)
	w = world{Client: sandbox.NewClient(ready.URL), t: t, http: caller()}
	addr, err := w.SMTPAddr(t.Context())
	require.NoError(t, err)
	require.Equal(t, ready.SMTP, addr)
	return w, cmd
}

func TestKilledProcessKeepsEveryAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, cmd := ownProcess(t, dir)
	var mu sync.Mutex
	var acknowledged []string
	enough := make(chan struct{})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				reference := fmt.Sprintf("op-%d-%d", i, n)
				got, err := w.do(t.Context(), http.MethodPost, "/payments/refunds",
					`{"amount":"1","currency":"EUR","payment_id":"p"}`, "X-Operation-Id", reference)
				if err != nil || got.status != http.StatusCreated {
					return // the process is dead
				}
				mu.Lock()
				acknowledged = append(acknowledged, reference)
				if len(acknowledged) == 200 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	stopped := make(chan struct{})
	go func() { group.Wait(); close(stopped) }()
	select {
	case <-enough:
	case <-stopped:
		t.Fatal("the sandbox stopped answering by itself")
	}
	require.NoError(t, cmd.Process.Kill())
	<-stopped
	require.Error(t, cmd.Wait())

	client, stop := sandboxtest.Start(t, sandbox.Config{DataDir: dir})
	t.Cleanup(stop)
	check, err := client.Check(t.Context(), acknowledged)
	require.NoError(t, err)
	require.GreaterOrEqual(t, check.References, 200)
	require.Empty(t, check.MissingReferences)
	require.Empty(t, check.Duplicates)
}
