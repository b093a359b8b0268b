package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// childAttributes take a child down with the harness, however that ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// spawner is a thread that lives as long as the harness: a parent's death is, to Linux, that of the thread which
// forked.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	done := make(chan error)
	spawner() <- func() { done <- cmd.Start() }
	return <-done
}

// isStopped reports whether all of a process stands still, which is a little later than the signal was sent.
func isStopped(pid int) (bool, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false, err
	}
	end := bytes.LastIndexByte(status, ')') // of the name, which may hold anything
	return bytes.HasPrefix(status[end+1:], []byte(" T")), nil
}
