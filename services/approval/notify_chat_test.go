package approval

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/ledger/ledgertest"
)

// plaza is a gate whose loops the test turns by hand. Leads are told in Slack; refunds escalate to operators, who are told in Teams.
func plaza(t *testing.T) (g *gate, slack, teams *room) {
	t.Helper()
	slack, teams = newRoom(t, slackOK), newRoom(t, teamsOK)
	g = loft(t, &pigeon{to: []string{"nobody@example.test"}}, "sales-operations")
	tenant := g.tenant("demo")
	for _, c := range []*config.Channel{slack.channel(config.ChannelSlack, "support-lead"), teams.channel(config.ChannelTeams, "operator")} {
		s, err := newSender(c)
		require.NoError(t, err)
		tenant.Channels, tenant.channels[c.ID] = append(tenant.Channels, c), s
	}
	refund := tenant.actions["payment.refund"]
	refund.Review.RemindBefore, refund.Review.Escalation = time.Hour, &config.Escalation{Before: 30 * time.Minute, To: []string{"operator"}}
	return g, slack, teams
}

// atOnce makes what waits to be sent again due.
func (g *gate) atOnce() {
	g.Exec(`update notifications set next_at = clock_timestamp() where state = 'waiting'`)
}

// kinds are those of the events about an approval, in their order.
func (g *gate) kinds(a ledgertest.Asked) string {
	return g.Text(`select coalesce(string_agg(convert_from(payload, 'UTF8')::json->'data'->>'kind', ' ' order by event_id), '')
from event_log where run_id = $1 and subject like '%.approval.requested'`, a.Effect.RunID)
}

// proposal is what no chat may ever hold: of the refund, of its event, of the people.
var proposal = []string{"250", "EUR", "rita", "nora", "p-k", "ticket-k", "example.test", "The amount", "support-lead", hushed}

func TestChatIsTold(t *testing.T) {
	t.Parallel()

	t.Run("OnceAndNothingOfTheProposal", func(t *testing.T) { // A18, A2
		t.Parallel()
		g, slack, teams := plaza(t)
		asked := g.waiting("k")
		g.turn()
		g.turn()
		require.Len(t, slack.heard(), 1)
		require.Empty(t, teams.heard())
		require.Equal(t, "slack  sent 1", g.notices())
		require.Contains(t, slack.heard()[0], `\nWhat: payment.refund\nRisk: `+g.tenant("demo").actions["payment.refund"].Risk+`\n`)
		require.Contains(t, slack.heard()[0], "http://127.0.0.1:7075"+cardPath(asked))
		for _, personal := range proposal {
			require.NotContains(t, strings.ReplaceAll(slack.heard()[0], asked.ApprovalID.String(), ""), personal)
		}
		require.Zero(t, g.Count(`select count(*) from approval_tokens`), "a channel is nobody whom a token could be tied to")
		require.Equal(t, "requested", g.kinds(asked))
	})

	t.Run("AgainBeforeTheEndAndThenOthers", func(t *testing.T) { // A12
		t.Parallel()
		g, slack, teams := plaza(t)
		asked := g.waiting("k")
		g.turn()
		g.within(asked, 59*time.Minute)
		g.later()
		g.later()
		require.Len(t, slack.heard(), 2)
		require.Contains(t, slack.heard()[1], "A decision is still waiting for you")
		require.Empty(t, teams.heard())
		g.within(asked, 29*time.Minute)
		g.later()
		g.later()
		require.Len(t, slack.heard(), 2)
		require.Len(t, teams.heard(), 1)
		require.Contains(t, teams.heard()[0], "Nobody has decided yet, and you may")
		for _, personal := range proposal {
			require.NotContains(t, strings.ReplaceAll(teams.heard()[0], asked.ApprovalID.String(), ""), personal)
		}
		require.Equal(t, "requested reminder escalation", g.kinds(asked))
	})

	t.Run("WhatNoChatTakesEscalatesInsteadOfRunningOut", func(t *testing.T) {
		t.Parallel()
		g, slack, teams := plaza(t)
		slack.answers(replies(http.StatusOK, "invalid_payload", ""))
		asked := g.waiting("k")
		g.turn()
		g.within(asked, 2*time.Hour)
		for range maxAttempts - 1 {
			require.Empty(t, teams.heard())
			g.atOnce()
			g.later()
		}
		require.Equal(t, "failed", g.Text(`select state from notifications where channel = 'slack'`))
		require.Contains(t, g.Text(`select last_error from notifications where channel = 'slack'`), "invalid_payload")
		g.later()
		require.Len(t, slack.heard(), maxAttempts)
		require.Len(t, teams.heard(), 1)
		require.Equal(t, "{support-lead,operator}", g.Text(`select audience::text from approvals`))
		require.Equal(t, "requested escalation", g.kinds(asked))
		require.Equal(t, untouched, g.state(asked))
		require.NotContains(t, g.Logs.String(), "hushed", "the address is a secret")
		require.NotContains(t, g.Text(`select string_agg(n::text, ' ') from notifications n`), "hushed")
	})

	t.Run("NotBeforeTheTimeThatItAskedFor", func(t *testing.T) {
		t.Parallel()
		g, slack, _ := plaza(t)
		slack.answers(replies(http.StatusTooManyRequests, "rate_limited", "120"))
		g.waiting("k")
		g.turn()
		require.Equal(t, "slack  waiting 1", g.notices())
		require.Equal(t, 1, g.Count(`select count(*) from notifications where next_at between clock_timestamp() + interval '100 seconds'
and clock_timestamp() + interval '121 seconds'`))
		slack.answers(slackOK)
		g.turn()
		require.Len(t, slack.heard(), 1)
		g.atOnce()
		g.turn()
		require.Equal(t, "slack  sent 2", g.notices())
	})

	t.Run("ASecondTimeAtMostWhereTheProcessDiesBeforeItIsRecorded", func(t *testing.T) { // A1
		t.Parallel()
		g, slack, _ := plaza(t)
		asked := g.waiting("k")
		_, err := g.announce(t.Context())
		require.NoError(t, err)
		taken, err := g.env.Ledger.TakeNotices(t.Context(), 10, noticeHold)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		told, err := g.tell(t.Context(), &taken[0]) // and the process is gone
		require.NoError(t, err)
		require.True(t, told)
		g.turn()
		require.Len(t, slack.heard(), 1, "it is held for the one that took it")
		g.atOnce()
		for range 3 {
			g.turn()
		}
		require.Len(t, slack.heard(), 2)
		link := regexp.MustCompile(`/approvals/[0-9a-f-]+`)
		require.Equal(t, link.FindString(slack.heard()[0]), link.FindString(slack.heard()[1]), "of the same request")
		require.Equal(t, "slack  sent 2", g.notices())
		require.Equal(t, untouched, g.state(asked))
		require.Equal(t, 1, g.Count(`select count(*) from approvals`), "there is no second request")
		require.Equal(t, "requested", g.kinds(asked), "and no second event")
	})

	t.Run("NothingOfWhatIsDecidedOrHasRunOut", func(t *testing.T) {
		t.Parallel()
		g, slack, _ := plaza(t)
		decided, over := g.waiting("decided"), g.waiting("over")
		_, err := g.announce(t.Context())
		require.NoError(t, err)
		g.Vote(decided.Vote("sam", ledger.Reject))
		g.Exec(`update approvals set decide_by = clock_timestamp() where approval_id = $1`, over.ApprovalID)
		g.turn()
		require.Empty(t, slack.heard())
		require.Equal(t, 2, g.Count(`select count(*) from notifications where state = 'moot'`))
	})
}

