package crash

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdpoint/holdpoint/pkg/bus"
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

// brokerWiped takes the broker's store away when an intent is published and no longer in the outbox. It must come back from Postgres
// alone (B4). What integrators have published and intake has not claimed is lost with the store: no answer had been given for it.
func brokerWiped(ctx context.Context, t *trial) error {
	if err := poll(ctx, "intake to have nothing to do", func() (bool, error) {
		return t.consumed(ctx, bus.IngressStream(tenant), bus.IntakeConsumer)
	}); err != nil {
		return err
	}
	t.down(ledger.Policy)
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := poll(ctx, "the outbox to be empty", func() (bool, error) { return t.outboxEmpty(ctx) }); err != nil {
		return err
	}
	t.nats.Close()
	t.struck = "store lost"
	if err := os.RemoveAll(t.brokerDir()); err != nil {
		return fmt.Errorf("wipe the broker: %w", err)
	}
	return errors.Join(t.runBroker(ctx), t.start(ledger.Policy), t.awaitStreams(ctx))
}
