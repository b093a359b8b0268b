package intake

import (
	"errors"
	"net/textproto"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// maxKeyBytes bounds an idempotency key on every door, so that no index entry depends on what is in it (INT-09).
const maxKeyBytes = 255

// keyFunc finds the idempotency key of a delivery (K1).
type keyFunc func(*delivery) (string, *contracts.Problem)

func newKeyFunc(rule config.KeyRule) (keyFunc, error) {
	switch {
	case rule.Header != "":
		name := textproto.CanonicalMIMEHeaderKey(rule.Header)
		return func(d *delivery) (string, *contracts.Problem) { return headerKey(d, name) }, nil
	case rule.CloudEvent:
		return cloudEventKey, nil
	case len(rule.Pointers) > 0:
		return func(d *delivery) (string, *contracts.Problem) { return pointerKey(d, rule.Pointers) }, nil
	case rule.CEL != "":
		return celKey(rule.CEL)
	}
	return nil, errors.New("no rule: give header, cloud_event, pointers or cel")
}

func headerKey(d *delivery, name string) (string, *contracts.Problem) {
	value, times := d.headers.one(name)
	switch {
	case times > 1:
		return "", newProblemf(contracts.CodeKeyAmbiguous, "The header %s is there %d times; send it once.", name,
			times)
	case value == "":
		return "", newProblemf(contracts.CodeKeyMissing,
			"Send the header %s with a key that is the same on every redelivery of this event.", name)
	}
	return checkedKey(value)
}

func pointerKey(d *delivery, pointers []string) (string, *contracts.Problem) {
	parts := make([]string, len(pointers))
	for i, p := range pointers {
		value, _ := d.body.Pointer(p)
		if value.Kind() == canonical.String || value.Kind() == canonical.Number {
			parts[i] = value.Text()
		}
		if parts[i] == "" {
			return "", newProblemf(contracts.CodeKeyMissing,
				"The body has no text or number at %s, which is part of the key.", p)
		}
	}
	return joinedKey(parts)
}

// joinedKey writes several parts as a JSON array, so that no two lists of parts give one key.
func joinedKey(parts []string) (string, *contracts.Problem) {
	if len(parts) == 1 {
		return checkedKey(parts[0])
	}
	items := make([]canonical.Value, len(parts))
	for i, p := range parts {
		if _, problem := checkedKey(p); problem != nil {
			return "", problem // before JSON escapes its control characters
		}
		items[i] = canonical.MustString(p)
	}
	return checkedKey(canonical.NewArray(items...).String())
}

func checkedKey(key string) (string, *contracts.Problem) {
	if len(key) > maxKeyBytes {
		return "", newProblemf(contracts.CodeKeyInvalid, "The key has %d bytes; at most %d are allowed.", len(key),
			maxKeyBytes)
	}
	if !utf8.ValidString(key) {
		return "", newProblem(contracts.CodeKeyInvalid, "The key is not valid UTF-8.")
	}
	for _, r := range key {
		if r < ' ' || 0x7f <= r && r <= 0x9f {
			return "", newProblem(contracts.CodeKeyInvalid, "The key holds a control character.")
		}
	}
	return key, nil
}
