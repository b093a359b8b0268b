package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Reply tokens: the broker's acknowledgement and intake's answer come back on one subscription.
const (
	tokenStored   = "s"
	tokenAnswered = "a"
)

// answered takes a message from the reply subscription.
func (d *natsDoor) answered(msg *nats.Msg) {
	kind, number, _ := strings.Cut(strings.TrimPrefix(msg.Subject, d.inbox), ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(d.due) {
		return
	}
	if kind == tokenAnswered {
		d.end(n, func(due time.Time) { d.tally.judge(d.own, d.board, d.plan.key(n), due, msg.Data) })
		return
	}
	if reason := notStored(msg); reason != "" {
		d.end(n, func(time.Time) { d.tally.fail(d.own, "NATS: %s", reason) })
	}
}

// notStored says why the broker did not store a message, or "" where it did.
func notStored(msg *nats.Msg) string {
	if len(msg.Data) == 0 {
		return "no stream takes the ingress subject (status " + msg.Header.Get("Status") + ")"
	}
	if !bytes.Contains(msg.Data, []byte(`"error"`)) && !bytes.Contains(msg.Data, []byte(`"duplicate"`)) {
		return ""
	}
	var ack struct {
		Duplicate bool `json:"duplicate"`
		Error     *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(msg.Data, &ack); {
	case err != nil:
		return "unreadable acknowledgement: " + err.Error()
	case ack.Error != nil:
		return "not stored: " + ack.Error.Description
	case ack.Duplicate:
		return "the broker took a copy for a repeat of one message id"
	default:
		return ""
	}
}
