package main

import (
	"context"
	"errors"
)

// errNotMeasured says that the ledger's own commands are not wired to the driver.
var errNotMeasured = errors.New("this build cannot drive the ledger's commands directly; use --skip-postgres-only")

// postgresOnly measures how many runs a second the ledger's own commands take from claim to settled effect on the
// server at the URL, in batches of 256 with nothing else running: the best of one, two and four connections. It is the
// ceiling that the whole system's rate is compared with.
func postgresOnly(_ context.Context, _ string) (float64, error) {
	return 0, errNotMeasured
}
