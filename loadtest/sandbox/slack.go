package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// slackMessage is the body of POST /slack/chat.postMessage, and what the ledger keeps of it.
type slackMessage struct {
	Channel  string         `json:"channel,omitempty"`
	Text     string         `json:"text"`
	Metadata *slackMetadata `json:"metadata,omitempty"`
}

type slackMetadata struct {
	EventType    string            `json:"event_type"`
	EventPayload map[string]string `json:"event_payload"` // operation_id is the caller's reference
}

// slackChannel are the channels that there are: all whose id has this form.
var slackChannel = regexp.MustCompile(`^C[A-Z0-9]{2,20}$`)

// slackSays is an error as Slack means it: HTTP 200, and the code inside.
func slackSays(code string) *problem { return &problem{http.StatusOK, code, code} }

func slackError(p *problem) any { return map[string]any{"ok": false, "error": p.code} }

// postMessage takes every message as a new one: there is no key, and two posts are two messages.
func postMessage(x *exchange) {
	var in slackMessage
	if !x.decode(&in) {
		return
	}
	if in.Metadata != nil {
		x.refer(in.Metadata.EventPayload["operation_id"])
	}
	switch {
	case !slackChannel.MatchString(in.Channel):
		x.refuse(slackSays("channel_not_found"))
		return
	case in.Text == "":
		x.refuse(slackSays("no_text"))
		return
	}
	channel := in.Channel
	in.Channel = ""
	fields, err := json.Marshal(in)
	if err != nil {
		x.refuse(unavailable(err))
		return
	}
	w := &Write{Place: channel, Fields: fields}
	w.answer = func() (int, any) {
		return http.StatusOK, map[string]any{"ok": true, "channel": channel, "ts": w.ObjectID, "message": w.message("")}
	}
	x.write("", w, func(l *ledger, w *Write) *problem {
		if wait := l.tooSoon(w, time.Duration(x.personality().Interval)); wait > 0 {
			x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			return &problem{http.StatusTooManyRequests, "ratelimited", "one message at a time"}
		}
		w.ObjectID = fmt.Sprintf("%d.%06d", w.Time.Unix(), w.Seq) // as Slack's: seconds, and what makes it unique
		return nil
	})
}

// tooSoon is how long the channel takes no message yet.
func (l *ledger) tooSoon(w *Write, interval time.Duration) time.Duration {
	posted := l.channels[w.Place]
	if len(posted) == 0 {
		return 0
	}
	return interval - w.Time.Sub(posted[len(posted)-1].Time)
}

// slackView is a message as the channel's history shows it.
type slackView struct {
	slackMessage
	Type string `json:"type"`
	TS   string `json:"ts"`
}

func (w *Write) message(suffix string) slackView {
	view := slackView{Type: "message", TS: w.ObjectID + suffix}
	if err := json.Unmarshal(w.Fields, &view.slackMessage); err != nil {
		panic(err) // it was marshalled by postMessage
	}
	return view
}

// showHistory shows the newest messages of a channel first, at most ?limit= of them. Metadata is there only where it is asked for.
func showHistory(x *exchange) {
	query := x.r.URL.Query()
	channel := query.Get("channel")
	if !slackChannel.MatchString(channel) {
		x.refuse(slackSays("channel_not_found"))
		return
	}
	view := func(w *Write, copied bool) any {
		suffix := ""
		if copied {
			suffix = duplicateSuffix
		}
		message := w.message(suffix)
		if query.Get("include_all_metadata") != "true" {
			message.Metadata = nil
		}
		return message
	}
	messages, ok := x.matches(view, func() (posted []*Write, err error) {
		err = x.server.ledger.read(func() { posted = slices.Clone(x.server.ledger.channels[channel]) })
		slices.Reverse(posted)
		return posted, err
	})
	if !ok {
		return
	}
	limit := number(query.Get("limit"))
	if limit == 0 {
		limit = 100
	}
	shown := messages[:min(limit, len(messages))]
	x.finish(http.StatusOK, map[string]any{"ok": true, "messages": shown, "has_more": len(shown) < len(messages)})
}
