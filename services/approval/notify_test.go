package approval

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service/servicetest"
)

// pigeon is a channel that keeps what it is given.
type pigeon struct {
	to   []string
	open bool // anybody may read what it carries

	mu   sync.Mutex
	sent []message
	fail error
}

func (p *pigeon) recipients() []string { return p.to }
func (p *pigeon) private() bool        { return !p.open }

func (p *pigeon) send(_ context.Context, m *message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, *m)
	return p.fail
}

// loft is a gate whose loops the test turns by hand, with one channel for support leads.
func loft(t *testing.T, p *pigeon, roles ...string) *gate {
	t.Helper()
	g := &gate{t: t, World: servicetest.New(t, servicetest.WithConfig(func(c *config.Tenant) {
		c.Channels = []*config.Channel{{ID: "mail", Kind: config.ChannelEmail, Roles: roles, Timeout: time.Second,
			Email: &config.Email{Server: "127.0.0.1:1", From: "holdpoint@example.test", To: p.to, TLS: config.TLSNone}}}
	}))}
	_, err := g.Intake.ActivateRules(t.Context(), "demo", refundSource, 1)
	require.NoError(t, err)
	g.Approval, err = New(t.Context(), g.Env(ledger.Approval), Settings{Addr: "127.0.0.1:0", PublicURL: "http://127.0.0.1:7075", Issuer: nobody,
		RolesMaxAge: time.Minute, SessionLifetime: time.Hour, SessionIdle: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.listener.Close()); g.votes.Close() })
	g.tenant("demo").channels["mail"] = p
	return g
}

// turn runs both loops once.
func (g *gate) turn() {
	g.t.Helper()
	_, err := g.announce(g.t.Context())
	require.NoError(g.t, err)
	_, err = g.notify(g.t.Context())
	require.NoError(g.t, err)
	g.sending.Wait()
}

func (g *gate) notices() string {
	g.t.Helper()
	return g.Text(`select string_agg(channel || ' ' || recipient || ' ' || state || ' ' || attempts, ', ' order by recipient) from notifications`)
}

// TestNotify is A1: the record stands, whatever becomes of its notifications.
func TestNotify(t *testing.T) {
	t.Parallel()

	t.Run("EachRecipientIsToldOnceWithALinkOfTheirOwn", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test", "sam@example.test"}}
		g := loft(t, p)
		asked := g.waiting("k")
		g.turn()
		g.turn()
		require.Equal(t, "mail nora@example.test sent 1, mail sam@example.test sent 1", g.notices())
		require.Len(t, p.sent, 2)
		require.NotEqual(t, p.sent[0].Link, p.sent[1].Link)
		for _, m := range p.sent {
			token := regexp.MustCompile(`^http://127\.0\.0\.1:7075/l/([A-Za-z0-9_-]{43})$`).FindStringSubmatch(m.Link)
			require.NotNil(t, token, m.Link)
			found, err := g.env.Ledger.FindToken(t.Context(), tokenHash(token[1]))
			require.NoError(t, err)
			require.Equal(t, asked.ApprovalID, found.ApprovalID)
			require.Equal(t, "mail "+m.Recipient, found.Recipient)
			require.Zero(t, g.Count(`select count(*) from approval_tokens t where t::text like '%' || $1 || '%'`, token[1]), "only its hash is kept (A2)")
		}
	})

	t.Run("AFailureIsRetriedAndTouchesNothingElse", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}, fail: errors.New("no mail today")}
		g := loft(t, p)
		asked := g.waiting("k")
		g.turn()
		require.Equal(t, "mail nora@example.test waiting 1", g.notices())
		require.Contains(t, g.Text(`select last_error from notifications`), "no mail today")
		require.Equal(t, untouched, g.state(asked))
		g.turn()
		require.Len(t, p.sent, 1, "not before its time")
		p.fail = nil
		g.Exec(`update notifications set next_at = clock_timestamp()`)
		g.turn()
		require.Equal(t, "mail nora@example.test sent 2", g.notices())
		require.NotEqual(t, p.sent[0].Link, p.sent[1].Link, "a repeat has a new token")
		require.Equal(t, p.sent[0].ID, p.sent[1].ID, "and is the same message")
		require.Equal(t, 1, g.Count(`select count(*) from approval_tokens where spent_at is null`), "the old token is revoked")
		require.Equal(t, 1, g.Count(`select count(*) from approvals`), "and there is no second request")
	})

	t.Run("PatienceEndsAndSaysSo", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}, fail: errors.New("gone")}
		g := loft(t, p)
		asked := g.waiting("k")
		for range maxAttempts {
			g.Exec(`update notifications set next_at = clock_timestamp()`)
			g.turn()
		}
		require.Equal(t, "mail nora@example.test failed 10", g.notices())
		require.Equal(t, untouched, g.state(asked))
	})

	t.Run("AProcessThatDiesWhileItSendsIsFollowedByAnother", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}}
		g := loft(t, p)
		g.waiting("k")
		_, err := g.announce(t.Context())
		require.NoError(t, err)
		taken, err := g.env.Ledger.TakeNotices(t.Context(), 10, noticeHold)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		g.turn()
		require.Empty(t, p.sent, "it is held for the one that took it")
		g.Exec(`update notifications set next_at = clock_timestamp()`)
		g.turn()
		require.Len(t, p.sent, 1)
	})

	t.Run("WhatIsDecidedIsToldToNobodyAnyMore", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}}
		g := loft(t, p)
		asked := g.waiting("k")
		_, err := g.announce(t.Context())
		require.NoError(t, err)
		require.Equal(t, ledger.VoteRejected, g.Vote(asked.Vote("sam", ledger.Reject))[0].Result)
		g.turn()
		require.Empty(t, p.sent)
		require.Equal(t, "mail nora@example.test moot 0", g.notices())
	})

	t.Run("WhatHasRunOutMeanwhileIsToldToNobodyEither", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}}
		g := loft(t, p)
		g.waiting("k")
		_, err := g.announce(t.Context())
		require.NoError(t, err)
		g.Exec(`update approvals set decide_by = clock_timestamp()`)
		g.turn()
		require.Empty(t, p.sent)
		require.Equal(t, "mail nora@example.test moot 1", g.notices())
	})

	t.Run("WhereOthersMayReadItTheLinkHoldsNoToken", func(t *testing.T) { // A2
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}, open: true}
		g := loft(t, p)
		asked := g.waiting("k")
		g.turn()
		require.Equal(t, "http://127.0.0.1:7075"+cardPath(asked), p.sent[0].Link)
		require.Zero(t, g.Count(`select count(*) from approval_tokens`))
		for address, private := range map[string]bool{"https://desk.example/x": true, "http://127.0.0.1:1/x": true, "http://desk.example/x": false} {
			require.Equal(t, private, (&webhookSender{url: address}).private(), address)
		}
	})

	t.Run("ChannelsOfOtherRolesAreNotUsed", func(t *testing.T) {
		t.Parallel()
		p := &pigeon{to: []string{"nora@example.test"}}
		g := loft(t, p, "sales-operations")
		g.waiting("k")
		g.turn()
		require.Empty(t, p.sent)
		require.Contains(t, g.Logs.String(), "no channel serves the audience")
	})
}

