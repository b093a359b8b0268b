package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// readBatch takes a batch apart and leaves the bodies as they were sent; each is read by itself later. Names count in their
// exact letter case and once, which encoding/json would not see to (HASH-04).
func readBatch(raw []byte) (events []contracts.BatchEvent, err error) {
	var all json.RawMessage
	if err := members(raw, map[string]*json.RawMessage{"events": &all}); err != nil {
		return nil, err
	}
	list, err := elements(all)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	events = make([]contracts.BatchEvent, len(list))
	for i, item := range list {
		var sent json.RawMessage
		if err := members(item, map[string]*json.RawMessage{"headers": &sent, "body": &events[i].Body}); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if events[i].Headers, err = fields(sent); err != nil {
			return nil, fmt.Errorf("headers of event %d: %w", i, err)
		}
	}
	return events, nil
}

// elements are the values of the one array that raw holds, or the first ones where there are more than a batch may have:
// nobody can have millions taken apart.
func elements(raw []byte) (list []json.RawMessage, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("there is no array")
	}
	for decoder.More() && len(list) <= maxBatch {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	if len(list) > maxBatch {
		return list, nil
	}
	return list, atEnd(decoder)
}

// members puts an object's members into the places that their names have.
func members(raw []byte, into map[string]*json.RawMessage) error {
	return eachMember(raw, func(name string, value json.RawMessage) error {
		place, known := into[name]
		if !known {
			return fmt.Errorf("the member %q is not known", name)
		}
		*place = value
		return nil
	})
}

// fields are the headers of an event. They are read as faithfully as a body, because a key may be one of them: no two texts
// become one (HASH-06), and what could not have come as a header over HTTP does not come as one here (RFC 9110, section 5).
func fields(raw json.RawMessage) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	object, err := canonical.Parse(raw)
	if err != nil {
		return nil, err
	}
	if object.Kind() != canonical.Object {
		return nil, errors.New("there is no object")
	}
	found := make(map[string]string, object.Len())
	for name, value := range object.Members() {
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			return nil, fmt.Errorf("%q is no name of a header", name)
		case value.Kind() != canonical.String:
			return nil, fmt.Errorf("%q is not text", name)
		case strings.ContainsFunc(value.Text(), isControl):
			return nil, fmt.Errorf("%q holds a control character", name)
		}
		found[name] = value.Text()
	}
	return found, nil
}

// notToken is true of what a header's name cannot hold (RFC 9110, section 5.6.2).
func notToken(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// eachMember visits the members of the one object that raw holds.
func eachMember(raw []byte, visit func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.New("there is no object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name := token.(string) // the decoder takes nothing else here
		if seen[name] {
			return fmt.Errorf("the member %q is there twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	return atEnd(decoder)
}

// atEnd steps over the bracket that closes the document.
func atEnd(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}
