package mcp

import (
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/client"
)

// standing is where a run stands, for a model: the API's answer, what it means, and what to do.
type standing struct {
	*contracts.Answer
	Ended   bool   `json:"ended"`
	Meaning string `json:"meaning"`
	Next    string `json:"next"`
}

func (s *standing) unknown() bool { return s.Result == contracts.ResultOutcomeUnknown }

const askSoon = "Ask again with " + toolWait + ". Do not propose it again, under this key or another."

// describe puts a run's state into words. Unknown is never told as done or not done (K14).
func describe(a *contracts.Answer) *standing {
	s := &standing{Answer: a, Ended: client.Ended(a)}
	switch {
	case s.Ended:
		s.Meaning, s.Next = ended(a)
	case s.unknown():
		s.Meaning = "The outcome is unknown: a write may or may not have taken place. Holdpoint finds out by reading."
		s.Next = "Ask again later. Do not propose it again and do not do it by other means: it could happen twice."
	default:
		s.Meaning, s.Next = underway(a.State)
	}
	return s
}

func underway(state string) (meaning, next string) {
	switch state {
	case contracts.StateAwaitingHuman:
		return "A person has to decide about it. Nothing is done before that.",
			"Tell the user that it waits for a person, and ask again with " + toolStatus + " later; it may take hours. " +
				"Do not propose it again."
	case contracts.StateApproved:
		return "It may be carried out, and will be in a moment.", askSoon
	case contracts.StateFailedRetryable:
		return "It is stored, and a worker will try again to draft it.", askSoon
	}
	return "It is stored, and not decided yet: the rules come next, or first a worker that drafts the proposal, where the event " +
		"carried none.", askSoon
}

// endings are what outcomes mean, and what may follow.
var endings = map[string]struct{ meaning, next string }{
	contracts.OutcomeExecuted: {"It was carried out, once. The effects name what the other system calls it.",
		"Nothing. Do not propose it again."},
	contracts.OutcomePartial: {"Only a part of it was carried out. The effects say which.",
		"Tell the user which part is missing."},
	contracts.OutcomeRejected: {"A person said no, or it was taken back. Nothing was done.",
		"Tell the user. Do not propose it again."},
	contracts.OutcomeExpired: {"Nobody decided in time. Nothing was done.",
		"Tell the user; whether to ask anew is theirs to say."},
	contracts.OutcomeDenied: {"The rules do not allow it. Nothing was done.",
		"Tell the user. Do not look for a way around it."},
	contracts.OutcomeInvalid: {"No valid proposal was made of it. Nothing was done.", "Tell the user."},
	contracts.OutcomeFailed: {"It ended without being carried out.",
		"Tell the user. A correction is a new event, under its own key."},
}

func ended(a *contracts.Answer) (meaning, next string) {
	meaning, next = endedAs(a)
	if a.Reason != "" && a.Outcome != contracts.OutcomeExecuted {
		meaning += " The reason: " + a.Reason
	}
	return meaning, next
}

func endedAs(a *contracts.Answer) (meaning, next string) {
	words, ok := endings[a.Outcome]
	if !ok {
		return fmt.Sprintf("It has ended as %q.", a.Outcome), "Tell the user."
	}
	return words.meaning, words.next
}

// result is text for models and data for programs.
func (s *standing) result() *sdk.CallToolResult {
	text := fmt.Sprintf("%s\nNext: %s\nRun %s, key %q, state %s%s.", s.Meaning, s.Next, s.RunID, s.IdempotencyKey, s.State,
		after(", outcome ", s.Outcome))
	for _, e := range s.Effects {
		text += fmt.Sprintf("\nEffect %s: %s%s.", e.OperationID, e.State,
			after(", known to the other system as ", e.ExternalID))
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: s}
}

func after(words, value string) string {
	if value == "" {
		return ""
	}
	return words + value
}
