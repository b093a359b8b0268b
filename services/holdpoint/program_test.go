package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asProgram makes this test binary the program itself, also where the program starts itself again as the sandbox.
const asProgram = "HOLDPOINT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for a process: initdb is slow on a busy machine.
const patience = time.Minute

// program is a running holdpoint.
type program struct {
	cmd      *exec.Cmd
	out, err *bytes.Buffer // read them when it has ended
	ended    chan struct{}
}

// run starts a command. What the test's own environment says to Holdpoint does not reach it.
func run(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{out: new(bytes.Buffer), err: new(bytes.Buffer), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(programEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.WaitDelay = 5 * time.Second // a child that outlives it must not keep its output open, and the test waiting
	require.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		<-p.ended
	})
	return p
}

func programEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDPOINT_") && !strings.HasPrefix(v, "AI_ACTIONS_ENABLED=") {
			env = append(env, v)
		}
	}
	return append(env, asProgram+"=1", "HOLDPOINT_POSTGRES_BIN="+os.Getenv("HOLDPOINT_POSTGRES_BIN"))
}

// wait is the exit code, when it has ended by itself.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		require.Fail(t, "the program did not end", p.cmd.Args)
		return -1
	}
}

// stop sends a signal and returns the exit code.
func (p *program) stop(t *testing.T, s syscall.Signal) int {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
	return p.wait(t)
}

// freePorts are flags of `up`; a later flag of the same name replaces one of them.
var freePorts = []string{
	"--intake-port", "0", "--nats-port", "0", "--postgres-port", "0", "--sandbox-port", "0", "--ops-port", "0",
	"--approval-port", "0", "--sign-in-port", "0", "--smtp-port", "0", "--webhook-port", "0",
}

// startUp starts `up` on a data directory with free ports, and waits until it is.
func startUp(t *testing.T, data string, flags ...string) (*program, ready) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	p := run(t, nil, slices.Concat([]string{"up", "--data", data, "--ready-file", file}, freePorts, flags)...)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-p.ended:
			require.FailNow(t, "up ended", p.err.String())
		case <-deadline:
			require.FailNow(t, "up is not ready")
		case <-look.C:
		}
		var r ready
		if text, err := os.ReadFile(file); err == nil {
			require.NoError(t, json.Unmarshal(text, &r))
			return p, r
		}
	}
}

// passableDir is one that the account which runs Postgres under root can reach.
func passableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "holdpoint-uptest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	return dir
}

// answers reports whether somebody listens at an address.
func answers(t *testing.T, address string) bool {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}
