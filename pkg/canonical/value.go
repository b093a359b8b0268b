package canonical

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Kind is the JSON type of a value.
type Kind uint8

// The JSON types. The zero value is null.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "string", "array", "object"}[k]
}

// Value is an immutable JSON value; the zero value is null. Values are cheap to copy and safe to share.
type Value struct {
	kind Kind
	text string   // a string's characters, a number's canonical text, "true" or "false"
	list []Member // an object's members in canonical order, or an array's items with empty names
}

// Member is one member of an object.
type Member struct {
	Name  string
	Value Value
}

// Kind is the value's JSON type.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null. An absent member is told apart by the second result of Get and Pointer.
func (v Value) IsNull() bool { return v.kind == Null }

// Len is the number of items of an array or members of an object, and 0 for everything else.
func (v Value) Len() int { return len(v.list) }

// Index is item i of an array, from 0. Like a slice's, an index out of range panics.
func (v Value) Index(i int) Value { return v.list[i].Value }

// Items yields the items of an array in order.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.kind != Array {
			return
		}
		for i := range v.list {
			if !yield(v.list[i].Value) {
				return
			}
		}
	}
}

// Members yields the members of an object in canonical order.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.kind != Object {
			return
		}
		for i := range v.list {
			if !yield(v.list[i].Name, v.list[i].Value) {
				return
			}
		}
	}
}

// Get is the member of an object with exactly this name.
func (v Value) Get(name string) (Value, bool) {
	if v.kind != Object {
		return Value{}, false
	}
	i, found := slices.BinarySearchFunc(v.list, name, func(m Member, name string) int {
		return compareNames(m.Name, name)
	})
	if !found {
		return Value{}, false
	}
	return v.list[i].Value, true
}

// Text is the value as text for people and templates: the characters of a string, the exact decimal of a number, true,
// false, null, and canonical JSON for arrays and objects.
func (v Value) Text() string {
	switch v.kind {
	case Null:
		return "null"
	case Bool, Number, String:
		return v.text
	default:
		return string(v.AppendCanonical(nil))
	}
}

// Decimal is the exact canonical text of a number; false for any other kind.
func (v Value) Decimal() (string, bool) { return v.text, v.kind == Number }

// Int64 is the value of a number that is an integer in the range of int64; false for everything else.
func (v Value) Int64() (int64, bool) {
	if v.kind != Number {
		return 0, false
	}
	i, err := strconv.ParseInt(v.text, 10, 64)
	return i, err == nil
}

// True reports whether the value is the boolean true.
func (v Value) True() bool { return v.kind == Bool && v.text == "true" }

// String is the canonical JSON of the value.
func (v Value) String() string { return string(v.AppendCanonical(nil)) }

// Equal reports whether both have the same canonical form.
func (v Value) Equal(w Value) bool {
	return v.kind == w.kind && v.text == w.text && slices.EqualFunc(v.list, w.list, func(a, b Member) bool {
		return a.Name == b.Name && a.Value.Equal(b.Value)
	})
}

// AppendCanonical appends the canonical JSON of the value to dst.
func (v Value) AppendCanonical(dst []byte) []byte { return appendValue(dst, &v) }

func appendValue(dst []byte, v *Value) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool, Number:
		return append(dst, v.text...)
	case String:
		return appendText(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, &v.list[i].Value)
		}
		return append(dst, ']')
	default:
		dst = append(dst, '{')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, v.list[i].Name), ':')
			dst = appendValue(dst, &v.list[i].Value)
		}
		return append(dst, '}')
	}
}

// MarshalJSON writes the canonical form. Note that encoding/json then escapes <, > and & unless its encoder is told not
// to, which changes the bytes (not the value): hash and store AppendCanonical's result.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendCanonical(nil), nil }

// UnmarshalJSON reads with the strictness of Parse, so that a struct field of type Value refuses what Parse refuses.
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

// Any converts to the types of encoding/json with UseNumber: nil, bool, json.Number, string, []any, map[string]any.
func (v Value) Any() any {
	switch v.kind {
	case Null:
		return nil
	case Bool:
		return v.text == "true"
	case Number:
		return json.Number(v.text)
	case String:
		return v.text
	case Array:
		items := make([]any, len(v.list))
		for i := range v.list {
			items[i] = v.list[i].Value.Any()
		}
		return items
	default:
		members := make(map[string]any, len(v.list))
		for i := range v.list {
			members[v.list[i].Name] = v.list[i].Value.Any()
		}
		return members
	}
}

// Pointer is the value that a JSON pointer (RFC 6901) leads to; "" is the value itself. It is false where nothing is
// there or the pointer is malformed.
func (v Value) Pointer(pointer string) (Value, bool) {
	for pointer != "" {
		if pointer[0] != '/' {
			return Value{}, false
		}
		token := pointer[1:]
		if end := strings.IndexByte(token, '/'); end >= 0 {
			token, pointer = token[:end], token[end:]
		} else {
			pointer = ""
		}
		next, found := v.step(unescapeToken(token))
		if !found {
			return Value{}, false
		}
		v = next
	}
	return v, true
}

// step follows one unescaped reference token.
func (v Value) step(token string) (Value, bool) {
	if v.kind == Array {
		i, ok := arrayIndex(token, len(v.list))
		if !ok {
			return Value{}, false
		}
		return v.list[i].Value, true
	}
	return v.Get(token)
}

// arrayIndex reads an array index as RFC 6901 writes it: digits without leading zeros. "-" names no existing item.
func arrayIndex(token string, length int) (int, bool) {
	if token == "" || len(token) > 9 || (token[0] == '0' && len(token) > 1) {
		return 0, false
	}
	i := 0
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int(c-'0')
	}
	return i, i < length
}

func unescapeToken(token string) string {
	if strings.IndexByte(token, '~') < 0 {
		return token
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
