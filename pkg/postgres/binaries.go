package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binDirEnv names the directory of the server binaries when the usual places are not searched.
const binDirEnv = "HOLDPOINT_POSTGRES_BIN"

// debianBinDirs is where Debian and Ubuntu keep one directory for each major version.
const debianBinDirs = "/usr/lib/postgresql/*/bin"

// errNoBinaries says what an operator can do when the machine has no Postgres.
var errNoBinaries = errors.New("no Postgres server binaries (initdb, postgres) were found: install them (Debian and " +
	"Ubuntu: apt-get install postgresql; macOS: brew install postgresql), name their directory in " + binDirEnv +
	", or give the address of a running server in HOLDPOINT_DATABASE_URL")

// binaries returns the directory that holds initdb and postgres. A directory given by the caller or the environment
// is taken or refused, never replaced by another. Versions is the pattern of the directories to search.
func (c *ServerConfig) binaries(ctx context.Context, versions string) (string, error) {
	if given := cmp.Or(c.BinDir, os.Getenv(binDirEnv)); given != "" {
		if !hasBinaries(given) {
			return "", fmt.Errorf("%s holds no initdb and postgres: correct BinDir or %s", given, binDirEnv)
		}
		return given, nil
	}
	if dir, ok := findBinaries(ctx, versions); ok {
		return dir, nil
	}
	if c.Fetch == nil {
		return "", errNoBinaries
	}
	dir, err := c.Fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("%w (fetching them failed: %w)", errNoBinaries, err)
	}
	return dir, nil
}

// findBinaries looks for version directories, newest first, then asks pg_config, then looks on the PATH.
func findBinaries(ctx context.Context, pattern string) (string, bool) {
	dirs, _ := filepath.Glob(pattern) // The only error is a malformed pattern.
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(majorOf(b), majorOf(a)) })
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if hasBinaries(dir) {
			return dir, true
		}
	}
	return "", false
}

// majorOf reads 15 out of /usr/lib/postgresql/15/bin; anything else sorts last.
func majorOf(binDir string) int {
	major, _ := strconv.Atoi(filepath.Base(filepath.Dir(binDir)))
	return major
}

func hasBinaries(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
