package contracts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is one member of a JSON object: its wire name and where its value lives. One list of fields per type serves the
// encoder, the decoder and the checks, so that none of them can know a member that the others do not.
type field struct {
	name     string
	into     any // *string, *int, *bool, *time.Time, *[]string, or *json.RawMessage
	optional bool
	allowed  []string // closed list of a *string; nil allows all
}

// empty reports whether an optional member would be left out.
func (f field) empty() bool {
	switch v := f.into.(type) {
	case *string:
		return *v == ""
	case *int:
		return *v == 0
	case *bool:
		return f.optional && !*v // both values of a required one say something
	case *time.Time:
		return v.IsZero()
	case *[]string:
		return len(*v) == 0
	case *json.RawMessage:
		return len(*v) == 0
	}
	return true
}

// check says what is wrong with the value as it stands.
func (f field) check() error {
	if f.empty() {
		if f.optional {
			return nil
		}
		return fmt.Errorf("%s is missing", f.name)
	}
	if v, ok := f.into.(*string); ok && f.allowed != nil && !slices.Contains(f.allowed, *v) {
		return fmt.Errorf("%s is %q, allowed: %s", f.name, *v, strings.Join(f.allowed, ", "))
	}
	return nil
}

// append writes the member with its name.
func (f field) append(dst []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, f.name...) // names are ours and need no escaping
	dst = append(dst, '"', ':')
	switch v := f.into.(type) {
	case *string:
		return appendString(dst, *v)
	case *int:
		return strconv.AppendInt(dst, int64(*v), 10)
	case *bool:
		return strconv.AppendBool(dst, *v)
	case *time.Time:
		return appendTime(dst, *v)
	case *[]string:
		return appendList(dst, *v)
	case *json.RawMessage:
		return append(dst, *v...)
	}
	return dst
}

// set reads the value, which is valid JSON text.
func (f field) set(raw []byte) error {
	switch v := f.into.(type) {
	case *string:
		return f.setString(v, raw)
	case *int:
		n, err := strconv.Atoi(string(raw))
		if err != nil {
			return fmt.Errorf("%s must be a plain integer, found %s", f.name, clip(raw))
		}
		*v = n
	case *bool:
		return f.setBool(v, raw)
	case *time.Time:
		return f.setTime(v, raw)
	case *[]string:
		return f.setList(v, raw)
	case *json.RawMessage:
		*v = raw
	}
	return nil
}

func (f field) setString(into *string, raw []byte) error {
	s, err := unquote(raw)
	if err != nil {
		return fmt.Errorf("%s must be a string, found %s", f.name, clip(raw))
	}
	*into = s
	return nil
}

func (f field) setBool(into *bool, raw []byte) error {
	switch string(raw) {
	case "true", "false":
		*into = raw[0] == 't'
		return nil
	}
	return fmt.Errorf("%s must be true or false, found %s", f.name, clip(raw))
}

// setTime keeps what timeLayout can write again: microseconds, and years of four digits in UTC.
func (f field) setTime(into *time.Time, raw []byte) error {
	text, err := unquote(raw)
	if err != nil {
		return fmt.Errorf("%s must be a string, found %s", f.name, clip(raw))
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	at = at.UTC().Truncate(time.Microsecond)
	if err != nil || at.Year() < 0 || at.Year() > 9999 {
		return fmt.Errorf("%s is %s, which is not RFC 3339", f.name, clip(raw))
	}
	*into = at
	return nil
}

// setList refuses null and null items, which encoding/json would read as nothing.
func (f field) setList(into *[]string, raw []byte) error {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return fmt.Errorf("%s must be an array of strings, found %s", f.name, clip(raw))
	}
	list := make([]string, len(items))
	for i, item := range items {
		s, err := unquote(item)
		if err != nil {
			return fmt.Errorf("%s[%d] must be a string, found %s", f.name, i, clip(item))
		}
		list[i] = s
	}
	*into = list
	return nil
}

// read fills fields from the members of an object, which is valid JSON text. Members that no field names are skipped;
// a repeated member, a missing one and a wrong type are errors.
func read(object []byte, fields []field) error {
	var errs []error
	var seen uint32 // one bit a field; no object here has near 32
	err := members(object, func(name, value []byte) {
		for i, f := range fields {
			if string(name) != f.name {
				continue
			}
			if seen&(1<<i) != 0 {
				errs = append(errs, fmt.Errorf("%s is there twice", f.name))
			}
			seen |= 1 << i
			if err := f.set(value); err != nil {
				errs = append(errs, err)
			}
		}
	})
	if err != nil {
		return err
	}
	for i, f := range fields { // an absent text, number or list is found by being empty
		if _, ok := f.into.(*bool); ok && !f.optional && seen&(1<<i) == 0 {
			errs = append(errs, fmt.Errorf("%s is missing", f.name))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // what a bad member left empty would only be reported twice
	}
	return check(fields)
}

// check joins what is wrong with the values as they stand.
func check(fields []field) error {
	var errs []error
	for _, f := range fields {
		if err := f.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
