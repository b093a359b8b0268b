package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// shortestKeyWindow is how long a restore stands besides the backup's age where no connector declares a longer memory of keys.
const shortestKeyWindow = 24 * time.Hour

// keyWindow is the longest time for which a provider remembers a key.
func keyWindow(cfg *config.Config) time.Duration {
	longest := shortestKeyWindow
	for _, t := range cfg.Tenants {
		for _, c := range t.Connectors {
			for _, op := range c.Operations {
				longest = max(longest, op.KeyWindow)
			}
		}
	}
	return longest
}

// mark compares the database with the last mark that the bus has heard of, and counts it up (D17). It compares first: a database that
// went back in time must not catch up unseen. What is lost without the last mark, such as the last moment before a failover to a
// standby that lags by less than markPause, cannot be told from what never was.
func (r *Relay) mark(ctx context.Context) (bool, error) {
	if !r.env.Bus.Connected() {
		return false, nil
	}
	text, err := r.env.Bus.LastMark(ctx)
	if err != nil {
		return false, err
	}
	if text != nil {
		var heard ledger.Mark
		if err := json.Unmarshal(text, &heard); err != nil {
			return false, fmt.Errorf("the last mark on the bus cannot be read: %w", err)
		}
		restored, err := r.env.Ledger.Restored(ctx, heard, r.keyWindow)
		if err != nil {
			return false, err
		}
		if restored {
			r.env.Log.Error("the database was put back to a backup: everything is looked for before it is sent; see `holdpoint restore show`",
				"heard", heard.Seq, "heard_at", heard.At)
		}
	}
	next, err := r.env.Ledger.NextMark(ctx)
	if err != nil {
		return false, err
	}
	text, _ = json.Marshal(next) // a number and a time always marshal
	return false, r.env.Bus.Mark(ctx, text)
}
