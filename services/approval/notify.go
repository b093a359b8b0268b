package approval

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// Attempts to tell somebody, after each failure:
//
//	attempt   1    2     3      4      5      6 to 10
//	wait      5 s  15 s  45 s   135 s  405 s  10 min
//
// That outlives an hour's outage of a mail server. Then the notification is failed, and an operator is alerted; the request itself
// waits in the queue as before (A1).
const (
	firstWait    = 5 * time.Second
	longestWait  = 10 * time.Minute
	maxAttempts  = 10
	noticeBatch  = 32
	noticeHold   = time.Minute // longer than a channel's time-out: what is not recorded by then is sent again
	sendersAtAll = 64          // a channel that hangs holds up the others only when it has all of them
)

// sender is one channel, ready to send.
type sender interface {
	// recipients are the addresses of the channel; one "" where it has no addresses.
	recipients() []string
	// private reports whether what is sent is read by its recipient alone. Only then may it hold a token (A2).
	private() bool
	send(ctx context.Context, m *message) error
}

// message is what is sent: what kind of decision waits and where. It names no amount, no customer and nothing of the payload, because
// it passes through places that Holdpoint does not keep (A18). A chat is sent less of it than mail and webhooks are (chatText).
type message struct {
	ID        string // the same when it is sent again
	Recipient string
	Tenant    string
	Asked     ledger.Asked
	Risk      string    // of the action; "" where it is not known any more
	Kind      string    // of the notification
	ReviewBy  time.Time // until when what was approved alone is looked at; zero for every other kind
	Link      string    // with a token that was minted for this delivery, where the way is private
}

// announce plans who is told of new approvals. Nothing is sent before the approval is committed (A1).
func (a *Approval) announce(ctx context.Context) (bool, error) {
	asked, err := a.env.Ledger.Unannounced(ctx, noticeBatch)
	if err != nil || len(asked) == 0 {
		return false, err
	}
	plans := make([]ledger.Plan, len(asked))
	var to []ledger.Address
	for i := range asked {
		plans[i] = a.plan(&asked[i])
		to = append(to, a.addresses(&asked[i], asked[i].Audience)...)
	}
	return len(asked) == noticeBatch, a.env.Ledger.Announce(ctx, plans, to)
}

// addresses are the channels that serve any of the roles.
func (a *Approval) addresses(asked *ledger.Asked, roles []string) []ledger.Address {
	t := a.tenant(asked.TenantID)
	if t == nil {
		a.env.Log.Error("nobody can be told of an approval: its tenant is not configured here", "tenant", asked.TenantID,
			"approval", asked.ApprovalID)
		return nil
	}
	var to []ledger.Address
	for _, c := range t.Channels {
		if !serves(c, roles) {
			continue
		}
		for _, recipient := range t.channels[c.ID].recipients() {
			to = append(to, ledger.Address{TenantID: t.ID, ApprovalID: asked.ApprovalID, Channel: c.ID, Recipient: recipient})
		}
	}
	if len(to) == 0 {
		a.env.Log.Warn("no channel serves the audience of an approval; it waits in the queue alone", "tenant", t.ID,
			"approval", asked.ApprovalID, "audience", roles)
	}
	return to
}

func serves(c *config.Channel, audience []string) bool {
	return len(c.Roles) == 0 || slices.ContainsFunc(c.Roles, func(role string) bool { return slices.Contains(audience, role) })
}

// notify begins to send what is due, as far as senders are free. A process that dies in between leaves it due again: somebody is told
// twice rather than never, and the second message's link replaces the first's (A2).
func (a *Approval) notify(ctx context.Context) (bool, error) {
	free := cap(a.senders) - len(a.senders)
	if free == 0 {
		return false, nil
	}
	taken, err := a.env.Ledger.TakeNotices(ctx, free, noticeHold)
	if err != nil {
		return false, err
	}
	for i := range taken {
		a.senders <- struct{}{}
		a.sending.Go(func() {
			a.deliver(context.WithoutCancel(ctx), &taken[i])
			<-a.senders
		})
	}
	return false, nil
}

