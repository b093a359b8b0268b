package crash

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// lookUp leaves an effect of unknown outcome to a reconciler that dies over it.
func lookUp(rule sandbox.Rule) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		t.down(ledger.Reconciler)
		if _, err := t.provoke(ctx, rule); err != nil {
			return err
		}
		if err := t.bring(ctx); err != nil {
			return err
		}
		if err := t.effectIs(ctx, ledger.EffectUnknown); err != nil {
			return err
		}
		if err := t.until(ctx, "the first look to be due", "e.next_check_at <= clock_timestamp()"); err != nil {
			return err
		}
		if err := t.arm(); err != nil {
			return err
		}
		return t.strike(ctx)
	}
}

// senderGone leaves a lease behind whose owner is dead, its request unread by the provider.
func senderGone(ctx context.Context, t *trial) error {
	t.down(ledger.Reconciler)
	ids, err := t.provoke(ctx, hangUnread)
	if err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.provider.AwaitFault(ctx, ids[0], 1); err != nil {
		return err
	}
	t.down(ledger.Dispatcher)
	if err := t.start(ledger.Dispatcher); err != nil {
		return err
	}
	if err := t.until(ctx, "the dead sender's lease to end", "e.lease_expires_at <= clock_timestamp()"); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	return t.strike(ctx)
}

// lateReport has an operator dispute an effect whose sender is frozen, and then the sender report that it may have
// sent. The report is kept, and changes nothing: the effect stays held (D7, R4).
func lateReport(ctx context.Context, t *trial) error {
	if err := t.loseSender(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, "the frozen sender's effect to be unknown", "e.state = 'unknown'"); err != nil {
		return err
	}
	dispute := append([]string{"resolve", t.operation, "--tenant", tenant, "--dispute"}, accountable...)
	if err := t.mustOperate(ctx, dispute...); err != nil {
		return err
	}
	t.down(ledger.Reconciler)
	if err := t.services[ledger.Dispatcher].thaw(); err != nil {
		return err
	}
	if err := t.until(ctx, "the sender's late report", "e.unread_outcome"); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	return t.strike(ctx)
}

// loseSender freezes the sender when the provider has accepted its write. The provider answers with an error, and
// to lookups with errors alone, so that nothing is known.
func (t *trial) loseSender(ctx context.Context) error {
	frozen := make(chan error, 1)
	url := t.control.on(t.key+"/accepted", func() error {
		frozen <- t.services[ledger.Dispatcher].freeze(ctx)
		return nil
	})
	unavailable := sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusInternalServerError}
	noLookups := sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Lookup}, Fault: unavailable}
	_, err := t.provoke(ctx, noLookups, errorAfter, once(sandbox.Fault{Kind: sandbox.Signal, URL: url}))
	if err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	select {
	case err := <-frozen:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the provider was not written to: %w", ctx.Err())
	}
}

// watched has the target of a request read by a reconciler that dies over it. What is read comes to the card all the same, and the
// request is decided as ever (A10).
func watched(ctx context.Context, t *trial) error {
	t.down(ledger.Reconciler)
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	read := `exists (select from readings g where g.run_id = r.run_id and g.read_at is not null)`
	if t.staged {
		read = `(select count(*) from action_readings g where g.run_id = r.run_id and g.read_at is not null) = 2`
	}
	err := t.until(ctx, "the target to have been read", read)
	if err != nil {
		return err
	}
	return t.approved(ctx)
}
