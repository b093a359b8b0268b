package modeltest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// What every completion says of itself.
const (
	Model       = "scripted-1"
	Fingerprint = "fp_scripted"
	Tokens      = 100
	// Reasoning is hidden reasoning, which every completion carries and nobody may keep.
	Reasoning = "hidden-reasoning-of-the-model"
	// Secret stands in the message of every problem, as providers quote keys there.
	Secret = "sk-quoted-by-the-provider"
)

// Says answers with a text.
func Says(content string) Reply { return Finishes("stop", map[string]any{"content": content}) }

// Finishes answers with one message and the reason why it ended.
func Finishes(reason string, message map[string]any) Reply {
	full := map[string]any{"role": "assistant", "reasoning_content": Reasoning}
	for name, value := range message {
		full[name] = value
	}
	return Completes(map[string]any{
		"model": Model, "system_fingerprint": Fingerprint, "usage": map[string]any{"total_tokens": Tokens},
		"choices": []any{map[string]any{"index": 0, "finish_reason": reason, "message": full}},
	})
}

// Completes answers 200 with a whole completion.
func Completes(completion map[string]any) Reply {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(completion); err != nil {
		panic(err) // of a script that cannot be written down
	}
	return Sends(text.String())
}

// Sends answers 200 with these bytes.
func Sends(body string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Refuses the content, as the API's own member for it says.
func Refuses() Reply {
	return Finishes("stop", map[string]any{"content": nil, "refusal": "I will not do that."})
}

// CallsATool although none was offered.
func CallsATool() Reply {
	return Finishes("tool_calls", map[string]any{"content": nil, "tool_calls": []any{map[string]any{
		"id": "call_1", "type": "function", "function": map[string]any{"name": "refund", "arguments": "{}"},
	}}})
}

// CallsAToolBeside a text.
func CallsAToolBeside(content string) Reply {
	return Finishes("stop", map[string]any{"content": content, "tool_calls": []any{map[string]any{"id": "call_1"}}})
}

// CutsOff answers with a text that is at its longest.
func CutsOff(content string) Reply { return Finishes("length", map[string]any{"content": content}) }

// Filters the content away.
func Filters() Reply { return Finishes("content_filter", map[string]any{"content": ""}) }

// Fails answers with a status, an error code and headers, given as names and values by turns.
func Fails(status int, code string, headers ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": Secret, "code": code}})
	}
}

// Redirects to another place.
func Redirects(to string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// BreaksOff in the middle of an answer.
func BreaksOff() Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		panic(http.ErrAbortHandler)
	}
}

// HangsUp without an answer.
func HangsUp() Reply { return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } }

// Hangs before the first byte of an answer, until the caller has gone.
func Hangs() Reply {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// HangsInside an answer, until the caller has gone.
func HangsInside() Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		<-r.Context().Done()
	}
}

// IsLate answers once the channel is closed, or never where the caller has gone by then.
func IsLate(until <-chan struct{}, reply Reply) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-until:
			reply(w, r)
		case <-r.Context().Done():
		}
	}
}

// IsHuge answers with so many bytes of JSON.
func IsHuge(size int) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"padding":"`)
		block := bytes.Repeat([]byte("x"), 64<<10)
		for left := size; left > 0; left -= len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}`)
	}
}

// begin writes a part of the answer that it announces.
func begin(w http.ResponseWriter) {
	const part = `{"choices":[{"finish_reason":"stop","message":{"content":"{`
	w.Header().Set("Content-Length", strconv.Itoa(10*len(part)))
	_, _ = io.WriteString(w, part)
	_ = http.NewResponseController(w).Flush()
}
