package intake

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

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
		return func(d *delivery) (string, *contracts.Problem) { return headerKey(d, rule.Header) }, nil
	case rule.CloudEvent:
		return cloudEventKey, nil
	case len(rule.Pointers) > 0:
		return func(d *delivery) (string, *contracts.Problem) { return pointerKey(d, rule.Pointers) }, nil
	case rule.CEL != "":
		return celKey(rule.CEL)
	}
	return nil, errors.New("no rule: give header, cloudevent, pointers or cel")
}

func headerKey(d *delivery, name string) (string, *contracts.Problem) {
	values := d.header(name)
	switch {
	case len(values) > 1:
		return "", contracts.NewProblem(contracts.CodeKeyAmbiguous, fmt.Sprintf("The header %s is there %d times; send it once.", name, len(values)))
	case len(values) == 0 || values[0] == "":
		return "", contracts.NewProblem(contracts.CodeKeyMissing, fmt.Sprintf(
			"Send the header %s with a key that is the same on every redelivery of this event.", name))
	}
	return checkedKey(values[0])
}

// cloudEventKey joins source and id, which together name one event (CloudEvents 1.0). In structured mode they are members of the
// body, in binary mode headers.
func cloudEventKey(d *delivery) (string, *contracts.Problem) {
	var parts []string
	for _, name := range []string{"source", "id"} {
		value, _ := d.body.Get(name)
		if values := d.header("ce-" + name); len(values) == 1 {
			parts = append(parts, values[0])
		} else if value.Kind() == canonical.String {
			parts = append(parts, value.Text())
		} else {
			return "", contracts.NewProblem(contracts.CodeKeyMissing, fmt.Sprintf("The CloudEvents attribute %s is missing.", name))
		}
	}
	return joinedKey(parts)
}

func pointerKey(d *delivery, pointers []string) (string, *contracts.Problem) {
	var parts []string
	for _, p := range pointers {
		value, ok := d.body.Pointer(p)
		if !ok || (value.Kind() != canonical.String && value.Kind() != canonical.Number) || value.Text() == "" {
			return "", contracts.NewProblem(contracts.CodeKeyMissing, fmt.Sprintf("The body has no text or number at %s, which is part of the key.", p))
		}
		parts = append(parts, value.Text())
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
		item, err := canonical.NewString(p)
		if err != nil {
			return "", contracts.NewProblem(contracts.CodeKeyInvalid, "A part of the key cannot be represented: "+err.Error())
		}
		items[i] = item
	}
	return checkedKey(canonical.NewArray(items...).String())
}

func checkedKey(key string) (string, *contracts.Problem) {
	if len(key) == 0 {
		return "", contracts.NewProblem(contracts.CodeKeyMissing, "The key is empty.")
	}
	if len(key) > maxKeyBytes {
		return "", contracts.NewProblem(contracts.CodeKeyInvalid, fmt.Sprintf("The key has %d bytes; at most %d are allowed.", len(key), maxKeyBytes))
	}
	if !utf8.ValidString(key) {
		return "", contracts.NewProblem(contracts.CodeKeyInvalid, "The key is not valid UTF-8.")
	}
	for _, r := range key {
		if r < ' ' || r == 0x7f || (0x80 <= r && r <= 0x9f) {
			return "", contracts.NewProblem(contracts.CodeKeyInvalid, "The key holds a control character.")
		}
	}
	return key, nil
}

// celKey compiles an expression over `body` and `headers` that yields the key as text. Numbers of the body are given as their exact
// decimal text.
func celKey(expression string) (keyFunc, error) {
	env, err := cel.NewEnv(cel.Variable("body", cel.DynType), cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast, cel.CostLimit(10_000))
	if err != nil {
		return nil, err
	}
	return func(d *delivery) (string, *contracts.Problem) {
		out, _, err := program.Eval(map[string]any{"body": plain(d.body), "headers": d.flatHeaders()})
		if err != nil {
			return "", contracts.NewProblem(contracts.CodeKeyMissing, "The key cannot be computed from this event: "+err.Error())
		}
		key, ok := out.Value().(string)
		if !ok {
			return "", contracts.NewProblem(contracts.CodeKeyMissing, fmt.Sprintf("The key rule yields a %T, not text.", out.Value()))
		}
		return checkedKey(key)
	}, nil
}

func plain(v canonical.Value) any {
	switch v.Kind() {
	case canonical.Object:
		m := make(map[string]any, v.Len())
		for name, value := range v.Members() {
			m[name] = plain(value)
		}
		return m
	case canonical.Array:
		list := make([]any, 0, v.Len())
		for item := range v.Items() {
			list = append(list, plain(item))
		}
		return list
	case canonical.Bool:
		return v.True()
	case canonical.Null:
		return nil
	default:
		return v.Text()
	}
}
