package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endingFor is how long a start waits for the ports of an `up` that was killed: its Postgres and its sandbox end by
// themselves.
const endingFor = 15 * time.Second

// guard keeps a second `up` out of a data directory.
type guard struct {
	file *os.File
	// killed is set where the last `up` did not come to its end.
	killed bool
}

// lockFileIn is the file by which a data directory is taken.
func lockFileIn(dir string) string { return filepath.Join(dir, "up.lock") }

// lockData takes a data directory. The kernel gives it back however this process ends; the process id in the file,
// which a controlled stop takes out again, tells people who has it and the next start that there was no such stop.
func lockData(dir string) (*guard, error) {
	file, err := os.OpenFile(lockFileIn(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the data directory: %w", err)
	}
	pid := make([]byte, 16)
	n, _ := file.ReadAt(pid, 0) // at the start the file is empty
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another `holdpoint up` (process %s) runs in %s: stop it, or give this one a directory "+
				"of its own (--data, or --ephemeral) and other ports", strings.TrimSpace(string(pid[:n])), dir)
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	g := &guard{file: file, killed: n > 0}
	if err := errors.Join(file.Truncate(0), g.write(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		file.Close()
		return nil, fmt.Errorf("take the data directory: %w", err)
	}
	return g, nil
}

func (g *guard) write(text string) error {
	_, err := g.file.WriteAt([]byte(text), 0)
	return err
}

// release gives the directory back after a controlled stop. Closing alone would leave it to a child that is being
// started right now and still has the file.
func (g *guard) release() error {
	return errors.Join(g.file.Truncate(0), syscall.Flock(int(g.file.Fd()), syscall.LOCK_UN), g.file.Close())
}

// awaitPorts finds out before anything is started whether the wanted ports are free. It names all that are taken.
func awaitPorts(ctx context.Context, f upFlags, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := f.tryPorts()
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tryPorts takes all ports at once, so that two flags with the same one are found as well, and gives them back.
func (f upFlags) tryPorts() error {
	wanted := []struct {
		flag string
		port int
	}{
		{"intake", f.intakePort}, {"nats", f.natsPort}, {"postgres", f.postgresPort}, {"sandbox", f.sandboxPort},
		{"ops", f.opsPort}, {"approval", f.approvalPort}, {"sign-in", f.signInPort}, {"smtp", f.smtpPort},
		{"webhook", f.webhookPort},
	}
	var problems []error
	for _, w := range wanted {
		if w.port == 0 || w.flag == "postgres" && os.Getenv("HOLDPOINT_DATABASE_URL") != "" {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.port))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			problems = append(problems, fmt.Errorf("port %d is taken: stop who has it, or choose another with --%s-port "+
				"(0 takes a free one)", w.port, w.flag))
		case err != nil:
			problems = append(problems, fmt.Errorf("--%s-port: %w", w.flag, err))
		default:
			defer listener.Close()
		}
	}
	return errors.Join(problems...)
}
