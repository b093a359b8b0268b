package intake

import (
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/canonical"
	"github.com/holdpoint/holdpoint/pkg/config"
)

// celCost bounds the work of one key; an expression over a few members needs less than a hundredth.
const celCost = 10_000

// celKey compiles an expression over `body` and `headers` that yields the key as text. Numbers of the body are given as
// their exact decimal text, and headers under their lower-case names.
func celKey(expression string) (keyFunc, error) {
	env, err := config.NewKeyEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast, cel.CostLimit(celCost))
	if err != nil {
		return nil, err
	}
	lower := strings.ToLower(expression)
	return func(d *delivery) (string, *contracts.Problem) {
		if name := d.headers.repeatedIn(lower); name != "" {
			return "", newProblemf(contracts.CodeKeyAmbiguous, "The header %s is there more than once; send it once.",
				name)
		}
		return evalKey(program, d)
	}, nil
}

func evalKey(program cel.Program, d *delivery) (string, *contracts.Problem) {
	out, _, err := program.Eval(map[string]any{"body": plain(d.body), "headers": d.headers.plain()})
	if err != nil {
		return "", newProblem(contracts.CodeKeyMissing, "The key cannot be computed from this event: "+err.Error())
	}
	key, isText := out.Value().(string)
	switch {
	case !isText:
		return "", newProblemf(contracts.CodeKeyMissing, "The key rule yields a %s, not text.", out.Type().TypeName())
	case key == "":
		return "", newProblem(contracts.CodeKeyMissing, "The key rule yields an empty text for this event.")
	}
	return checkedKey(key)
}

// repeatedIn is a header with several values that an expression mentions: no choice among them would be safe.
func (h headers) repeatedIn(expression string) string {
	for name, values := range h {
		if len(values) > 1 && strings.Contains(expression, strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

func (h headers) plain() map[string]string {
	all := make(map[string]string, len(h))
	for name := range h {
		all[strings.ToLower(name)], _ = h.one(name)
	}
	return all
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
