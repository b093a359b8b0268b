package ledger

import (
	"encoding/json"
	"strings"
)

// storable is text as Postgres can keep it: what is not UTF-8, and U+0000, become the replacement character. It is for text that
// others wrote, such as a provider's answer: a byte that cannot be stored must not keep an outcome from being recorded.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// headersJSON is what a message's headers are stored as.
func headersJSON(h map[string]string) string {
	if len(h) == 0 {
		return "{}"
	}
	clean := make(map[string]string, len(h))
	for name, value := range h {
		clean[storable(name)] = storable(value)
	}
	text, _ := json.Marshal(clean) // a map of strings always marshals
	return string(text)
}

func listJSON(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(list) // a list of strings always marshals
	return string(text)
}

func reasonsJSON(reasons []byte) string {
	if len(reasons) == 0 {
		return "[]"
	}
	return string(reasons)
}

func modelJSON(m []byte) string {
	if len(m) == 0 {
		return "{}"
	}
	return string(m)
}
