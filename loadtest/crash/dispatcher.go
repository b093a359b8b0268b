package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Faults of the provider, each felt once.
var (
	acceptThenReset = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1}, Fault: sandbox.Fault{Kind: sandbox.AcceptThenReset}}
	resetUnread     = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1}, Fault: sandbox.Fault{Kind: sandbox.ResetBeforeAccept}}
	tooBusy         = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1}, Fault: sandbox.Fault{Kind: sandbox.RateLimit}}
	errorAfter      = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1},
		Fault: sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusInternalServerError}}
	hangUnread   = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1}, Fault: sandbox.Fault{Kind: sandbox.HangBeforeAccept}}
	unauthorized = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1},
		Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusUnauthorized}}
)

// answeredWith is waiting, with a provider that misbehaves.
func answeredWith(rule sandbox.Rule) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if _, err := t.provoke(ctx, rule); err != nil {
			return err
		}
		return waiting(ledger.Dispatcher)(ctx, t)
	}
}

// leaseByPoll has the dispatcher find an effect before its event comes.
func leaseByPoll(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Dispatcher); err != nil {
		return err
	}
	t.down(ledger.Dispatcher)
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.effectIs(ctx, ledger.EffectPending); err != nil {
		return err
	}
	if err := t.hurry(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	return t.strike(ctx)
}

// killOnAccept kills the dispatcher while the provider, which has the write, has yet to answer (DSP-08).
func killOnAccept(ctx context.Context, t *trial) error {
	sender := t.services[ledger.Dispatcher]
	url := t.control.on(t.key+"/accepted", func() error {
		sender.kill()
		return nil
	})
	if _, err := t.provoke(ctx, sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1},
		Fault: sandbox.Fault{Kind: sandbox.Signal, URL: url}}); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	status, err := sender.await(ctx)
	if err != nil {
		return fmt.Errorf("the provider was not written to: %w", err)
	}
	t.struck = statusText(status)
	return t.start(ledger.Dispatcher)
}

// counted is a rule that never fires; its count of matches is how many writes of the effect the provider was asked for.
var counted = sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Nth: 1 << 30}, Fault: sandbox.Fault{Kind: sandbox.ResetBeforeAccept}}

// secondSender is the replica that does the work of a frozen one.
const secondSender = "dispatcher-2"

// frozenBeforeFence freezes a sender while it still reads its target. It loses its lease, another sends, and when it is thawed it
// finds that out before its first byte (DSP-07).
func frozenBeforeFence(ctx context.Context, t *trial) error {
	// The provider holds the read for longer than the freeze, so that the sender is thawed in the middle of it.
	ids, err := t.provoke(ctx, counted, sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Read, Count: 1},
		Fault: sandbox.Fault{Kind: sandbox.HangBeforeAccept}})
	if err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	if err := t.provider.AwaitFault(ctx, ids[1], 1); err != nil {
		return err
	}
	if err := t.services[ledger.Dispatcher].freeze(ctx); err != nil {
		return err
	}
	if err := t.outlive(ctx); err != nil {
		return err
	}
	return t.wantOneRequest(ctx, ids[0])
}

// frozenAfterFence freezes a sender that has leave to send. Whoever looks on cannot tell it from one that has sent, so its effect
// counts as maybe sent, and is sent again only when the provider does not have it.
func frozenAfterFence(ctx context.Context, t *trial) error {
	ids, err := t.provoke(ctx, counted)
	if err != nil {
		return err
	}
	frozen := make(chan error, 1)
	spec := t.spec()
	spec.Side = fault.Mid
	t.down(ledger.Dispatcher)
	if err := t.start(ledger.Dispatcher, armed(spec, t.control.on(t.key+"/fence", func() error {
		frozen <- t.services[ledger.Dispatcher].freeze(ctx)
		return nil
	}))...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	select {
	case err = <-frozen:
	case <-ctx.Done():
		err = fmt.Errorf("the boundary was not reached: %w", ctx.Err())
	}
	if err != nil {
		return err
	}
	if err := t.outlive(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, "the frozen sender's effect to count as maybe sent", "e.maybe_sent"); err != nil {
		return err
	}
	return t.wantOneRequest(ctx, ids[0])
}

// outlive has a second sender complete the run of the frozen one, then thaws that and waits for its report.
func (t *trial) outlive(ctx context.Context) error {
	sender := t.services[ledger.Dispatcher]
	t.struck = "stopped, then continued"
	if err := t.startAs(secondSender, ledger.Dispatcher); err != nil {
		return err
	}
	defer t.services[secondSender].kill()
	err := t.until(ctx, "the run to be completed by another sender", "r.state = 'completed'")
	err = errors.Join(err, sender.thaw())
	if err != nil {
		return err
	}
	return t.until(ctx, "the thawed sender to report that it did not send",
		"exists (select from effect_attempts a where a.run_id = r.run_id and a.attempt = 1 and a.class = 'not_sent' and not a.sent)")
}

// wantOneRequest asks the provider how often it was asked to write.
func (t *trial) wantOneRequest(ctx context.Context, rule string) error {
	states, err := t.provider.Faults(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.ID == rule && s.Matched != 1 {
			return fmt.Errorf("the provider was asked %d times to write; the sender that had lost its lease must not ask (DSP-07)", s.Matched)
		}
	}
	return nil
}
