package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

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

const (
	leave   = "Nothing. Do not propose it again."
	askSoon = "Ask again with " + toolWait + ". Do not propose it again, under this key or another."
)

// describe puts a run's state into words. Unknown is never told as done or not done (K14).
func describe(a *contracts.Answer) *standing {
	s := &standing{Answer: a, Ended: client.Ended(a)}
	switch {
	case s.unknown():
		s.Meaning = "The outcome is unknown: a write may or may not have taken place. Holdpoint finds out by reading."
		s.Next = "Ask again later. Do not propose it again and do not do it by other means: it could happen twice."
	case s.Ended:
		s.Meaning, s.Next = ended(a)
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
	return "It is stored, and the rules have not decided about it yet.", askSoon
}

// endings are what outcomes mean, and what may follow.
var endings = map[string][2]string{
	contracts.OutcomeExecuted: {"It was carried out, once. The effects name what the other system calls it.", leave},
	contracts.OutcomePartial:  {"Only a part of it was carried out. The effects say which.", "Tell the user which part is missing."},
	contracts.OutcomeRejected: {"A person said no, or it was taken back. Nothing was done.", "Tell the user. Do not propose it again."},
	contracts.OutcomeExpired:  {"Nobody decided in time. Nothing was done.", "Tell the user; whether to ask anew is theirs to say."},
	contracts.OutcomeDenied:   {"The rules do not allow it. Nothing was done.", "Tell the user. Do not look for a way around it."},
	contracts.OutcomeInvalid:  {"No valid proposal was made of it. Nothing was done.", "Tell the user."},
	contracts.OutcomeFailed: {"It ended without being carried out.",
		"Tell the user. A correction is a new event, under its own key."},
}

func ended(a *contracts.Answer) (meaning, next string) {
	words, ok := endings[a.Outcome]
	if !ok {
		return fmt.Sprintf("It has ended as %q.", a.Outcome), "Tell the user."
	}
	return words[0], words[1]
}

// What may be done after an error.
const (
	retrySame      = "same_key"           // the same call, unchanged
	retryCorrected = "same_key_corrected" // the same key, with what is wrong put right: nothing was stored
	retryNever     = "no"                 // no call of the model's will help
)

// codeArguments and codeUnanswered are codes beside those of problems.
const (
	codeArguments  = "arguments"
	codeUnanswered = "unanswered"
)

// refusal is an error for a model.
type refusal struct {
	Code   string                 `json:"code"`
	Detail string                 `json:"detail"`
	Retry  string                 `json:"retry"`
	Next   string                 `json:"next"`
	RunID  string                 `json:"run_id,omitempty"`
	Errors []contracts.FieldError `json:"errors,omitempty"`
}

// advice is what to do about a code, in two forms.
type advice struct{ retry, next string }

var advices = map[string]advice{
	codeArguments: {retryCorrected, "Nothing was sent. Correct the arguments and call again."},
	codeUnanswered: {retrySame, "The outcome is unknown: it may be stored or not. Call again with the same key and the same " +
		"event, unchanged, or ask with " + toolStatus + "."},
	contracts.CodeUnavailable:     {retrySame, "Nothing was stored. Call again in a while, with the same key and the same event."},
	contracts.CodeTooManyRequests: {retrySame, "Nothing was stored. Call again in a while, with the same key and the same event."},
	contracts.CodeSchemaInvalid: {retryCorrected,
		"Nothing was stored. Correct what the errors name, and call again with the same key."},
	contracts.CodeMalformed:  {retryCorrected, "Nothing was stored. Correct the event, and call again with the same key."},
	contracts.CodeTooLarge:   {retryCorrected, "Nothing was stored. Send less, with the same key."},
	contracts.CodeKeyInvalid: {retryCorrected, "Nothing was stored. " + keyMeaning},
	contracts.CodeKeyMissing: {retryCorrected, "Nothing was stored. " + keyMeaning},
	contracts.CodePayloadMismatch: {retryNever, "This key belongs to an event with other content, whose run goes on; nothing of " +
		"this call was stored. Look at that run with " + toolStatus + ". If you changed the arguments of the same event, do " +
		"not send them under another key: tell the user."},
	contracts.CodeUnknownSource: {retryNever, "Nothing was stored. Ask the user or Holdpoint's operator for the source's name."},
	contracts.CodeNotFound: {retryNever, "No event with this key or id is stored. If you proposed it and got no answer, propose " +
		"it again with the same key."},
}

// refusalOf puts an error into words.
func refusalOf(err error, tool string) *refusal {
	r := &refusal{Code: contracts.CodeUnavailable, Detail: "Holdpoint does not answer."}
	var problem *contracts.Problem
	var arguments *argumentError
	switch {
	case errors.As(err, &arguments):
		r.Code, r.Detail = codeArguments, arguments.text
	case errors.Is(err, client.ErrUnanswered):
		r.Code, r.Detail = codeUnanswered, "Holdpoint did not answer."
	case errors.As(err, &problem):
		r.Code, r.Detail, r.RunID, r.Errors = problem.Code, cmp.Or(problem.Detail, problem.Title), problem.RunID, problem.Errors
	}
	what, ok := advices[r.Code]
	if !ok {
		what = advice{retryNever, "Tell the user, or Holdpoint's operator."}
	}
	r.Retry, r.Next = what.retry, what.next
	if tool != toolPropose && r.Code == contracts.CodeUnavailable {
		r.Next = "It says nothing about the run. Ask again in a while."
	}
	return r
}

// answered is a result, as text for models and as data for programs.
func answered(s *standing) *sdk.CallToolResult {
	text := fmt.Sprintf("%s\nNext: %s\nRun %s, key %q, state %s%s.", s.Meaning, s.Next, s.RunID, s.IdempotencyKey, s.State,
		after(", outcome ", s.Outcome))
	for _, e := range s.Effects {
		text += fmt.Sprintf("\nEffect %s: %s%s.", e.OperationID, e.State, after(", known to the other system as ", e.ExternalID))
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: s}
}

// refused is an error result.
func refused(r *refusal) *sdk.CallToolResult {
	lines := []string{fmt.Sprintf("%s: %s", r.Code, r.Detail)}
	for _, e := range r.Errors {
		lines = append(lines, fmt.Sprintf("At %q: %s", e.Pointer, e.Detail))
	}
	if r.RunID != "" {
		lines = append(lines, "The run is "+r.RunID+".")
	}
	lines = append(lines, "Next: "+r.Next)
	return &sdk.CallToolResult{IsError: true, StructuredContent: r,
		Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(lines, "\n")}}}
}

func after(words, value string) string {
	if value == "" {
		return ""
	}
	return words + value
}
