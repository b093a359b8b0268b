package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/holdpoint/holdpoint/contracts"
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

// untold leaves a request to an approval service that dies on the way to telling people. They are told all the same,
// and decide one request (A1).
func untold(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Approval); err != nil {
		return err
	}
	t.down(ledger.Approval)
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.arm(); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	if err := t.told(ctx); err != nil {
		return err
	}
	return t.approved(ctx)
}

// addresses is how many the example configuration tells of a refund: two leads and the help desk.
const addresses = 3

// told waits until everybody has been told. Meanwhile it lets the time pass after which a message counts as lost
// whose sender has not said what became of it.
func (t *trial) told(ctx context.Context) error {
	return poll(ctx, "everybody to be told that a decision waits", func() (bool, error) {
		if err := t.dueToTell(ctx); err != nil {
			return false, err
		}
		var sent int
		err := t.db.QueryRow(ctx, `select count(*) filter (where n.state = 'sent') from notifications n
join approvals a using (approval_id) where a.run_id = $1`, t.runID).Scan(&sent)
		return sent == addresses, err
	})
}

func (t *trial) dueToTell(ctx context.Context) error {
	_, err := t.db.Exec(ctx, `update notifications n set next_at = clock_timestamp() from approvals a
where a.approval_id = n.approval_id and a.run_id = $1 and n.state = 'waiting' and n.next_at > clock_timestamp()`, t.runID)
	if err != nil {
		return fmt.Errorf("let time pass: %w", err)
	}
	return nil
}

// deskClosed refuses one webhook.
var deskClosed = sandbox.Rule{Match: sandbox.Match{System: sandbox.Webhooks, Count: 1},
	Fault: sandbox.Fault{Kind: sandbox.ErrorBeforeAccept, Status: http.StatusServiceUnavailable}}

// toldAgain has a message fail, and the service die when the message is due again.
func toldAgain(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Approval); err != nil {
		return err
	}
	if _, err := t.provider.Fault(ctx, deskClosed); err != nil {
		return err
	}
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, "a message to fail", `exists (select from notifications n join approvals a using (approval_id)
  where a.run_id = r.run_id and n.state = 'waiting' and n.last_error is not null)`); err != nil {
		return err
	}
	t.down(ledger.Approval)
	if err := errors.Join(t.dueToTell(ctx), t.arm()); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	if err := t.told(ctx); err != nil {
		return err
	}
	return t.approved(ctx)
}

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

// linkPattern is a link in a message, with its token.
var linkPattern = regexp.MustCompile(`/l/([A-Za-z0-9_-]{43})\b`)

// tokenIn is the token of a message's link, "" where it has none.
func tokenIn(text string) string {
	if found := linkPattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
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
