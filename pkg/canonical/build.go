package canonical

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// NewBool is a boolean.
func NewBool(b bool) Value { return Value{kind: Bool, text: strconv.FormatBool(b)} }

// NewInt is a number.
func NewInt(i int64) Value { return Value{kind: Number, text: strconv.FormatInt(i, 10)} }

// NewNumber reads a number as JSON writes it. Its error is an *Error.
func NewNumber(text string) (Value, error) {
	n, reason := scanNumber(text)
	if reason == "" && n.size != len(text) {
		reason = reasonNumber
	}
	if reason == "" {
		text, reason = n.canonical(text)
	}
	if reason != "" {
		return Value{}, &Error{Offset: -1, Reason: reason}
	}
	return Value{kind: Number, text: text}, nil
}

// NewString is a string. Invalid UTF-8 and U+0000 are refused with an *Error.
func NewString(s string) (Value, error) {
	if reason := checkText(s); reason != "" {
		return Value{}, &Error{Offset: -1, Reason: reason}
	}
	return Value{kind: String, text: s}, nil
}

// MustString is NewString for text known to be sound, such as a hex digest or a constant; it panics if it is not.
func MustString(s string) Value {
	v, err := NewString(s)
	if err != nil {
		panic(err)
	}
	return v
}

// NewArray is an array of these items.
func NewArray(items ...Value) Value {
	list := make([]Member, len(items))
	for i, item := range items {
		list[i].Value = item
	}
	return Value{kind: Array, list: list}
}

// NewObject is an object of these members, in whatever order they come. Repeated names and names that are not sound text
// are refused with an *Error.
func NewObject(members ...Member) (Value, error) {
	list := slices.Clone(members)
	for _, m := range list {
		if reason := checkText(m.Name); reason != "" {
			return Value{}, &Error{Offset: -1, Reason: "a member name: " + reason}
		}
	}
	if repeated, found := order(list); found {
		return Value{}, (&Error{Offset: -1, Reason: "a member name is repeated"}).under(repeated)
	}
	return Value{kind: Object, list: list}, nil
}

// FromAny builds a value from Go data: nil, bool, string, every integer type, finite float64 (as the shortest decimal
// that reads back as it), json.Number, json.RawMessage, Value, and slices and string-keyed maps of those. Its error is an
// *Error.
func FromAny(data any) (Value, error) {
	v, err := fromAny(data, 0)
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

func fromAny(data any, depth int) (Value, *Error) {
	if depth > MaxDepth {
		return Value{}, &Error{Offset: -1, Reason: "nested too deeply"}
	}
	switch d := data.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return d, nil
	case bool:
		return NewBool(d), nil
	case string:
		return asError(NewString(d))
	case json.Number:
		return asError(NewNumber(string(d)))
	case json.RawMessage:
		return asError(Parse(d))
	case float64:
		return fromFloat(d)
	case []any:
		return fromSlice(d, depth)
	case []string:
		return fromSlice(d, depth)
	case []Value:
		return NewArray(d...), nil
	case map[string]any:
		return fromMap(d, depth)
	case map[string]string:
		return fromMap(d, depth)
	case map[string]Value:
		return fromMap(d, depth)
	default:
		return fromInteger(data)
	}
}

func fromInteger(data any) (Value, *Error) {
	switch data.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return asError(NewNumber(fmt.Sprint(data)))
	}
	return Value{}, &Error{Offset: -1, Reason: fmt.Sprintf("a %T has no JSON form here", data)}
}

func fromFloat(f float64) (Value, *Error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, &Error{Offset: -1, Reason: "a number must be finite"}
	}
	return asError(NewNumber(strconv.FormatFloat(f, 'e', -1, 64)))
}

func fromSlice[T any](data []T, depth int) (Value, *Error) {
	list := make([]Member, len(data))
	for i := range data {
		item, err := fromAny(data[i], depth+1)
		if err != nil {
			return Value{}, err.under(strconv.Itoa(i))
		}
		list[i].Value = item
	}
	return Value{kind: Array, list: list}, nil
}

func fromMap[T any](data map[string]T, depth int) (Value, *Error) {
	members := make([]Member, 0, len(data))
	for name := range data {
		member, err := fromAny(data[name], depth+1)
		if err != nil {
			return Value{}, err.under(name)
		}
		members = append(members, Member{Name: name, Value: member})
	}
	return asError(NewObject(members...))
}

// asError keeps the concrete type of this package's errors, so that callers can extend the path.
func asError(v Value, err error) (Value, *Error) {
	if err == nil {
		return v, nil
	}
	return Value{}, err.(*Error)
}
