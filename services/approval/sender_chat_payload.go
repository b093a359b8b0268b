package approval

import (
	"fmt"
	"strings"
)

// openLabel is what the link of a chat message is called.
const openLabel = "Open the request"

// slackEscapes are the characters with which mentions, links and channels begin in Slack ("Formatting text for app surfaces").
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Slack's blocks, as far as they are used.
type (
	slackPost struct {
		Text        string       `json:"text"` // for notifications and readers that show no blocks
		Mrkdwn      bool         `json:"mrkdwn"`
		UnfurlLinks bool         `json:"unfurl_links"`
		UnfurlMedia bool         `json:"unfurl_media"`
		Blocks      []slackBlock `json:"blocks"`
	}
	slackBlock struct {
		Type string    `json:"type"`
		Text slackText `json:"text"`
	}
	slackText struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Emoji    *bool  `json:"emoji,omitempty"`
		Verbatim bool   `json:"verbatim,omitempty"`
	}
)

// slackMessage is always two blocks: the text, in which nothing is markup, and our link. Slack is asked to fetch nothing for a preview.
func slackMessage(text, link string) any {
	escaped, none := slackEscapes.Replace(text), false
	return slackPost{Text: escaped + "\n" + link, Blocks: []slackBlock{
		{"section", slackText{Type: "plain_text", Text: escaped, Emoji: &none}},
		{"section", slackText{Type: "mrkdwn", Text: "<" + slackEscapes.Replace(link) + "|" + openLabel + ">", Verbatim: true}},
	}}
}

// slackTook knows that "ok" is the only success: Slack tells some errors with status 200 as well.
func slackTook(reply []byte) error {
	if strings.TrimSpace(string(reply)) != "ok" {
		return fmt.Errorf("the chat answered 200 OK and did not say ok%s", said(reply))
	}
	return nil
}

// Teams' cards, as far as they are used.
type (
	teamsPost struct {
		Type        string            `json:"type"`
		Attachments []teamsAttachment `json:"attachments"`
	}
	teamsAttachment struct {
		ContentType string    `json:"contentType"`
		Content     teamsCard `json:"content"`
	}
	teamsCard struct {
		Schema  string        `json:"$schema"`
		Type    string        `json:"type"`
		Version string        `json:"version"`
		Body    []teamsLine   `json:"body"`
		Actions []teamsAction `json:"actions"`
	}
	teamsLine struct {
		Type    string     `json:"type"`
		Inlines []teamsRun `json:"inlines"`
	}
	teamsRun struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	teamsAction struct {
		Type  string `json:"type"`
		Title string `json:"title"`
		URL   string `json:"url"`
	}
)

// teamsMessage is an Adaptive Card of text runs, in which nothing is markup (text blocks would take Markdown), and of one action, which
// opens our link and submits nothing.
func teamsMessage(text, link string) any {
	card := teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4",
		Actions: []teamsAction{{"Action.OpenUrl", openLabel, link}}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			card.Body = append(card.Body, teamsLine{"RichTextBlock", []teamsRun{{"TextRun", line}}})
		}
	}
	return teamsPost{Type: "message", Attachments: []teamsAttachment{{"application/vnd.microsoft.card.adaptive", card}}}
}
