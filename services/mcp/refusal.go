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

const (
	sameAgain = "Nothing was stored. Call again in a while, with the same key and the same event."
	corrected = "Nothing was stored. Correct what is named, and call again with the same key."
)

var advices = map[string]advice{
	codeArguments: {retryCorrected, "Nothing was sent. Correct the arguments and call again."},
	codeUnanswered: {retrySame, "The outcome is unknown: it may be stored or not. Call again with the same key and the " +
		"same event, unchanged, or ask with " + toolStatus + "."},
	contracts.CodeUnavailable:     {retrySame, sameAgain},
	contracts.CodeTooManyRequests: {retrySame, sameAgain},
	contracts.CodeSchemaInvalid:   {retryCorrected, corrected},
	contracts.CodeMalformed:       {retryCorrected, corrected},
	contracts.CodeTooLarge:        {retryCorrected, corrected},
	contracts.CodeKeyInvalid:      {retryCorrected, "Nothing was stored. " + keyMeaning},
	contracts.CodeKeyMissing:      {retryCorrected, "Nothing was stored. " + keyMeaning},
	contracts.CodePayloadMismatch: {retryNever, "This key belongs to an event with other content, whose run stands; " +
		"nothing of this call was stored. Look at that run with " + toolStatus + ". If you changed the arguments of the " +
		"same event, do not send them under another key: tell the user."},
	contracts.CodeUnauthenticated: {retryNever, "Holdpoint does not know the API key of this server. Tell the user: over stdio it comes " +
		"from HOLDPOINT_API_KEY or --api-key-file, over HTTP from the client's Authorization header."},
	contracts.CodeUnknownSource: {retryNever,
		"Nothing was stored. Take the source's name from " + toolSources + ", or ask the user for it."},
	contracts.CodeNotFound: {retryNever, "No event with this key or id is stored. If you proposed it and got no answer, " +
		"propose it again with the same key."},
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
		r.Code, r.Detail = problem.Code, cmp.Or(problem.Detail, problem.Title)
		r.RunID, r.Errors = problem.RunID, problem.Errors
	}
	what, ok := advices[r.Code]
	if !ok {
		what = advice{retryNever, "Tell the user, or Holdpoint's operator."}
	}
	r.Retry, r.Next = what.retry, what.next
	if tool != toolPropose && (r.Code == contracts.CodeUnavailable || r.Code == codeUnanswered) {
		r.Next = "It says nothing about any run. Ask again in a while."
	}
	return r
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
