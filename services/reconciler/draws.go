package reconciler

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
)

// keepLimits is how long the sums of limits are kept beyond the longest window, in case a configuration lengthens it.
const keepLimits = 31 * 24 * time.Hour

// returnDraws gives back what failed effects had taken of limits (P8).
func (r *Reconciler) returnDraws(ctx context.Context) (bool, error) {
	closed, err := r.env.Ledger.ReturnDraws(ctx, drawsBatch, longestWindow(r.env.Config)+keepLimits)
	return closed == drawsBatch, err
}

func longestWindow(c *config.Config) time.Duration {
	longest := time.Duration(0)
	for _, t := range c.Tenants {
		for _, a := range t.Actions {
			for _, l := range a.Limits {
				longest = max(longest, l.Window)
			}
		}
	}
	return longest
}
