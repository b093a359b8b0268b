package contracts

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 in UTC with the microseconds that Postgres keeps.
const timeLayout = "2006-01-02T15:04:05.999999Z07:00"

// AppendJSON appends the event in structured CloudEvents JSON. Members come in a fixed order, so that equal events have
// equal bytes.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"specversion":"1.0","id":`...)
	dst = appendString(dst, e.ID)
	dst = append(dst, `,"source":`...)
	dst = appendString(dst, e.Source())
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Data.Type())
	dst = append(dst, `,"subject":`...)
	dst = appendString(dst, e.Subject())
	dst = append(dst, `,"time":`...)
	dst = appendTime(dst, e.Time)
	dst = append(dst, `,"datacontenttype":"application/json"`...)
	if e.TraceParent != "" {
		dst = append(dst, `,"traceparent":`...)
		dst = appendString(dst, e.TraceParent)
	}
	dst = append(dst, `,"data":`...)
	return append(appendFields(dst, e.Data.fields()), '}')
}

// MarshalJSON lets encoding/json write an event inside other values.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(make([]byte, 0, 768)), nil }

func appendFields(dst []byte, fields []field) []byte {
	dst = append(dst, '{')
	first := true
	for _, f := range fields {
		if f.optional && f.empty() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = f.append(dst)
	}
	return append(dst, '}')
}

func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().Truncate(time.Microsecond).AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

func appendList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// appendString writes a JSON string. Nearly all our strings are plain ASCII and are copied; encoding/json escapes the
// rest.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
