package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

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

// dueToTell leaves a sender one second of the minute that it has.
func (t *trial) dueToTell(ctx context.Context) error {
	_, err := t.db.Exec(ctx, `update notifications n set next_at = clock_timestamp() from approvals a
where a.approval_id = n.approval_id and a.run_id = $1 and n.state = 'waiting'
  and n.next_at between clock_timestamp() and clock_timestamp() + interval '59 seconds'`, t.runID)
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

// waitsLong leaves a request undecided until it is time to remind, and to let more people decide. The service dies of it, and
// everybody is told again all the same (A12).
func waitsLong(ctx context.Context, t *trial) error {
	if err := t.quiet(ctx, ledger.Approval); err != nil {
		return err
	}
	if err := t.asked(ctx); err != nil {
		return err
	}
	if err := t.told(ctx); err != nil {
		return err
	}
	t.down(ledger.Approval)
	_, err := t.db.Exec(ctx, `update approvals set remind_at = clock_timestamp(), escalate_at = clock_timestamp() where run_id = $1`,
		t.runID)
	if err = errors.Join(err, t.arm()); err != nil {
		return err
	}
	if err := t.strike(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, "the request to have been reminded of and to have escalated", `exists (select from approvals a
  where a.run_id = r.run_id and a.remind_at is null and a.escalate_at is null)`); err != nil {
		return err
	}
	if err := t.told(ctx); err != nil {
		return err
	}
	return t.approved(ctx)
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

// mailedTo is the token of the latest mail about the trial's event.
func (t *trial) mailedTo(ctx context.Context, address string) (token string, err error) {
	mails, err := t.provider.Mail(ctx, address)
	if err != nil {
		return "", err
	}
	for _, m := range mails {
		if strings.Contains(m.Text, t.key) {
			token = tokenIn(m.Text)
		}
	}
	if token == "" {
		return "", fmt.Errorf("%s has no mail with a link for %s", address, t.key)
	}
	return token, nil
}
