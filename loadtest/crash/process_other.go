//go:build unix && !linux

package crash

import (
	"os/exec"
	"syscall"
)

// childAttributes leave children behind where the harness itself is killed; only Linux can do better.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func spawn(cmd *exec.Cmd) error { return cmd.Start() }

// isStopped cannot be asked here; a signal to stop takes effect at once, or nearly so.
func isStopped(int) (bool, error) { return true, nil }
