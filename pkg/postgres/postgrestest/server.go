package postgrestest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"syscall"

	"github.com/holdpoint/holdpoint/pkg/postgres"
)

// serverEnv names a superuser's address of a server to use instead of a throwaway one.
const serverEnv = "HOLDPOINT_TEST_POSTGRES_URL"

func serverURL() (string, error) {
	if given := os.Getenv(serverEnv); given != "" {
		if u, err := url.Parse(given); err != nil || u.Host == "" {
			return "", fmt.Errorf("%s must be an address like postgres://user:password@host:5432/postgres", serverEnv)
		}
		return given, nil
	}
	return startThrowaway()
}

// startThrowaway starts a server that the watcher takes away.
func startThrowaway() (string, error) {
	parent := ""
	if os.Geteuid() == 0 {
		parent = "/var/tmp" // Where the account that runs Postgres can go, whatever TMPDIR says.
	}
	dir, err := os.MkdirTemp(parent, "holdpoint-pgtest-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the test server: %w", err)
	}
	if err := watch(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.ServerConfig{
		DataDir: dir, Database: "postgres", Logger: slog.New(slog.DiscardHandler),
		// Tests that race hold a pool for each replica, and many of them run at once on a slow machine.
		Settings: map[string]string{"max_connections": "500"},
	})
	if err != nil {
		return "", err
	}
	return server.URL(), nil
}

// watchScript waits for the end of its standard input, which is the end of the test binary, then for the end of the
// server (the kernel has told it to quit where it can), and removes the files. The waits are bounded because a
// container whose first process never reaps leaves the ended server as a zombie that still accepts signals.
const watchScript = `read -r _; turns=0
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
while [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null && [ $turns -lt 50 ]; do sleep 0.1; turns=$((turns+1)); done
until rm -rf -- "$1" 2>/dev/null || [ $turns -ge 100 ]; do sleep 0.1; turns=$((turns+1)); done`

// watch leaves a process behind that outlives this one just long enough to clean up. A test binary has no reliable
// last word: it may be killed, time out, or call os.Exit.
func watch(dir string) error {
	// The write end stays open, and is closed by the kernel when this process ends.
	cmd := exec.Command("/bin/sh", "-c", watchScript, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // A Ctrl-C meant for the tests must not end the clean-up.
	if _, err := cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start the watcher of the test server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the watcher of the test server: %w", err)
	}
	watcher = cmd
	return nil
}

// watcher keeps the pipe reachable: a collected pipe would be closed, and the server taken away under the tests.
//
//lint:ignore U1000 it is only held, never read
var watcher *exec.Cmd

// fingerprint tells one set of migrations from another, so that binaries of different commits can share a server.
func fingerprint(files fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%s %d\n", path, len(content))
		_, _ = io.Writer(h).Write(content) // A hash never refuses bytes.
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