// TestChatLinks is APR-01 and APR-02 for the links in chats, which preview bots fetch at once, with and without following redirects.
func TestChatLinks(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 2)
	slack := newRoom(t, func(w http.ResponseWriter, r *http.Request) { slackOK(w, r); came <- struct{}{} })
	teams := newRoom(t, func(w http.ResponseWriter, r *http.Request) { teamsOK(w, r); came <- struct{}{} })
	g := newGate(t, func(c *gateConfig) {
		c.tenant = func(tenant *config.Tenant) {
			tenant.Channels = []*config.Channel{slack.channel(config.ChannelSlack), teams.channel(config.ChannelTeams)}
		}
	})
	asked := g.waiting("k")
	for range 2 {
		select {
		case <-came:
		case <-time.After(20 * time.Second):
			t.Fatal("a chat was not told")
		}
	}
	audits := g.Count(`select count(*) from audit_events`)
	var links []string
	for _, post := range append(slack.heard(), teams.heard()...) {
		links = append(links, regexp.MustCompile(regexp.QuoteMeta(g.base)+`[^"|\\]*`).FindAllString(post, -1)...)
	}
	require.Len(t, links, 3, "Slack's text and block, and the card's action")
	for _, link := range links {
		require.Equal(t, g.base+cardPath(asked), link, "no URL in a message holds a token, and none can decide")
		for _, method := range []string{http.MethodHead, http.MethodGet, http.MethodGet, http.MethodGet} {
			bot := g.as("nora").raw(method, cardPath(asked))
			require.Equal(t, http.StatusSeeOther, bot.Status)
			require.Contains(t, bot.Header.Get("X-Robots-Tag"), "noindex")
			require.Empty(t, bot.Header.Values("Set-Cookie"))
			for _, secret := range append(proposal, "refund", "Demo") {
				require.NotContains(t, bot.Body, secret)
			}
			other := g.as("nora").raw(method, "/approvals/"+asked.Effect.RunID.String())
			require.Equal(t, strings.ReplaceAll(other.Header.Get("Location"), asked.Effect.RunID.String(), asked.ApprovalID.String()),
				bot.Header.Get("Location"), "a request that is none looks the same")
		}
		require.NotEqual(t, http.StatusOK, g.as("nora").raw(http.MethodPost, cardPath(asked)).Status)
	}
	require.Equal(t, untouched, g.state(asked))
	require.Equal(t, audits, g.Count(`select count(*) from audit_events`), "nobody has viewed it")
	require.Contains(t, g.as("nora").decide(asked, ledger.Approve, "yes").Says(), "Approved.", "whoever signs in decides by it")
	require.Equal(t, approved, g.state(asked))
}
