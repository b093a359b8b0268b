package canonical

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error says why text is not acceptable JSON and where. It holds member names of the input, but none of its values.
type Error struct {
	Path   string // JSON pointer (RFC 6901) to the value at fault; "" is the whole document
	Offset int    // byte offset in the input; -1 where a value was built in memory
	Reason string
}

func (e *Error) Error() string {
	where := "the document"
	if e.Path != "" {
		where = fmt.Sprintf("%q", e.Path)
	}
	if e.Offset < 0 {
		return fmt.Sprintf("JSON not acceptable: %s: %s", where, e.Reason)
	}
	return fmt.Sprintf("JSON not acceptable: %s, byte %d: %s", where, e.Offset, e.Reason)
}

// maxPathToken keeps a hostile member name from filling logs and problem details.
const maxPathToken = 64

// under prefixes the path with the member name or index that led to the fault.
func (e *Error) under(token string) *Error {
	if len(token) > maxPathToken {
		cut := maxPathToken
		for cut > 0 && !utf8.RuneStart(token[cut]) {
			cut--
		}
		token = token[:cut] + "…"
	}
	e.Path = "/" + escapeToken(token) + e.Path
	return e
}

// escapeToken writes a member name as a reference token of a JSON pointer.
func escapeToken(token string) string {
	if !strings.ContainsAny(token, "~/") {
		return token
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