// TestSenders sends by both kinds of channel to the sandbox's mail server and webhook receiver.
func TestSenders(t *testing.T) {
	t.Parallel()
	w := servicetest.New(t)
	smtp, err := w.Sandbox.SMTPAddr(t.Context())
	require.NoError(t, err)
	m := &message{ID: "a.mail.x", Recipient: "nora@example.test", Tenant: "Demo", Link: "http://127.0.0.1:7075/l/abc",
		Asked: ledger.Asked{ActionType: "payment.refund", Audience: []string{"support-lead"}, CorrelationID: "t-1", DecideBy: time.Now()}}

	mail, err := newSender(&config.Channel{Kind: config.ChannelEmail, Timeout: time.Second,
		Email: &config.Email{Server: smtp, From: "holdpoint@example.test", To: []string{m.Recipient}, TLS: config.TLSNone}})
	require.NoError(t, err)
	require.NoError(t, mail.send(t.Context(), m))
	require.NoError(t, mail.send(t.Context(), m))
	letters, err := w.Sandbox.AwaitMail(t.Context(), m.Recipient, 2)
	require.NoError(t, err)
	require.Contains(t, letters[0].Text, m.Link)
	require.Equal(t, letters[0].MessageID, letters[1].MessageID, "a repeat can be told by its id")

	const secret = "whsec_Zm9yIHRoZSBkZW1vIG9uIG9uZSBtYWNoaW5lIG9ubHk="
	hook, err := newSender(&config.Channel{Kind: config.ChannelWebhook, Timeout: time.Second,
		Webhook: &config.Webhook{URL: w.Sandbox.URL() + "/hooks/desk", Secret: secret}})
	require.NoError(t, err)
	require.NoError(t, hook.send(t.Context(), m))
	posts, err := w.Sandbox.AwaitHooks(t.Context(), "desk", 1)
	require.NoError(t, err)
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(posts[0].Body, posts[0].Header))
	require.Contains(t, string(posts[0].Body), m.Link)

	refused, err := newSender(&config.Channel{Kind: config.ChannelWebhook, Timeout: time.Second,
		Webhook: &config.Webhook{URL: w.Sandbox.URL() + "/nowhere", Secret: secret}})
	require.NoError(t, err)
	require.ErrorContains(t, refused.send(t.Context(), m), http.StatusText(http.StatusNotFound))
}
