package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/fault"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// once is a fault that the effect's first write feels.
func once(f sandbox.Fault) sandbox.Rule {
	return sandbox.Rule{Match: sandbox.Match{Operation: sandbox.Update, Count: 1}, Fault: f}
}

// What a provider may do to a write.
var (
	acceptThenReset = once(sandbox.Fault{Kind: sandbox.AcceptThenReset})
	resetUnread     = once(sandbox.Fault{Kind: sandbox.ResetBeforeAccept})
	hangUnread      = once(sandbox.Fault{Kind: sandbox.HangBeforeAccept})
	tooBusy         = once(sandbox.Fault{Kind: sandbox.RateLimit})
	errorAfter      = once(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusInternalServerError})
	unauthorized    = once(sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusUnauthorized})
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
	if _, err := t.provoke(ctx, once(sandbox.Fault{Kind: sandbox.Signal, URL: url})); err != nil {
		return err
	}
	if err := t.bring(ctx); err != nil {
		return err
	}
	status, err := sender.await(ctx)
	if err != nil {
		return fmt.Errorf("the provider was not written to: %w", err)
	}
	t.struck = statusText(status)
	return t.start(ledger.Dispatcher)
}

// counted is a rule that never fires; its count of matches is how many writes of the effect the provider was asked
// for.
var counted = sandbox.Rule{
	Match: sandbox.Match{Operation: sandbox.Update, Nth: 1 << 30}, Fault: sandbox.Fault{Kind: sandbox.ResetBeforeAccept},
}

// secondSender is the replica that does the work of a frozen one.
const secondSender = "dispatcher-2"

// frozenBeforeFence freezes a sender whose lease and attempt are committed, and who has not heard so yet. It loses
// the lease, another sends, and when it is thawed it goes on as if nothing had happened, up to its last check
// before the first byte (DSP-07).
func frozenBeforeFence(ctx context.Context, t *trial) error {
	ids, err := t.provoke(ctx, counted)
	if err != nil {
		return err
	}
	leased := &cut{fragment: commitSQL["dispatcher/lease"], made: make(chan struct{}), resume: make(chan struct{})}
	spec := fault.Spec{Service: ledger.Dispatcher, Site: "lease", Side: fault.Mid, Key: t.runID.String()}
	t.down(ledger.Dispatcher)
	if err := t.start(ledger.Dispatcher, armed(spec, t.control.on(t.key+"/lease", func() error {
		t.proxies[ledger.Dispatcher].arm(leased)
		return nil
	}))...); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	select {
	case <-leased.made:
	case <-ctx.Done():
		return fmt.Errorf("the effect was not leased: %w", ctx.Err())
	}
	err = t.services[ledger.Dispatcher].freeze(ctx)
	close(leased.resume)
	if err != nil {
		return err
	}
	if err := t.outlive(ctx); err != nil {
		return err
	}
	return t.wantOneRequest(ctx, ids[0])
}

// frozenAfterFence freezes a sender that has leave to send. Whoever looks on cannot tell it from one that has sent,
// so its effect counts as maybe sent, and is sent again only when the provider does not have it.
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
	var class string
	err = poll(ctx, "the thawed sender's report", func() (bool, error) {
		row := t.db.QueryRow(ctx,
			"select coalesce(max(class), '') from effect_attempts where run_id = $1 and attempt = 1", t.runID)
		err := row.Scan(&class)
		return class != "", err
	})
	if err == nil && class != string(outcome.NotSent) {
		err = fmt.Errorf("the thawed sender reported %q; it had lost its lease and must not send (DSP-07)", class)
	}
	return err
}

// wantOneRequest asks the provider how often it was asked to write.
func (t *trial) wantOneRequest(ctx context.Context, rule string) error {
	states, err := t.provider.Faults(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.ID == rule && s.Matched != 1 {
			return fmt.Errorf("the provider was asked %d times to write; a sender that has lost its lease must not (DSP-07)",
				s.Matched)
		}
	}
	return nil
}
