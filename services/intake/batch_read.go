package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/holdpoint/holdpoint/contracts"
)

// readBatch takes a batch apart and leaves the bodies as they were sent; each is read by itself later. Names count in their
// exact letter case and once, which encoding/json would not see to (HASH-04).
func readBatch(raw []byte) (events []contracts.BatchEvent, err error) {
	var list []json.RawMessage
	err = members(raw, map[string]any{"events": &list})
	if err != nil {
		return nil, err
	}
	events = make([]contracts.BatchEvent, len(list))
	for i, item := range list {
		var sent json.RawMessage
		if err := members(item, map[string]any{"headers": &sent, "body": &events[i].Body}); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if events[i].Headers, err = texts(sent); err != nil {
			return nil, fmt.Errorf("headers of event %d: %w", i, err)
		}
	}
	return events, nil
}

// members decodes an object's members into the places that their names have.
func members(raw []byte, into map[string]any) error {
	return eachMember(raw, func(name string, value json.RawMessage) error {
		place, known := into[name]
		if !known {
			return fmt.Errorf("the member %q is not known", name)
		}
		return json.Unmarshal(value, place)
	})
}

// texts are the members of an object that are all text.
func texts(raw json.RawMessage) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	found := map[string]string{}
	return found, eachMember(raw, func(name string, value json.RawMessage) error {
		var text *string
		if err := json.Unmarshal(value, &text); err != nil || text == nil {
			return fmt.Errorf("%q is not text", name)
		}
		found[name] = *text
		return nil
	})
}

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
	if _, err := decoder.Token(); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}
