package proposer

import (
	"encoding/json"
	"regexp"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// reply is what is used of a chat completion. Whatever else stands there, such as reasoning_content, is dropped (M5).
type reply struct {
	text        string
	model       string // as the endpoint calls it
	fingerprint string
	tokens      int64 // of the whole call; 0 where the endpoint does not say
}

// readReply takes the text out of a chat completion, or says in the result why there is none.
func readReply(body []byte) (reply, result) {
	if !json.Valid(body) {
		return reply{}, failed(unclear, "the model endpoint's answer is no JSON document")
	}
	whole, err := canonical.Parse(body)
	if err != nil {
		return reply{}, failed(invalid, "the answer cannot be read faithfully: %v", err)
	}
	r := reply{model: sound(textAt(whole, "/model")), fingerprint: sound(textAt(whole, "/system_fingerprint"))}
	if usage, ok := whole.Pointer("/usage/total_tokens"); ok {
		r.tokens, _ = usage.Int64()
	}
	if _, failing := whole.Get("error"); failing {
		return r, failed(unclear, "the model endpoint answered 200 with an error")
	}
	choice, ok := whole.Pointer("/choices/0")
	if !ok {
		return r, failed(invalid, "the answer has no choices")
	}
	r.text = textAt(choice, "/message/content")
	return r, judge(choice, r.text)
}

// judge says what the model did other than answering.
func judge(choice canonical.Value, text string) result {
	tools, _ := choice.Pointer("/message/tool_calls")
	legacy, _ := choice.Pointer("/message/function_call")
	finish := textAt(choice, "/finish_reason")
	switch {
	case textAt(choice, "/message/refusal") != "":
		return failed(declined, "the model refused")
	case finish == "content_filter":
		return failed(declined, "the provider's content filter stopped the answer")
	case finish == "error":
		return failed(unclear, "the model endpoint stopped with an error")
	case tools.Len() > 0, !legacy.IsNull(), finish == "tool_calls", finish == "function_call":
		return failed(invalid, "the answer calls a tool, and none was offered")
	case finish == "length":
		return failed(invalid, "the answer was cut off at the longest output; it must be shorter")
	case text == "":
		return failed(invalid, "the answer has no text")
	}
	return result{class: answered}
}

// textAt is the text that a pointer leads to, or "".
func textAt(v canonical.Value, pointer string) string {
	found, _ := v.Pointer(pointer)
	if found.Kind() != canonical.String {
		return ""
	}
	return found.Text()
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// sound is a name that can be recorded. Servers also report paths and addresses as the name of their model, which say
// more about the machine than about the model (M5).
func sound(name string) string {
	if !plainName.MatchString(name) || address.MatchString(name) {
		return ""
	}
	return name
}

var address = regexp.MustCompile(`://|^[^/]*:[0-9]+/|^[0-9]+(\.[0-9]+){3}`)
