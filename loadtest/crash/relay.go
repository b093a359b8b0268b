package crash

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// sweep has policy never hear of an intent, and the time pass after which the relay tells of it again.
func sweep(ctx context.Context, t *trial) error {
	t.down(ledger.Policy)
	if err := t.deliver(ctx); err != nil {
		return err
	}
	// While the first event waits in the outbox, no second is made.
	if err := poll(ctx, "the outbox to be empty", func() (bool, error) { return t.outboxEmpty(ctx) }); err != nil {
		return err
	}
	t.down(ledger.Relay)
	tag, err := t.db.Exec(ctx, "update runs set next_check_at = clock_timestamp() where run_id = $1 and next_check_at is not null", t.runID)
	if err != nil || tag.RowsAffected() != 1 {
		return fmt.Errorf("let time pass: %d rows: %w", tag.RowsAffected(), err)
	}
	if err := t.arm(); err != nil {
		return err
	}
	return errors.Join(t.strike(ctx), t.start(ledger.Policy))
}
