package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/service"
)

func sandboxCommand() *cobra.Command {
	var cfg sandbox.Config
	var parent, quiet bool
	var smtpPort int
	cmd := &cobra.Command{
		Use:    "sandbox",
		Short:  "Run the sandbox provider: payments, a CRM, a mail server and webhook endpoints with a ledger of their own",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if parent {
				ctx = untilClosed(ctx, os.Stdin)
			}
			cfg.SMTPAddr = "127.0.0.1:" + strconv.Itoa(smtpPort)
			cfg.Logger = service.NewLogger(slog.LevelInfo)
			if quiet {
				cfg.Logger = service.NewLogger(slog.LevelWarn)
			}
			return sandbox.Run(ctx, cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "addr", "127.0.0.1:7073", "address to listen on")
	cmd.Flags().IntVar(&smtpPort, "smtp-port", 0, "loopback port to take mail on; 0 takes a free one")
	cmd.Flags().StringVar(&cfg.DataDir, "data", "", "directory of its ledger")
	cmd.Flags().BoolVar(&parent, "with-parent", false, "end when standard input is closed")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "log only what somebody should look at")
	cmd.Flags().StringVar(&cfg.ReadyFile, "ready-file", "", "where to write its addresses once it listens")
	return cmd
}

// untilClosed ends a child when its parent is gone: the parent holds the other end of the child's standard input, and
// the kernel closes it however the parent ends.
func untilClosed(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx
}

// startSandbox runs the sandbox provider as a process of its own, as an external system is one.
func startSandbox(ctx context.Context, f upFlags, dir string, stops *stopList) (sandboxReady, error) {
	at, err := launchSandbox(ctx, f, dir, stops)
	if err != nil {
		return at, fmt.Errorf("start the sandbox provider: %w", err)
	}
	return at, nil
}

// sandboxReady is what a ready sandbox writes: where it is.
type sandboxReady struct{ URL, SMTP string }

func launchSandbox(ctx context.Context, f upFlags, dir string, stops *stopList) (at sandboxReady, err error) {
	self, err := os.Executable()
	if err != nil {
		return at, err
	}
	ready := filepath.Join(dir, "sandbox-ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return at, err
	}
	cmd := exec.Command(self, "sandbox", "--addr", "127.0.0.1:"+strconv.Itoa(f.sandboxPort), "--smtp-port", strconv.Itoa(f.smtpPort),
		"--data", filepath.Join(dir, "sandbox"), "--ready-file", ready, "--with-parent",
		"--quiet="+strconv.FormatBool(!f.verbose))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // see untilClosed
		return at, err
	}
	// A Ctrl-C is for us alone; we stop it when the calls in flight are done.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return at, err
	}
	ended := make(chan struct{})
	var exit error
	go func() { exit = cmd.Wait(); close(ended) }()
	stops.add(func() error { stopProcess(cmd, ended); return nil })
	return awaitReady(ctx, ready, ended, func() error { return cmp.Or(exit, errors.New("it ended by itself")) })
}

// stopProcess asks a process to end, and ends it when it does not.
func stopProcess(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already, which ended tells
	select {
	case <-ended:
	case <-time.After(10 * time.Second): // twice what it gives its own answers
		_ = cmd.Process.Kill()
		<-ended
	}
}

// awaitReady reads the addresses out of the file that a ready sandbox writes.
func awaitReady(ctx context.Context, file string, ended <-chan struct{}, exit func() error) (at sandboxReady, err error) {
	for {
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &at) == nil && at.URL != "" {
			return at, nil
		}
		select {
		case <-ended:
			return at, exit()
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
