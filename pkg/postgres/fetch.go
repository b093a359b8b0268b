package postgres

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// FetchBinaries downloads a build of Postgres for this platform into cacheDir and returns the directory of its
// binaries. It is the value of ServerConfig.Fetch for people who have no Postgres and want none installed. The
// download is checked against the checksum that the repository publishes beside it.
func FetchBinaries(cacheDir string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		binDir := filepath.Join(cacheDir, "bin")
		if hasBinaries(binDir) {
			return binDir, nil
		}
		port, err := freePort()
		if err != nil {
			return "", err
		}
		scratch, err := os.MkdirTemp("", "holdpoint-fetch-")
		if err != nil {
			return "", fmt.Errorf("make a directory for the download of Postgres: %w", err)
		}
		defer os.RemoveAll(scratch)

		// The library has no call that only fetches. It fetches, unpacks, and then starts a server, which it cannot
		// do as root; whether that last step works does not matter here.
		db := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
			Port(uint32(port)).BinariesPath(cacheDir).CachePath(scratch).
			RuntimePath(filepath.Join(scratch, "run")).Logger(io.Discard))
		startErr := db.Start()
		if startErr == nil {
			startErr = db.Stop()
		}
		if !hasBinaries(binDir) {
			return "", fmt.Errorf("download Postgres into %s: %w", cacheDir, startErr)
		}
		return binDir, nil
	}
}
