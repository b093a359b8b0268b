package contracts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The functions here walk text that json.Valid has passed, which is what makes them this short. encoding/json itself
// cannot be used for events: it matches member names in any letter case and lets the last of two repeats win.

// members calls visit for each member of the object, with its name and the bare text of its value.
func members(object []byte, visit func(name, value []byte)) error {
	i := skipSpace(object, 0)
	if object[i] != '{' {
		return fmt.Errorf("must be a JSON object, found %s", clip(object[i:]))
	}
	for i = skipSpace(object, i+1); object[i] != '}'; {
		end := valueEnd(object, i)
		name := object[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			plain, err := unquote(object[i:end])
			if err != nil {
				return err
			}
			name = []byte(plain)
		}
		i = skipSpace(object, skipSpace(object, end)+1) // past the colon
		end = valueEnd(object, i)
		visit(name, object[i:end])
		if i = skipSpace(object, end); object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return nil
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// valueEnd is the index just past the value that starts at i.
func valueEnd(data []byte, i int) int {
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			i = scalarEnd(data, i) - 1
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(data)
}

// scalarEnd also steps over separators and space between the values of a container.
func scalarEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return i
}

func stringEnd(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

var errNotString = errors.New("not a string")

func unquote(raw []byte) (string, error) {
	if raw[0] != '"' {
		return "", errNotString
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return string(raw[1 : len(raw)-1]), nil
}

// clip keeps a value short enough for an error message.
func clip(raw []byte) string {
	if len(raw) > 40 {
		return string(raw[:40]) + "…"
	}
	return string(raw)
}
