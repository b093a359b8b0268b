package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// process is one program that the harness runs.
type process struct {
	name   string
	cmd    *exec.Cmd
	meant  atomic.Bool // its end is the harness's doing or wish
	ended  chan struct{}
	status syscall.WaitStatus // when ended
}

// command is how a process is started.
type command struct {
	name, binary string
	args, env    []string
	output       *os.File // standard output and error
}

// startProcess starts a process in a group of its own, so that a Ctrl-C reaches the harness alone, which ends the
// others.
func startProcess(c command) (*process, error) {
	cmd := exec.Command(c.binary, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = c.output, c.output
	cmd.SysProcAttr = childAttributes()
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &process{name: c.name, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the status says it
		p.status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
		close(p.ended)
	}()
	return p, nil
}

// await waits for the end of the process.
func (p *process) await(ctx context.Context) (syscall.WaitStatus, error) {
	select {
	case <-p.ended:
		return p.status, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s is still running: %w", p.name, ctx.Err())
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the process as a power cut would, and waits for its end.
func (p *process) kill() {
	p.meant.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// freeze stops a process where it is, and returns when it stands still.
func (p *process) freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return poll(ctx, p.name+" to stand still", func() (bool, error) { return isStopped(p.cmd.Process.Pid) })
}

// thaw lets a frozen process go on.
func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// statusText is a wait status for people.
func statusText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

// died reports whether the status is the one of a process that has been killed at a boundary.
func died(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGKILL }
