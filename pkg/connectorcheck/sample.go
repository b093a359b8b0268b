package connectorcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// tokenRef stands in a sample for a text of letters and digits that no other check has, for systems that refuse the same content twice.
const tokenRef = "${token}"

// Sample is an intent to exercise an operation with. Where the operation has a read, the target's version is read, and
// CurrentVersion is not needed.
type Sample struct {
	Target         json.RawMessage `json:"target"`          // an object, as in a proposal
	ProposedChange json.RawMessage `json:"proposed_change"` // an object
	CurrentVersion string          `json:"current_version,omitempty"`
}

// ReadSamples reads a JSON list of samples, or one alone. The first is written; another one is what its key is sent with besides, to
// see it refused, and must not be needed where the sample has ${token}, which is another one each time.
func ReadSamples(text []byte) ([]Sample, error) {
	if trimmed := bytes.TrimSpace(text); !bytes.HasPrefix(trimmed, []byte("[")) {
		text = append(append([]byte("["), trimmed...), ']')
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var samples []Sample
	if err := decoder.Decode(&samples); err != nil {
		return nil, fmt.Errorf("read the samples, a JSON list of target, proposed_change and current_version: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the samples: something follows the list")
	}
	if len(samples) == 0 {
		return nil, errors.New("read the samples: the list is empty, and at least one is needed")
	}
	for i, s := range samples {
		if !isObject(s.Target) || !isObject(s.ProposedChange) {
			return nil, fmt.Errorf("read the samples: number %d must have target and proposed_change, each an object", i+1)
		}
	}
	return samples, nil
}

func isObject(text json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) }

// action is the sample as the action of an intent, at a version of the target.
func (s Sample) action(version, token string) (canonical.Value, error) {
	members := map[string]any{"target": s.Target, "proposed_change": s.ProposedChange}
	if version != "" {
		members["current_version"] = version
	}
	text, err := json.Marshal(members)
	if err != nil {
		return canonical.Value{}, fmt.Errorf("read the sample: %w", err)
	}
	action, err := canonical.Parse([]byte(strings.ReplaceAll(string(text), tokenRef, token)))
	if err != nil {
		return canonical.Value{}, fmt.Errorf("read the sample: %w", err)
	}
	return action, nil
}
