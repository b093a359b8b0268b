package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who Postgres runs as. The zero value is "whoever we are"; only root needs another one, because Postgres
// refuses to run as root.
type account struct {
	other    bool
	uid, gid uint32
	name     string
}

// unprivileged picks the account that runs Postgres for the given effective user id.
func unprivileged(euid int) (account, error) {
	if euid != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("read the user id of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("read the group id of %s: %w", name, err)
		}
		return account{other: true, uid: uint32(uid), gid: uint32(gid), name: name}, nil
	}
	return account{}, errors.New("Postgres refuses to run as root, and there is no user postgres or nobody to run it " +
		"as: add one (useradd --system postgres) or start Holdpoint as an ordinary user")
}

// credential is nil when no change of user is wanted.
func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// give makes the account the owner of path.
func (a account) give(path string) error {
	if !a.other {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("hand %s to the user %s: %w", path, a.name, err)
	}
	return nil
}

// home makes the directory that will hold the data and returns it. Where another account must reach it and cannot
// pass one of its parents (root's own home is the usual case), a directory under /var/tmp that is derived from the
// wanted path takes its place. Data that already lies in one of the two places decides: a change of permissions must
// never start an empty database beside a full one.
func (a account) home(wanted string) (string, error) {
	wanted, err := filepath.Abs(wanted)
	if err != nil {
		return "", fmt.Errorf("resolve the data directory %s: %w", wanted, err)
	}
	if err := os.MkdirAll(filepath.Dir(wanted), 0o755); err != nil {
		return "", fmt.Errorf("make the parent of the data directory: %w", err)
	}
	dir := wanted
	if a.other {
		if dir, err = a.reachable(wanted); err != nil {
			return "", err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the data directory: %w", err)
	}
	if !a.other {
		return dir, nil
	}
	if err := ownedByUs(dir); err != nil {
		return "", err
	}
	// A directory from os.MkdirTemp, or one made under a strict umask, is closed to others.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("open the data directory to the user %s: %w", a.name, err)
	}
	return dir, nil
}

// reachable chooses between the wanted directory and its stand-in.
func (a account) reachable(wanted string) (string, error) {
	sum := sha256.Sum256([]byte(wanted))
	standIn := filepath.Join("/var/tmp", "holdpoint-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(standIn, dataName)); err == nil {
		return standIn, nil
	}
	if passable(filepath.Dir(wanted)) {
		return wanted, nil
	}
	if _, err := os.Stat(filepath.Join(wanted, dataName)); err == nil {
		return "", fmt.Errorf("the user %s, who runs Postgres, can no longer reach the data in %s: open its parent "+
			"directories (chmod o+x) or move it", a.name, wanted)
	}
	return standIn, nil
}

// passable reports whether any user may pass through dir and all its parents; directories that do not exist yet will
// be made passable.
func passable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err == nil && info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// ownedByUs guards against a directory in a shared place that somebody else laid there first.
func ownedByUs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the data directory %s: %w", dir, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("the data directory %s is not a directory of the user who starts Holdpoint: "+
			"remove it or choose another data directory", dir)
	}
	return nil
}
