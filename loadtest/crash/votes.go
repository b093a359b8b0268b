package crash

import (
	"context"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// voted has the service die over a decision, which is sent again until it is answered.
func voted(decision, result string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.asked(ctx); err != nil {
			return err
		}
		return t.dyingOver(ctx, func(ctx context.Context) error { return t.decides(ctx, nora, decision, "", result) })
	}
}

// dyingOver arms the service, which dies of what is done next.
func (t *trial) dyingOver(ctx context.Context, what func(context.Context) error) error {
	if err := t.arm(); err != nil {
		return err
	}
	return t.through(ctx, what)
}

// firstOfTwo and lastOfTwo are about requests for which two people are needed, as nobody knows who asked (A5).
func firstOfTwo(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.dyingOver(ctx, t.counted); err != nil {
		return err
	}
	return t.decides(ctx, sam, ledger.Approve, "", ledger.VoteApproved)
}

func (t *trial) counted(ctx context.Context) error {
	return t.decides(ctx, nora, ledger.Approve, "", ledger.VoteCounted)
}

func lastOfTwo(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.counted(ctx); err != nil {
		return err
	}
	return t.dyingOver(ctx, func(ctx context.Context) error {
		return t.decides(ctx, sam, ledger.Approve, "", ledger.VoteApproved)
	})
}

// byLink decides with the token of the mail. The decision spends it, and its repetition is answered all the same.
func byLink(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.told(ctx); err != nil {
		return err
	}
	link, err := t.mailedTo(ctx, nora+"@example.test")
	if err != nil {
		return err
	}
	return t.dyingOver(ctx, func(ctx context.Context) error {
		return t.decides(ctx, nora, ledger.Approve, link, ledger.VoteApproved)
	})
}

// withdrawn has whoever asked take the request back.
func withdrawn(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	card, err := t.shown(ctx)
	if err != nil {
		return err
	}
	asker, err := t.signIn(ctx, rita)
	if err != nil {
		return err
	}
	return t.dyingOver(ctx, func(ctx context.Context) error { return asker.withdraw(ctx, card) })
}

// shown is the card as a lead is shown it.
func (t *trial) shown(ctx context.Context) (contracts.ApprovalCard, error) {
	lead, err := t.signIn(ctx, sam)
	if err != nil {
		return contracts.ApprovalCard{}, err
	}
	return lead.card(ctx)
}

// turnedAway has somebody try to approve who may not, before somebody does who may. The attempt moves nothing and is on
// record (A5).
func turnedAway(login string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := t.asked(ctx); err != nil {
			return err
		}
		card, err := t.shown(ctx)
		if err != nil {
			return err
		}
		person, err := t.signIn(ctx, login)
		if err != nil {
			return err
		}
		if err := t.dyingOver(ctx, func(ctx context.Context) error {
			v, err := person.decide(ctx, card, ledger.Approve, "")
			if err == nil && v.status != http.StatusForbidden {
				err = fmt.Errorf("%s, who may not approve, was answered %s", login, &v)
			}
			return err
		}); err != nil {
			return err
		}
		if err := t.until(ctx, "the refusal to be on record",
			"exists (select from audit_events a where a.run_id = r.run_id and a.move = 'refuse_vote')"); err != nil {
			return err
		}
		return t.decides(ctx, sam, ledger.Approve, "", ledger.VoteApproved)
	}
}

// outwaited has nobody decide in time. Who comes late is told so, and nothing is queued (A9).
func outwaited(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	late, err := t.signIn(ctx, nora)
	if err != nil {
		return err
	}
	card, err := late.card(ctx)
	if err != nil {
		return err
	}
	v, err := late.decide(ctx, card, ledger.Approve, "")
	if err == nil && (v.status != http.StatusConflict || v.Result != ledger.VoteExpired && v.Result != ledger.VoteLate) {
		err = fmt.Errorf("%s approved what had expired, and was answered %s", nora, &v)
	}
	return err
}

// unrevisedInTime has the service die when nobody has brought a better proposal in time (A18).
func unrevisedInTime(ctx context.Context, t *trial) error {
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.decides(ctx, nora, ledger.SendBack, "", ledger.VoteSentBack); err != nil {
		return err
	}
	return t.strike(ctx)
}
