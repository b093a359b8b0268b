package main

import (
	"context"

	"github.com/holdpoint/holdpoint/pkg/ledger/ledgerbench"
)

// postgresOnly measures how many runs a second the ledger's own commands take from claim to settled effect on the
// server at the URL, in batches of 256 with nothing else running: the best of one, two and four connections. It is the
// ceiling that the whole system's rate is compared with. Reviewed runs wait for a person's vote on their way.
func postgresOnly(ctx context.Context, databaseURL string, reviewed bool) (float64, error) {
	result, err := ledgerbench.Measure(ctx, databaseURL, ledgerbench.Options{Review: reviewed})
	return result.RunsPerSecond, err
}
