package ledger

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// taken is a lease that was given: by reclaim, or by renew.
type taken struct {
	ord            int
	version        int64
	leaseExpiresAt *time.Time
	takeovers      int
	attempts       int
	tookOver       bool
}

func scanTaken(row pgx.CollectableRow) (t taken, err error) {
	err = row.Scan(&t.ord, &t.version, &t.leaseExpiresAt, &t.takeovers, &t.attempts, &t.tookOver)
	return t, err
}

func cutSlash(s string) (before, after string, ok bool) { return strings.Cut(s, "/") }
