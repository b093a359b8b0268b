package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// startDatabase is a given Postgres, or one that this process runs.
func startDatabase(ctx context.Context, f upFlags, dir string, log *slog.Logger, stops *stopList) (string, error) {
	if given := os.Getenv("HOLDPOINT_DATABASE_URL"); given != "" {
		return given, nil
	}
	server, err := postgres.Start(ctx, postgres.ServerConfig{DataDir: filepath.Join(dir, "postgres"), Port: f.postgresPort, BinDir: f.postgresBin,
		Durable: true, Fetch: postgres.FetchBinaries(filepath.Join(dir, "postgres-binaries")), Logger: log})
	if err != nil {
		return "", err
	}
	stops.add(func() error {
		stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := server.Stop(stopping)
		if f.ephemeral && server.DataDir != filepath.Join(dir, "postgres") {
			err = errors.Join(err, os.RemoveAll(server.DataDir))
		}
		return err
	})
	return server.URL(), nil
}

// brokerUsers: the services may do everything, the example tenant only what is its own (B7).
func startBroker(ctx context.Context, f upFlags, dir string, log *slog.Logger, stops *stopList) (services, tenant string, err error) {
	secret, err := secretIn(filepath.Join(dir, "nats-password"))
	if err != nil {
		return "", "", err
	}
	events := bus.EventsStream("demo")
	users := []bus.User{
		{Name: "holdpoint", Password: secret},
		{Name: "demo", Password: "demo", Publish: []string{"holdpoint.ingress.demo.>", "$JS.API.INFO", "$JS.API.STREAM.INFO." + events,
			"$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.*." + events, "$JS.API.CONSUMER.*." + events + ".>", "$JS.API.CONSUMER.MSG.NEXT." + events + ".>",
			"$JS.ACK." + events + ".>", "$JS.ACK.*.*." + events + ".>"},
			Subscribe: []string{"_INBOX.>", "holdpoint.events.demo.>"}},
	}
	server, err := bus.Embedded(ctx, bus.EmbeddedConfig{Dir: filepath.Join(dir, "nats"), Port: f.natsPort, Users: users, Logger: log})
	if err != nil {
		return "", "", err
	}
	stops.add(func() error { server.Close(); return nil })
	_, port, err := net.SplitHostPort(server.URL()[strings.LastIndexByte(server.URL(), '@')+1:])
	return server.URL(), "nats://demo:demo@127.0.0.1:" + port, err
}

// secretIn reads a random password from a file, or makes one that only this user can read.
func secretIn(file string) (string, error) {
	known, err := os.ReadFile(file)
	if err == nil && len(known) > 0 {
		return string(known), nil
	}
	secret := rand.Text()
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		return "", fmt.Errorf("keep the broker's password: %w", err)
	}
	return secret, nil
}

// startSandbox runs the sandbox provider as a process of its own, as an external system is one.
func startSandbox(ctx context.Context, f upFlags, dir string, stops *stopList) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("start the sandbox provider: %w", err)
	}
	ready := filepath.Join(dir, "sandbox-ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("start the sandbox provider: %w", err)
	}
	cmd := exec.Command(self, "sandbox", "--addr", "127.0.0.1:"+strconv.Itoa(f.sandboxPort), "--data", filepath.Join(dir, "sandbox"),
		"--ready-file", ready, "--with-parent")
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe() // closed when this process ends, however it ends
	if err != nil {
		return "", fmt.Errorf("start the sandbox provider: %w", err)
	}
	stops.add(life.Close)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us; we stop it when the calls in flight are done
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start the sandbox provider: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stops.add(func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
		}
		return nil
	})
	for {
		var at struct{ URL string }
		if text, err := os.ReadFile(ready); err == nil && json.Unmarshal(text, &at) == nil && at.URL != "" {
			return at.URL, nil
		}
		select {
		case err := <-ended:
			ended <- err
			return "", fmt.Errorf("the sandbox provider ended while it started (is port %d taken?): %w", f.sandboxPort, errOr(err))
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func errOr(err error) error {
	if err == nil {
		return errors.New("no error given")
	}
	return err
}

// withParent ends a child when its parent is gone: the parent keeps the write end of the child's standard input open.
func withParent(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	return ctx
}
