package crash

import (
	"context"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// asked brings the event as far as a person is asked.
func (t *trial) asked(ctx context.Context) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	return t.awaitsHuman(ctx)
}

func (t *trial) awaitsHuman(ctx context.Context) error {
	return t.until(ctx, "a person to be asked", "r.state = 'awaiting_human'")
}

// decides has one of the demo people decide.
func (t *trial) decides(ctx context.Context, login, decision, link, result string) error {
	person, err := t.signIn(ctx, login)
	if err != nil {
		return err
	}
	card, err := person.card(ctx)
	if err != nil {
		return err
	}
	return person.mustDecide(ctx, card, decision, link, result)
}

// approved has the event approved, by Nora, who may.
func (t *trial) approved(ctx context.Context) error {
	return t.decides(ctx, nora, ledger.Approve, "", ledger.VoteApproved)
}

// bring takes the event to where its effect is due.
func (t *trial) bring(ctx context.Context) error {
	if !t.refunds() {
		return t.deliver(ctx)
	}
	if err := t.asked(ctx); err != nil {
		return err
	}
	return t.approved(ctx)
}

// thenApproved has the event of another journey, in which a service dies before anybody is asked, approved.
func thenApproved(run func(context.Context, *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := run(ctx, t); err != nil {
			return err
		}
		if err := t.awaitsHuman(ctx); err != nil {
			return err
		}
		return t.approved(ctx)
	}
}

// decidedWithout has the event decided while a service is away, which dies when it comes to it.
func decidedWithout(service string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.asked(ctx); err != nil {
			return err
		}
		if err := t.quiet(ctx, service); err != nil {
			return err
		}
		t.down(service)
		if err := t.approved(ctx); err != nil {
			return err
		}
		if err := t.arm(); err != nil {
			return err
		}
		return t.strike(ctx)
	}
}

// paidWith is decidedWithout the dispatcher, with a provider that misbehaves.
func paidWith(rule sandbox.Rule) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if _, err := t.provoke(ctx, rule); err != nil {
			return err
		}
		return decidedWithout(ledger.Dispatcher)(ctx, t)
	}
}
