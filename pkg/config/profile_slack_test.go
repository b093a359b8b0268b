package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/connector"
	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// TestProfileSlackLike holds the profile against the sandbox's like of it: no keys, and errors inside of HTTP 200.
func TestProfileSlackLike(t *testing.T) {
	t.Parallel()
	slack := shipped{profile: "slack_like", path: "/slack", system: sandbox.Slack}
	const (
		post    = `{"target":{"system":"slack","record_id":"C0SUPPORT"},"proposed_change":{"text":"Shipped."}}`
		nowhere = `{"target":{"system":"slack","record_id":"support"},"proposed_change":{"text":"Shipped."}}`
		silent  = `{"target":{"system":"slack","record_id":"C0SUPPORT"},"proposed_change":{"text":""}}`
	)
	once := func(action string, class outcome.Class) []step { return []step{{action: action, class: class}} }
	exchanges := []exchange{
		{name: "AMessageIsFoundInItsChannel", steps: once(post, outcome.Succeeded), looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "TheSamePostAgainIsAnotherMessage",
			steps: []step{{action: post, class: outcome.Succeeded}, {action: post, class: outcome.Succeeded}},
			looks: []look{{0, connector.Several, false}}, writes: 2},
		{name: "AMessageIsFoundAmongOthers",
			steps: []step{{action: post, class: outcome.Succeeded}, {action: post, class: outcome.Succeeded, id: "op-2"}},
			looks: []look{{0, connector.Found, true}}, writes: 2},
		{name: "ALostAnswerIsFoundInTheChannel", fault: lostAnswer, steps: once(post, outcome.Ambiguous),
			looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "WhatIsNotSeenInTheChannelProvesNothing", fault: notTaken, steps: once(post, outcome.Ambiguous),
			looks: []look{{time.Minute, connector.Absent, false}}},
		{name: "ACatastropheMayHavePostedIt", fault: wrote(200, "fatal_error"), steps: once(post, outcome.Ambiguous),
			looks: []look{{0, connector.Found, true}}, writes: 1},
		{name: "OrNot", fault: answers(200, "internal_error"), steps: once(post, outcome.Ambiguous),
			looks: []look{{0, connector.Absent, false}}},
		{name: "AHistoryThatMayNotBeRead", fault: answers(200, "missing_scope"),
			searches: answers(200, "missing_scope"), steps: once(post, outcome.Unauthorized), looks: []look{{0, connector.Unclear, false}}},
		{name: "AChannelThatIsNotThere", steps: once(nowhere, outcome.Refused)},
		{name: "AMessageWithoutText", steps: once(silent, outcome.Refused)},
		{name: "Archived", fault: answers(200, "is_archived"), steps: once(post, outcome.Refused)},
		{name: "AnErrorThatNobodyKnows", fault: answers(200, "new_error"), steps: once(post, outcome.Ambiguous)},
		{name: "BusyInside", fault: answers(200, "ratelimited"), steps: once(post, outcome.RejectedBusy)},
		{name: "BusyWithoutSayingForHowLong", fault: sandbox.Fault{Kind: sandbox.RateLimit}, steps: once(post, outcome.RejectedBusy)},
		{name: "TwoInASecond", personality: sandbox.Personality{Interval: sandbox.Duration(time.Second)}, writes: 1,
			steps: []step{{action: post, class: outcome.Succeeded}, {action: post, class: outcome.RejectedBusy, id: "op-2"}}},
		{name: "TokenRevoked", fault: answers(200, "token_revoked"), steps: once(post, outcome.Unauthorized)},
		{name: "HalfAnAnswer", fault: halfAnswer, steps: once(post, outcome.Ambiguous), writes: 1},
	}
	for i := range exchanges {
		exchanges[i].operation = "post_message"
	}
	slack.run(t, exchanges)

	t.Run("NothingIsReliedOnToReplay", func(t *testing.T) {
		t.Parallel()
		p := slack.provider(t)
		require.False(t, p.declared.Operations[0].IdempotentCreate())
		result := p.send(p.operation("post_message", step{action: post}))
		require.Equal(t, p.written(sandbox.Slack)[0].ObjectID, result.ExternalID, "ts is the message's id")
	})
}
