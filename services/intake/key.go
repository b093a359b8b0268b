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
	case name == headerIdempotencyKey && value[0] == '"':
		return quotedKey(value)
	}
	return checkedKey(value)
}

// headerIdempotencyKey is the one header that has a syntax of its own: a structured string
// (draft-ietf-httpapi-idempotency-key-header-07, section 2.1). Most senders leave the quotes out, so both forms name the
// same key.
const headerIdempotencyKey = "Idempotency-Key"

// quotedKey reads a string as RFC 9651 writes it (section 4.2.5): printable ASCII, with \" and \\ escaped and nothing else.
func quotedKey(value string) (string, *contracts.Problem) {
	bad := newProblem(contracts.CodeKeyInvalid,
		`The header Idempotency-Key begins with a quote and is not a quoted string: "…", with \" and \\ for those two alone.`)
	var key []byte
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			if i != len(value)-1 || len(key) == 0 {
				return "", bad
			}
			return checkedKey(string(key))
		case c == '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", bad
			}
			key = append(key, value[i])
		case c < ' ' || c > '~':
			return "", bad
		default:
			key = append(key, c)
		}
	}
	return "", bad
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
