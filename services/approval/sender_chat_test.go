package approval

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// hushed is the part of a room's address that makes it a secret.
const hushed = "/services/T0/B0/hushed"

// room plays the incoming webhook of a chat program.
type room struct {
	*httptest.Server

	mu     sync.Mutex
	posts  []string
	answer http.HandlerFunc
}

// newRoom answers as Slack does when it took a message, until it is told otherwise.
func newRoom(t *testing.T, answer http.HandlerFunc) *room {
	t.Helper()
	r := &room{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || request.Method != http.MethodPost || request.Header.Get("Content-Type") != "application/json" ||
			request.URL.Path != hushed {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		r.mu.Lock()
		r.posts = append(r.posts, string(body))
		answer := r.answer
		r.mu.Unlock()
		answer(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

// heard are the messages so far.
func (r *room) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.posts...)
}

func (r *room) answers(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *room) channel(kind string, roles ...string) *config.Channel {
	return &config.Channel{ID: kind, Kind: kind, Roles: roles, Timeout: time.Second, Chat: &config.Chat{URL: r.URL + hushed}}
}

// replies is an answer with a status, a body and a Retry-After where there is one.
func replies(status int, body, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var (
	slackOK = replies(http.StatusOK, "ok", "")
	teamsOK = replies(http.StatusAccepted, "", "")
)

func chatMessage() *message {
	return &message{ID: "a.slack.", Tenant: "Demo", Kind: ledger.NoticeRequest, Risk: config.RiskHigh,
		Link: "https://approvals.example.com/approvals/01939e1c-0000-7000-8000-0000000000a1",
		Asked: ledger.Asked{TenantID: "demo", RunID: uuid.New(), ApprovalID: uuid.New(), ActionType: "payment.refund",
			Audience: []string{"support-lead"}, CorrelationID: "nora.customer@example.com",
			DecideBy: time.Now().Add(3*time.Hour + 20*time.Minute + 30*time.Second)}}
}

func sendTo(t *testing.T, c *config.Channel, m *message) error {
	t.Helper()
	s, err := newSender(c)
	require.NoError(t, err)
	require.Equal(t, []string{""}, s.recipients())
	require.False(t, s.private(), "no token goes to a chat (A2)")
	return s.send(t.Context(), m)
}

func TestChatSays(t *testing.T) {
	t.Parallel()
	lines := func(m *message) string {
		return "A decision is waiting for you at Holdpoint.\nWhat: payment.refund\nRisk: high\nTenant: Demo\nDecide by: " +
			m.Asked.DecideBy.UTC().Format(time.RFC1123) + " (3 hours 20 minutes left)\n" +
			"Opening the link decides nothing; it shows the request to who has signed in and may decide it."
	}

	t.Run("ToSlackTheTextAndTheLinkWithoutPreviews", func(t *testing.T) {
		t.Parallel()
		r, m := newRoom(t, slackOK), chatMessage()
		require.NoError(t, sendTo(t, r.channel(config.ChannelSlack), m))
		text, err := json.Marshal(lines(m))
		require.NoError(t, err)
		both, err := json.Marshal(lines(m) + "\n" + m.Link)
		require.NoError(t, err)
		require.JSONEq(t, `{"text":`+string(both)+`,"mrkdwn":false,"unfurl_links":false,"unfurl_media":false,"blocks":[
{"type":"section","text":{"type":"plain_text","emoji":false,"text":`+string(text)+`}},
{"type":"section","text":{"type":"mrkdwn","verbatim":true,"text":"<`+m.Link+`|Open the request>"}}]}`, r.heard()[0])
	})

	t.Run("ToTeamsACardWithOneActionThatOpensTheLink", func(t *testing.T) {
		t.Parallel()
		r, m := newRoom(t, teamsOK), chatMessage()
		require.NoError(t, sendTo(t, r.channel(config.ChannelTeams), m))
		var body []string
		for _, line := range strings.Split(lines(m), "\n") {
			body = append(body, `{"type":"RichTextBlock","inlines":[{"type":"TextRun","text":"`+line+`"}]}`)
		}
		require.JSONEq(t, `{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":{
"$schema":"http://adaptivecards.io/schemas/adaptive-card.json","type":"AdaptiveCard","version":"1.4","body":[`+strings.Join(body, ",")+`],
"actions":[{"type":"Action.OpenUrl","title":"Open the request","url":"`+m.Link+`"}]}}]}`, r.heard()[0])
	})

	t.Run("HostileTextAsTextInWhichNothingIsMarkupAndNoLinkIsMade", func(t *testing.T) {
		t.Parallel()
		slack, teams := newRoom(t, slackOK), newRoom(t, teamsOK)
		for _, r := range []*room{slack, teams} {
			for _, template := range []string{"", "{{.ActionType}} {{.Tenant}}"} {
				m := chatMessage()
				m.Asked.ActionType = "<!channel> <https://evil.example|x>\n*b* [y](https://evil.example) \u202Ea" + strings.Repeat("z", 9000)
				m.Tenant, m.Risk = "<@U1>", "" // no such action is registered
				c := r.channel(map[*room]string{slack: config.ChannelSlack, teams: config.ChannelTeams}[r])
				if template != "" {
					c.Chat.Template = &config.MessageTemplate{Text: template}
				}
				require.NoError(t, sendTo(t, c, m))
			}
		}
		for _, post := range append(slack.heard(), teams.heard()...) {
			require.Less(t, len(post), 4000)
			require.NotContains(t, post, "https://evil")
			require.NotContains(t, post, "evil.example")
			require.NotContains(t, post, "\u202E")
			require.Contains(t, post, "⟦U+000A⟧*b*")
		}
		for _, post := range slack.heard() {
			var p slackPost
			require.NoError(t, json.Unmarshal([]byte(post), &p))
			require.NotContains(t, p.Text+p.Blocks[0].Text.Text, "<")
			require.Contains(t, p.Text, "&lt;!channel&gt;")
			require.Len(t, p.Blocks, 2, "text makes no block")
		}
	})

	t.Run("OtherWordsWhereTheConfigurationHasSome", func(t *testing.T) {
		t.Parallel()
		r, m := newRoom(t, slackOK), chatMessage()
		c := r.channel(config.ChannelSlack)
		c.Chat.Template = &config.MessageTemplate{Text: "{{if eq .Kind \"reminder\"}}Again: {{end}}{{.ActionType}}, {{.Risk}}, {{.TimeLeft}}{{.CorrelationID}}"}
		m.Kind = ledger.NoticeReminder
		require.NoError(t, sendTo(t, c, m))
		require.Contains(t, r.heard()[0], "Again: payment.refund, high, 3 hours 20 minutes")
		require.NotContains(t, r.heard()[0], "customer", "a chat has no correlation id, whatever asks for it (A18)")
		require.Contains(t, r.heard()[0], m.Link)
		c.Chat.Template.Text = "{{.Amount}}"
		require.NoError(t, sendTo(t, c, m))
		require.Contains(t, r.heard()[1], "A decision is still waiting", "the usual words are better than none")
	})
}

func TestChatAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, kind string
		answer     http.HandlerFunc
		fails      string // "" where the message was taken
		after      time.Duration
	}{
		{"SlackSaysOk", config.ChannelSlack, slackOK, "", 0},
		{"SlackSaysAnErrorWith200", config.ChannelSlack, replies(200, "invalid_payload", ""), "did not say ok (invalid_payload)", 0},
		{"SlackSaysNothing", config.ChannelSlack, replies(200, "", ""), "did not say ok", 0},
		{"SlackArchivedTheChannel", config.ChannelSlack, replies(410, "channel_is_archived", ""), "410 Gone (channel_is_archived)", 0},
		{"SlackIsBroken", config.ChannelSlack, replies(500, "rollup_error", ""), "500 Internal Server Error (rollup_error)", 0},
		{"AnAnswerThatEchoesIsNotKept", config.ChannelSlack, replies(400, "hushed refund for Nora", ""), "400 Bad Request", 0},
		{"SlackAsksForAWhile", config.ChannelSlack, replies(429, "", "30"), "429 Too Many Requests", 30 * time.Second},
		{"TeamsAsksForAWhile", config.ChannelTeams, replies(503, "", "30"), "503 Service Unavailable", 30 * time.Second},
		{"AskedForTooLong", config.ChannelSlack, replies(429, "", "99999999"), "429", longestLater},
		{"AskedForADateInThePast", config.ChannelSlack, replies(429, "", "Mon, 02 Jan 2006 15:04:05 GMT"), "429", 0},
		{"AskedForNonsense", config.ChannelSlack, replies(429, "", "soon"), "429", 0},
		{"TeamsAccepts", config.ChannelTeams, teamsOK, "", 0},
		{"TeamsSays200", config.ChannelTeams, replies(200, "1", ""), "", 0},
		{"TeamsRefuses", config.ChannelTeams, replies(400, "", ""), "400 Bad Request", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := sendTo(t, newRoom(t, tc.answer).channel(tc.kind), chatMessage())
			if tc.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.fails)
			require.NotContains(t, err.Error(), "hushed")
			require.NotContains(t, err.Error(), "Nora")
			require.Equal(t, max(tc.after, firstWait), waitAfter(1, err))
			require.Equal(t, max(tc.after, longestWait), waitAfter(9, err), "what is asked for makes no wait shorter")
		})
	}

	t.Run("ADateIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		at := time.Now().Add(5 * time.Minute)
		err := sendTo(t, newRoom(t, replies(429, "", at.UTC().Format(http.TimeFormat))).channel(config.ChannelSlack), chatMessage())
		require.InDelta(t, 5*time.Minute, waitAfter(1, err), float64(10*time.Second))
	})

	t.Run("ARedirectIsNotFollowed", func(t *testing.T) {
		t.Parallel()
		elsewhere := newRoom(t, slackOK)
		r := newRoom(t, func(w http.ResponseWriter, request *http.Request) {
			http.Redirect(w, request, elsewhere.URL+hushed, http.StatusTemporaryRedirect)
		})
		err := sendTo(t, r.channel(config.ChannelSlack), chatMessage())
		require.ErrorContains(t, err, "307 Temporary Redirect")
		require.NotContains(t, err.Error(), "hushed")
		require.Empty(t, elsewhere.heard())
	})

	t.Run("ARoomThatHangsEndsWithTheTimeOut", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
		c := r.channel(config.ChannelTeams)
		c.Timeout = 50 * time.Millisecond
		err := sendTo(t, c, chatMessage())
		require.ErrorContains(t, err, "post to the chat")
		require.NotContains(t, err.Error(), "hushed")
	})

	t.Run("ARoomThatIsAwayIsAnErrorWithoutTheAddress", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t, slackOK)
		r.Close()
		err := sendTo(t, r.channel(config.ChannelSlack), chatMessage())
		require.ErrorContains(t, err, "connection refused")
		require.NotContains(t, err.Error(), "hushed")
	})
}

