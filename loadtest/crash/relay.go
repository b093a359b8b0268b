package crash

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// unheard leaves a run whose intent is published and not in the outbox any more to a policy that is away, and lets
// the time pass after which the relay tells of it again.
func (t *trial) unheard(ctx context.Context) error {
	t.down(ledger.Policy)
	if err := t.deliver(ctx); err != nil {
		return err
	}
	// While the first event waits in the outbox, no second is made.
	return poll(ctx, "the outbox to be empty", func() (bool, error) { return t.outboxEmpty(ctx) })
}

// dueForSweep lets the time pass after which the relay tells of the run again.
func (t *trial) dueForSweep(ctx context.Context) error {
	tag, err := t.db.Exec(ctx,
		"update runs set next_check_at = clock_timestamp() where run_id = $1 and next_check_at is not null", t.runID)
	if err != nil || tag.RowsAffected() != 1 {
		return fmt.Errorf("let time pass: %d rows: %w", tag.RowsAffected(), err)
	}
	return nil
}

// sweep has the relay tell again of an intent that policy never heard of.
func sweep(ctx context.Context, t *trial) error {
	if err := t.unheard(ctx); err != nil {
		return err
	}
	t.down(ledger.Relay)
	if err := errors.Join(t.dueForSweep(ctx), t.arm()); err != nil {
		return err
	}
	return errors.Join(t.strike(ctx), t.start(ledger.Policy))
}

// toldTwice has policy find two events of one intent in a batch. The second is only noted.
func toldTwice(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Policy); err != nil {
		return err
	}
	if err := errors.Join(t.unheard(ctx), t.dueForSweep(ctx)); err != nil {
		return err
	}
	err := t.until(ctx, "a second event of the intent to be published", `(select count(*) = 2 from event_log l
  where l.run_id = r.run_id and l.subject = '`+contracts.SubjectIntentSubmitted+`') and not exists (select from pending)`)
	if err = errors.Join(err, t.arm()); err != nil {
		return err
	}
	return t.strike(ctx)
}

// wipe takes the broker's store away when an intent is published, not in the outbox any more, and not handled. What
// integrators have published and intake has not claimed is lost with it: no answer had been given for it.
func (t *trial) wipe(ctx context.Context) error {
	if err := poll(ctx, "intake to have nothing to do", func() (bool, error) {
		return t.consumed(ctx, bus.IngressStream(tenant), bus.IntakeConsumer)
	}); err != nil {
		return err
	}
	if err := t.unheard(ctx); err != nil {
		return err
	}
	if t.service() == ledger.Relay && t.side != wiped {
		t.down(ledger.Relay)
	}
	t.nats.Close()
	if err := os.RemoveAll(t.brokerDir()); err != nil {
		return fmt.Errorf("wipe the broker: %w", err)
	}
	return t.runBroker(ctx)
}

// brokerWiped wipes the broker under running services. The run must come back from Postgres alone (B4).
func brokerWiped(ctx context.Context, t *trial) error {
	if err := t.wipe(ctx); err != nil {
		return err
	}
	t.struck = "store lost"
	return errors.Join(t.start(ledger.Policy), t.awaitStreams(ctx))
}

// observe wipes the broker, and the relay dies when it has found that out.
func observe(ctx context.Context, t *trial) error {
	if err := errors.Join(t.wipe(ctx), t.arm()); err != nil {
		return err
	}
	err := t.strike(ctx)
	return errors.Join(err, t.start(ledger.Policy), t.awaitStreams(ctx))
}
