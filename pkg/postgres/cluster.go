package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// superuser owns the cluster; services use their own roles.
const superuser = "holdpoint_admin"

// dataName is the server's data directory within the configured one.
const dataName = "data"

// cluster is one initialised data directory and how to reach it.
type cluster struct {
	binDir   string
	home     string // parent of the data: traversable by the account, holds the password file
	password string // of the superuser; empty when the server trusts local connections
	account  account
	durable  bool
}

func (c *cluster) dataDir() string      { return filepath.Join(c.home, dataName) }
func (c *cluster) passwordFile() string { return filepath.Join(c.home, "superuser.password") }

// openCluster finds the cluster of cfg, making it on first use.
func openCluster(ctx context.Context, cfg *ServerConfig) (*cluster, error) {
	binDir, err := cfg.binaries(ctx, debianBinDirs)
	if err != nil {
		return nil, err
	}
	acct, err := unprivileged(os.Geteuid())
	if err != nil {
		return nil, err
	}
	if acct.other && !passable(binDir) {
		return nil, fmt.Errorf("the user %s cannot reach the Postgres binaries in %s: open its parent directories "+
			"(chmod o+x) or install Postgres for the whole machine", acct.name, binDir)
	}
	home, err := acct.home(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	c := &cluster{binDir: binDir, home: home, account: acct, durable: cfg.Durable}
	if cfg.Durable {
		if c.password, err = c.readOrMakePassword(); err != nil {
			return nil, err
		}
	}
	return c, c.initialise(ctx)
}

// readOrMakePassword keeps the superuser's random password in a file that only we can read.
func (c *cluster) readOrMakePassword() (string, error) {
	kept, err := os.ReadFile(c.passwordFile())
	if err == nil {
		return strings.TrimSpace(string(kept)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the Postgres superuser's password: %w", err)
	}
	if _, err := os.Stat(c.dataDir()); err == nil {
		return "", fmt.Errorf("%s exists without its password file %s: restore that file, or move the data away to "+
			"start empty", c.dataDir(), c.passwordFile())
	}
	secret := make([]byte, 24)
	rand.Read(secret) // Never fails: crypto/rand ends the program instead.
	password := hex.EncodeToString(secret)
	if err := os.WriteFile(c.passwordFile(), []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the Postgres superuser's password: %w", err)
	}
	return password, nil
}

// initialise runs initdb on first use. It works in a directory of another name, renamed when complete, so that a
// process killed half-way leaves no data directory that looks finished.
func (c *cluster) initialise(ctx context.Context) error {
	if _, err := os.Stat(c.dataDir()); err == nil {
		return nil
	}
	making := c.dataDir() + ".making"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("clear the half-made data directory: %w", err)
	}
	if err := os.Mkdir(making, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := c.account.give(making); err != nil {
		return err
	}
	args := []string{"--pgdata", making, "--username", superuser, "--locale=C", "--encoding=UTF8"}
	if c.durable {
		handover, err := c.handOverPassword()
		if err != nil {
			return err
		}
		defer os.Remove(handover)
		args = append(args, "--auth=scram-sha-256", "--pwfile", handover)
	} else {
		args = append(args, "--auth=trust", "--no-sync")
	}
	if err := c.run(ctx, making, "initdb", args...); err != nil {
		return fmt.Errorf("initialise the Postgres data directory: %w", err)
	}
	if err := os.Rename(making, c.dataDir()); err != nil {
		return fmt.Errorf("put the new Postgres data directory in its place: %w", err)
	}
	return nil
}

// handOverPassword writes the password where initdb, under its own account, can read it once.
func (c *cluster) handOverPassword() (string, error) {
	path := filepath.Join(c.home, "initdb.password")
	if err := os.WriteFile(path, []byte(c.password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("hand the superuser's password to initdb: %w", err)
	}
	return path, c.account.give(path)
}

// run executes one of the server's programs to its end, under the account, and reports what it printed when it
// failed.
func (c *cluster) run(ctx context.Context, dir, program string, args ...string) error {
	var output bytes.Buffer
	cmd := c.command(dir, program, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	done := make(chan error, 1)
	if err := startLocked(cmd, func(err error) { done <- err }); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	select {
	case <-ctx.Done():
		_ = cmd.Process.Kill() // It may have ended by itself in this moment.
		<-done
		return fmt.Errorf("%s was stopped: %w", program, ctx.Err())
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(output.String()))
		}
		return nil
	}
}

// command prepares a program of the server under the account. LC_ALL is fixed because the programs check that the
// locale of their environment exists.
func (c *cluster) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.binDir, program), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGDATA="+dir)
	cmd.SysProcAttr = sysProcAttr(c.account, c.durable)
	return cmd
}