// deliver sends one notification and records what became of it.
func (a *Approval) deliver(ctx context.Context, n *ledger.Notice) {
	told, err := a.tell(ctx, n)
	result := ledger.NoticeResult{Err: err, Moot: err == nil && !told, Kind: n.Kind,
		Address: ledger.Address{TenantID: n.TenantID, ApprovalID: n.ApprovalID, Channel: n.Channel, Recipient: n.Recipient}}
	outcome := "sent"
	if result.Moot {
		outcome = "moot"
	}
	if err != nil {
		outcome = "failed"
		if n.Attempt < maxAttempts {
			result.Again, outcome = waitAfter(n.Attempt, err), "retried"
		}
		a.env.Log.Error("a reviewer could not be told that a decision waits", "tenant", n.TenantID, "approval", n.ApprovalID,
			"channel", n.Channel, "attempt", n.Attempt, "next_in", result.Again, "error", err)
	}
	a.notices.Add(ctx, 1, metric.WithAttributes(attribute.String("tenant", n.TenantID), attribute.String("channel", n.Channel),
		attribute.String("outcome", outcome)))
	if _, err := a.recorded.Do(ctx, result); err != nil {
		a.env.Log.Error("what became of a notification could not be recorded; it is sent again", "approval", n.ApprovalID, "error", err)
	}
}

// record stores the results of many senders in one commit.
func (a *Approval) record(ctx context.Context, results []ledger.NoticeResult) ([]struct{}, error) {
	return make([]struct{}, len(results)), a.env.Ledger.RecordNotices(ctx, results)
}

// tell mints the token and sends. An approval that does not wait any more is told to nobody.
func (a *Approval) tell(ctx context.Context, n *ledger.Notice) (told bool, err error) {
	t := a.tenant(n.TenantID)
	if t == nil || t.channels[n.Channel] == nil {
		return false, fmt.Errorf("channel %s is not configured here any more", n.Channel)
	}
	m := &message{
		ID: noticeID(n), Recipient: n.Recipient, Tenant: t.DisplayName, Asked: n.Asked, Kind: n.Kind, ReviewBy: n.ReviewBy,
		Link: a.settings.PublicURL + "/approvals/" + n.ApprovalID.String(),
	}
	if action := t.action(n.ActionType); action != nil {
		m.Risk = action.Risk
	}
	channel := t.channels[n.Channel]
	if n.Kind == ledger.NoticeBreakGlass { // there is nothing to decide, and so nothing that a token would be for
		return true, channel.send(ctx, m)
	}
	if !channel.private() { // no token is minted, which would find out whether it still waits
		if !time.Now().Before(n.DecideBy) {
			return false, nil
		}
		return true, channel.send(ctx, m)
	}
	token := newToken()
	minted, err := a.minted.Do(ctx, ledger.Token{Hash: tokenHash(token), TenantID: n.TenantID, RunID: n.RunID,
		ApprovalID: n.ApprovalID, Recipient: n.Channel + " " + n.Recipient, Decisions: []string{ledger.Approve, ledger.Reject, ledger.SendBack}})
	if err != nil || !minted {
		return false, err
	}
	m.Link = a.settings.PublicURL + linkPath + token
	return true, channel.send(ctx, m)
}

// noticeID is the same when a notification is sent again, and another one for a reminder.
func noticeID(n *ledger.Notice) string {
	id := n.ApprovalID.String() + "." + n.Channel + "." + n.Recipient
	if n.Kind != ledger.NoticeRequest {
		id += "." + n.Kind
	}
	return id
}

// linkPath is where links of messages lead.
const linkPath = "/l/"

// newToken has 256 random bits (A2): for links, and for the forms of a session.
func newToken() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(raw[:])
}