func TestChatAddress(t *testing.T) {
	t.Parallel()
	chat := func(c config.Chat) *config.Channel {
		return &config.Channel{ID: "x", Kind: config.ChannelSlack, Timeout: time.Second, Chat: &c}
	}

	t.Run("ComesFromAFile", func(t *testing.T) {
		t.Parallel()
		r := newRoom(t, slackOK)
		file := filepath.Join(t.TempDir(), "address")
		require.NoError(t, os.WriteFile(file, []byte(r.URL+hushed+"\n"), 0o600))
		require.NoError(t, sendTo(t, chat(config.Chat{URLFile: file}), chatMessage()))
		require.Len(t, r.heard(), 1)
	})

	for name, tc := range map[string]struct {
		chat config.Chat
		says string
	}{
		"InNoFile":          {config.Chat{URLFile: "/nowhere/hook"}, "read the address to post to"},
		"InAnEmptyVariable": {config.Chat{URLEnv: "HOLDPOINT_NO_SUCH_CHAT"}, "HOLDPOINT_NO_SUCH_CHAT, which holds the address"},
		"InTheClear":        {config.Chat{URL: "http://chat.example.com/hushed"}, "the address in url must be an https URL"},
		"OfAHostThatIsNotAllowed": {config.Chat{URL: "https://chat.example.com/hushed", AllowedHosts: []string{"hooks.slack.com"}},
			"allowed_hosts and the address in url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newSender(chat(tc.chat))
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "hushed")
		})
	}
}
